"""Draws a figure as SVG, for light and for dark pages. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.figures.data import THEMES, Figure, whole

# Okabe and Ito's colours, which people with every kind of colour vision can tell apart; bars of one
# series also have a hatch of their own.
_COLOURS = {
    "light": {
        "ink": "#1f2937",
        "grid": "#9ca3af",
        "series": ("#e69f00", "#0072b2", "#009e73"),
    },
    "dark": {
        "ink": "#e5e7eb",
        "grid": "#6b7280",
        "series": ("#e69f00", "#56b4e9", "#33c2a0"),
    },
}
_HATCHES = ("///", "", "\\\\\\")
_TICKS = (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16)


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Write the pictures of a figure."""
    return [_draw(figure, theme, folder / f"{figure.name}-{theme}.svg") for theme in THEMES]


def _draw(figure: Figure, theme: str, path: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours: dict[str, Any] = _COLOURS[theme]
    ink = colours["ink"]
    settings = {
        "svg.hashsalt": "pygraph",  # the same names of paths in every run
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "text.color": ink,
        "axes.labelcolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "hatch.linewidth": 0.6,
    }
    with pyplot.rc_context(settings):
        rows = len(figure.bars) * (len(figure.series) + 0.6)
        made, axes = pyplot.subplots(figsize=(9, 1.4 + 0.16 * rows))
        _bars(figure, axes, colours)
        _axes(figure, axes, colours)
        made.tight_layout()
        made.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
        pyplot.close(made)
    _name(path, figure)
    return path


def _bars(figure: Figure, axes: Any, colours: dict[str, Any]) -> None:
    height = 0.8 / len(figure.series)
    start = 1.0 if figure.log else 0.0
    for place, own in enumerate(figure.bars.values()):
        for index, name in enumerate(figure.series):
            position = place + 0.4 - (index + 0.5) * height
            value = own.get(name)
            if value is None:
                word = "failed" if name in own else "not run"
                axes.text(start + 0.02, position, f"{name} {word}", fontsize=6.5, va="center")
                continue
            axes.barh(
                position,
                value - start,
                height,
                left=start,
                color=colours["series"][index],
                hatch=_HATCHES[index],
                edgecolor=colours["ink"],
                linewidth=0.3,
            )
            _value(figure, axes, position, value)


def _value(figure: Figure, axes: Any, position: float, value: float) -> None:
    text = f"{value:.2f}" if figure.log else whole(value)
    right = not figure.log or value >= 1
    edge = value * (1.01 if right else 0.99) if figure.log else value
    axes.text(
        edge, position, f" {text} ", fontsize=6.5, va="center", ha="left" if right else "right"
    )


def _axes(figure: Figure, axes: Any, colours: dict[str, Any]) -> None:
    axes.set_facecolor("none")
    axes.set_yticks(range(len(figure.bars)), list(figure.bars), fontsize=8)
    axes.set_ylim(-0.6, len(figure.bars) - 0.4)
    values = [value for own in figure.bars.values() for value in own.values() if value]
    if figure.log:
        axes.axvline(1.0, color=colours["ink"], linewidth=1)
        axes.set_xscale("log", base=2)
        low, high = min([*values, 1.0]) * 0.85, max([*values, 1.0]) * 1.2
        shown = [tick for tick in _TICKS if low <= tick <= high]
        axes.set_xlim(low, high)
        axes.set_xticks(shown, [f"{tick:g}x" for tick in shown], fontsize=8)
        axes.minorticks_off()
    else:
        axes.set_xlim(0, 1.1 * max(values))
        axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", linewidth=0.4, alpha=0.6, color=colours["grid"])
    axes.set_axisbelow(True)
    axes.set_title(figure.title, fontsize=10, loc="left", pad=24)
    axes.legend(
        [_key(colours, index) for index in range(len(figure.series))],
        figure.series,
        fontsize=8,
        ncols=len(figure.series),
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(colours["grid"])


def _key(colours: dict[str, Any], index: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(
        (0, 0),
        1,
        1,
        facecolor=colours["series"][index],
        hatch=_HATCHES[index],
        edgecolor=colours["ink"],
        linewidth=0.3,
    )


def _name(path: Path, figure: Figure) -> None:
    """Give the picture its text for screen readers, and the digest of what it shows."""
    text = path.read_text(encoding="utf-8")
    start = text.index("<svg")
    end = text.index(">", start) + 1
    said = figure.alt.replace("&", "&amp;").replace("<", "&lt;")
    head = f"{text[start:end]}\n <title>{said}</title>\n <desc>{figure.digest()}</desc>"
    lines = (text[:start] + head + text[end:]).splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")
