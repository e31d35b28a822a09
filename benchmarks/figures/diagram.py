"""The picture of docs/explanation/indirection.md, as SVG for light and for dark pages."""

from __future__ import annotations

from pathlib import Path

ALT = (
    "A region is captured twice at different addresses. The words of kernel parameters that differ "
    "are addresses. On each call only these words are written, and the graph is launched."
)
# Okabe and Ito's colours, which people with every kind of colour vision can tell apart.
THEMES = {
    "light": {
        "ink": "#1f2937",
        "line": "#6b7280",
        "box": "#f3f4f6",
        "same": "#0072b2",
        "moved": "#d55e00",
    },
    "dark": {
        "ink": "#e5e7eb",
        "line": "#9ca3af",
        "box": "#1f2937",
        "same": "#56b4e9",
        "moved": "#e69f00",
    },
}
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Roboto, sans-serif'"
_MONO = "font-family='ui-monospace, Menlo, Consolas, monospace'"


def draw(folder: Path) -> list[Path]:
    """Write both pictures."""
    made = []
    for theme, colours in THEMES.items():
        path = folder / f"indirection-{theme}.svg"
        path.write_text(_picture(colours), encoding="utf-8")
        made.append(path)
    return made


def _picture(c: dict[str, str]) -> str:
    parts = [
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 820 300' role='img' "
        f"aria-label='{ALT}'>",
        f"<title>{ALT}</title>",
        "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' "
        f"markerHeight='7' orient='auto'><path d='M0 0 8 4 0 8z' fill='{c['line']}'/>"
        "</marker></defs>",
        _node(c, 10, 20, "1st capture", ["0x7f10", "64", "0x7f90"], (0, 2)),
        _node(c, 10, 165, "2nd capture", ["0x7e30", "64", "0x7eb0"], (0, 2)),
        _text(c, 300, 128, "compare", "middle", 15),
        _arrow(c, "M215 75 H285 V108"),
        _arrow(c, "M215 222 H285 V138"),
        _arrow(c, "M340 123 H385"),
        _plan(c),
        _arrow(c, "M570 123 H600"),
        _node(c, 605, 75, "each call", ["new x", "64", "new y"], (0, 2)),
        _text(c, 707, 205, "write what moved,", "middle", 13),
        _text(c, 707, 224, "then launch once", "middle", 13),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _node(
    c: dict[str, str],
    x: int,
    y: int,
    title: str,
    words: list[str],
    moved: tuple[int, ...],
) -> str:
    """A kernel node with its parameter words; those that moved have a border of their own."""
    width = 205
    each = (width - 16) // len(words)
    boxes = [
        f"<rect x='{x}' y='{y}' width='{width}' height='110' rx='8' fill='{c['box']}' "
        f"stroke='{c['line']}'/>",
        _text(c, x + 12, y + 26, title, "start", 15),
        _text(c, x + 12, y + 46, "parameters of a kernel", "start", 12),
    ]
    for index, word in enumerate(words):
        left = x + 8 + index * each
        colour = c["moved"] if index in moved else c["same"]
        dash = "" if index in moved else " stroke-dasharray='4 3'"
        boxes.append(
            f"<rect x='{left}' y='{y + 60}' width='{each - 4}' height='34' rx='4' fill='none' "
            f"stroke='{colour}' stroke-width='2'{dash}/>"
        )
        boxes.append(
            f"<text x='{left + (each - 4) // 2}' y='{y + 82}' {_MONO} font-size='12' "
            f"text-anchor='middle' fill='{c['ink']}'>{word}</text>"
        )
    return "\n".join(boxes)


def _plan(c: dict[str, str]) -> str:
    lines = [("word 0:", "address of x", "moved"), ("word 1:", "a value, stays", "same"),
             ("word 2:", "address of y", "moved")]  # fmt: skip
    parts = [
        f"<rect x='390' y='55' width='178' height='136' rx='8' fill='{c['box']}' "
        f"stroke='{c['line']}'/>",
        _text(c, 402, 81, "plan", "start", 15),
    ]
    for index, (word, meaning, colour) in enumerate(lines):
        y = 110 + 28 * index
        parts.append(f"<rect x='402' y='{y - 11}' width='6' height='14' fill='{c[colour]}'/>")
        parts.append(_text(c, 414, y, f"{word} {meaning}", "start", 13))
    return "\n".join(parts)


def _text(c: dict[str, str], x: int, y: int, text: str, anchor: str, size: int) -> str:
    return (
        f"<text x='{x}' y='{y}' {_FONT} font-size='{size}' text-anchor='{anchor}' "
        f"fill='{c['ink']}'>{text}</text>"
    )


def _arrow(c: dict[str, str], path: str) -> str:
    return (
        f"<path d='{path}' fill='none' stroke='{c['line']}' stroke-width='2' "
        "marker-end='url(#tip)'/>"
    )
