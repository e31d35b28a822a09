"""Seconds from before `torch.compile` until call 1, 10, 100 and 500, cold and warm:
`python -m benchmarks.first_calls`.

Each time is of a fresh process. Cold: with empty caches of Inductor; warm: with those that the cold
process of the same mode has left, the modes in turn. A row holds medians of three rounds, or of
$PYGRAPH_ROUNDS, in each of which one process is cold and one (or $PYGRAPH_WARM) warm, and each
mode's times as parts of default mode's. Options as in `benchmarks.rows`.
"""

from __future__ import annotations

import os
import statistics
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import rows
from benchmarks.first_calls.measure import MODES
from benchmarks.first_calls.models import MODELS
from benchmarks.runtime.__main__ import run

_MODULE = "benchmarks.first_calls.measure"
# Cold processes of each mode, and warm ones after each of them: odd numbers.
ROUNDS = int(os.environ.get("PYGRAPH_ROUNDS", "3"))
WARM = int(os.environ.get("PYGRAPH_WARM", "1"))


def measure(name: str, extra: list[str], cache: str, seconds: int) -> rows.Row:
    """All modes of one model, in turn; the first error ends the row."""
    found: dict[str, dict[str, list[Any]]] = {m: {"cold": [], "warm": []} for m in MODES}
    for _ in range(ROUNDS):
        with ExitStack() as stack:
            folders = {m: stack.enter_context(TemporaryDirectory(dir=cache)) for m in MODES}
            for state in ("cold", *["warm"] * WARM):
                for mode, folder in folders.items():
                    row = run([name, "--mode", mode, *extra], folder, seconds, _MODULE)
                    if "error" in row:
                        row["error"] = rows.without_paths(str(row["error"]))
                        if mode != "reduce-overhead":
                            return {**row, "mode": mode}
                    found[mode][state].append(row)
    return {"modes": found, "medians": (medians := _medians(found)), "beside": _beside(medians)}


def _medians(found: dict[str, dict[str, list[Any]]]) -> dict[str, dict[str, dict[str, float]]]:
    return {
        mode: {
            state: {at: statistics.median(row["s"][at] for row in runs) for at in runs[0]["s"]}
            for state, runs in states.items()
            if all("s" in row for row in runs)
        }
        for mode, states in found.items()
    }


def _beside(medians: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Each mode's times as parts of default mode's."""
    default = medians["default"]
    return {
        mode: {
            state: {at: round(s / default[state][at], 3) for at, s in times.items()}
            for state, times in states.items()
        }
        for mode, states in medians.items()
        if mode != "default"
    }


def summary(row: rows.Row) -> str:
    """A row in one line."""
    return f"{row['name']}: beside default {row['beside']}"


BENCHMARK = rows.Benchmark(
    module=_MODULE,
    names=list(MODELS),
    out="benchmarks/results/first_calls.json",
    summary=summary,
    measure=measure,
    seconds=300,
)

if __name__ == "__main__":
    Path(BENCHMARK.out).parent.mkdir(parents=True, exist_ok=True)
    rows.main(BENCHMARK, __doc__)
