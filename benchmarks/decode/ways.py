"""How a model's decoding is compiled: transformers' own `CompileConfig`, by name."""

from __future__ import annotations

from typing import Any

GROUPS: dict[str, tuple[str, ...]] = {
    "modes": ("eager", "default", "reduce-overhead", "pygraph"),
    "max_autotune": ("max-autotune-no-cudagraphs", "max-autotune", "max-autotune pygraph"),
}
ROWS = [f"batch{batch}_{group}" for group in GROUPS for batch in (1, 8)]


def settings(way: str) -> dict[str, Any] | None:
    """The arguments of `CompileConfig`; None: nothing is compiled."""
    if way == "eager":
        return None
    mode, _, backend = way.rpartition(" ")
    if way == "pygraph":
        return {"backend": "pygraph"}
    if backend == "pygraph":
        return {"backend": "pygraph", "mode": mode}
    return {"mode": way}
