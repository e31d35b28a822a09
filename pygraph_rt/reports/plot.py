"""A saved report as a picture: what a call takes with and without graph, region by region (SVG)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT = 860, 290, 150
_BAR, _GAP, _TOP = 14, 22, 48
_COLOURS = {"graph": "#2a6f97", "no graph": "#c58940"}


def svg(regions: Sequence[Mapping[str, Any]]) -> str:
    """Horizontal bars in milliseconds a call, medians with quartiles; what was chosen is bold.

    Regions that nothing was measured of have their state in words.
    """
    longest = max((s["high"] for r in regions for s in r["candidates"].values()), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / (longest or 1.0)
    parts: list[str] = []
    y = _TOP
    for region in regions:
        lines, y = _region(region, y, scale)
        parts += lines
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" '
        f'viewBox="0 0 {_WIDTH} {y}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{y}" fill="white"/>',
        _text(12, 24, "Milliseconds a call, median and quartiles; chosen: bold", size=14),
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _region(region: Mapping[str, Any], y: int, scale: float) -> tuple[list[str], int]:
    parts = [_text(12, y + 11, _short(region["name"], 42))]
    candidates = region["candidates"]
    if not candidates:
        why = region["choice_why"] or region["reason"] or region["state"]
        parts.append(_text(_LEFT, y + 11, _short(why, 80), colour="#555"))
        return parts, y + _BAR + _GAP
    for name, spread in candidates.items():
        parts += _bar(name, spread, y, scale, bold=name == region["choice"])
        y += _BAR + 4
    return parts, y + _GAP - 4


def _bar(name: str, spread: Mapping[str, Any], y: int, scale: float, bold: bool) -> list[str]:
    width = max(1.0, spread["median"] * scale)
    low, high = (_LEFT + spread[key] * scale for key in ("low", "high"))
    middle = y + _BAR / 2
    label = f"{spread['median']:.3f} {name}"
    return [
        f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" '
        f'fill="{_COLOURS.get(name, "#888")}" opacity="{1 if bold else 0.45}"/>',
        f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" stroke="black"/>',
        _text(max(width + _LEFT, high) + 6, y + 11, label, bold=bold),
    ]


def _text(
    x: float, y: float, text: str, size: int = 12, colour: str = "black", bold: bool = False
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{weight}>'
        f"{escape(text)}</text>"
    )


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
