"""The sums over spellings of general forms are those of the list above them."""

from __future__ import annotations

from collections import defaultdict

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "fixes-examples.md"


def _rows(text: str, columns: int) -> list[list[str]]:
    """The rows of tables with so many columns, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == columns and row[0] not in ("form", "---")]


def test_the_sums_are_those_of_the_list() -> None:
    text = PAGE.read_text("utf-8").partition("## General forms")[2]
    found: dict[str, list[tuple[str, bool, str]]] = defaultdict(list)
    form = ""
    listed, _, summed = text.partition("| form | spellings |")
    for name, _, place, _, seen, fixed in _rows(listed, 6):
        form = name or form
        found[form].append((place.split()[0], seen == "after", fixed))
    sums = [
        [
            form,
            len(rows),
            len({place for place, *_ in rows}),
            sum(after for _, after, _ in rows),
            sum(after and fixed == "yes" for _, after, fixed in rows),
            sum(fixed.startswith("yes") for *_, fixed in rows),
        ]
        for form, rows in found.items()
    ]
    assert _rows("| form | spellings |" + summed, 6) == [list(map(str, row)) for row in sums]
