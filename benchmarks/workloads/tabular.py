"""Figures as cells of a table, and tables."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.workloads import summary


def mean(values: list[float]) -> str:
    """The geometric mean of ratios."""
    found = summary.geometric_mean(values)
    return "-" if found is None else f"{found:.3f}x ({len(values)} workloads)"


def shown(timed: summary.Timed) -> str:
    """Milliseconds, and their spread."""
    return f"{timed.ms:.3f} ±{100 * timed.spread:.0f}%"


def times(ratio: float | None) -> str:
    """A ratio."""
    return "-" if ratio is None else f"{ratio:.2f}x"


def whole_mib(value: float | None) -> str:
    """Bytes as whole MiB, without the unit."""
    return "-" if value is None else f"{value / 2**20:.0f}"


def mebibytes(value: int | None) -> str:
    """Bytes as MiB."""
    return "-" if value is None else f"{value / 2**20:.1f} MiB"


def sentence(reason: str, limit: int = 260) -> str:
    """A failure on one line, cut in the middle, since its place is named at the end."""
    text = " ".join(reason.split())
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]} ... {text[-limit // 2 :]}"


def markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(header) + " |", "| --- " * len(header) + "|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in body]
    return "\n".join(lines)
