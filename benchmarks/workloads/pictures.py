"""Two pictures: speed against default mode, and memory against default mode. Needs matplotlib."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from benchmarks.workloads.summary import Row

_COLOURS = {"reduce-overhead": "#e08b2c", "pygraph": "#2b6cb0"}
SPEED, MEMORY = "workloads-speed.png", "workloads-memory.png"


def draw(rows: list[Row], folder: Path) -> list[str]:
    """Writes the pictures and returns their names; none where matplotlib is missing or there is
    nothing to show.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return []
    speed = {row.name: _speeds(row) for row in rows if row.timed}
    memory = {row.name: _memories(row) for row in rows}
    drawn = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, title, figures in (
        (SPEED, "Speed relative to torch.compile's default mode (higher is better)", speed),
        (MEMORY, "Peak reserved memory relative to default mode (lower is better)", memory),
    ):
        if any(figures.values()):
            _bars(figures, title, folder / name)
            drawn.append(name)
    return drawn


def _speeds(row: Row) -> dict[str, float | None]:
    """Ratio to default for each variant that ran, None for one that failed."""
    found = {name: row.ratio("default", name) for name in _COLOURS}
    return {name: ratio for name, ratio in found.items() if ratio or name in row.failures}


def _memories(row: Row) -> dict[str, float | None]:
    """The same for peak reserved memory."""
    base = row.memory("default")
    found = {name: row.memory(name) for name in _COLOURS}
    return {
        name: value / base if value and base else None
        for name, value in found.items()
        if value or name in row.failures
    }


def _bars(figures: dict[str, dict[str, float | None]], title: str, path: Path) -> None:
    """Horizontal bars grouped by workload on a logarithmic axis through 1."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    variants = [name for name in _COLOURS if any(name in bars for bars in figures.values())]
    order = sorted(figures, key=lambda workload: _sort_key(figures[workload], variants))
    figure, axes = pyplot.subplots(figsize=(9, 1.4 + 0.15 * len(order) * (len(variants) + 0.6)))
    height = 0.8 / len(variants)
    for place, workload in enumerate(order):
        for index, variant in enumerate(variants):
            position = place + 0.4 - (index + 0.5) * height
            if variant in figures[workload]:
                _bar(axes, position, height, variant, figures[workload][variant])
            elif figures[workload]:
                _note(axes, position, f"{variant} not run")
    axes.axvline(1.0, color="#444444", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yticks(range(len(order)), order, fontsize=8)
    axes.set_ylim(-0.6, len(order) - 0.4)
    _ticks(axes, [value for bars in figures.values() for value in bars.values() if value])
    axes.grid(axis="x", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.set_title(title, fontsize=10, loc="left", pad=24)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=_COLOURS[name]) for name in variants]
    axes.legend(
        handles,
        variants,
        fontsize=8,
        ncols=len(variants),
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _bar(axes: Any, position: float, height: float, variant: str, value: float | None) -> None:
    if value is None:
        _note(axes, position, f"{variant} failed")
        return
    axes.barh(position, value - 1, height, left=1, color=_COLOURS[variant])
    aligned = {"ha": "left"} if value >= 1 else {"ha": "right"}
    edge = value * (1.01 if value >= 1 else 0.99)
    axes.text(edge, position, f"{value:.2f}", fontsize=6.5, va="center", **aligned)


def _note(axes: Any, position: float, text: str) -> None:
    axes.text(1.02, position, text, fontsize=6.5, va="center", color="#888888")


def _ticks(axes: Any, values: list[float]) -> None:
    """Ticks at round ratios that cover the values."""
    marks = [0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16]
    low, high = min([*values, 1.0]) * 0.85, max([*values, 1.0]) * 1.2
    shown = [mark for mark in marks if low <= mark <= high]
    axes.set_xlim(low, high)
    axes.set_xticks(shown, [f"{mark:g}x" for mark in shown], fontsize=8)
    axes.minorticks_off()


def _sort_key(bars: dict[str, float | None], variants: list[str]) -> float:
    """By the first variant that has a value."""
    return next((value for variant in variants if (value := bars.get(variant))), 0.0)
