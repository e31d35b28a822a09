"""The committed pictures show what the committed results say; no matplotlib is needed."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.figures import data, diagram, tables
from tests.docs.pages import ROOT

FIGURES = data.figures()


@pytest.mark.parametrize("theme", data.THEMES)
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_picture_is_of_the_committed_results(figure: data.Figure, theme: str) -> None:
    """`make figures` draws them again."""
    text = (data.FOLDER / f"{figure.name}-{theme}.svg").read_text(encoding="utf-8")
    found = re.search(r"<desc>(\w+)</desc>", text)
    assert found is not None
    assert found[1] == figure.digest()
    ElementTree.fromstring(text)


def test_the_diagram_is_what_its_code_draws(tmp_path: Path) -> None:
    for path in diagram.draw(tmp_path):
        assert path.read_text() == (data.FOLDER / path.name).read_text()


def test_every_picture_is_shown_with_a_text() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for path in data.FOLDER.glob("*.svg"):
        assert re.search(rf"!\[[^\]]{{30,}}\]\([\w./]*{path.name}", text), path.name


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: page.stem)
def test_tables_and_texts_of_pictures_are_of_the_committed_results(page: Path) -> None:
    """`make figures` writes them again."""
    text = made = page.read_text(encoding="utf-8")
    for figure in FIGURES:
        made = figure.captioned(made)
    assert tables.filled(made) == text


def test_example_reports_are_of_the_committed_results() -> None:
    """`python -m benchmarks.runtime.selection --reports PAGE --out FILE` writes them again."""
    pytest.importorskip("torch")
    from benchmarks.runtime import selection

    page = ROOT / "docs" / "reference" / "example-reports.md"
    assert selection.reports(data.load("selection.json")) == page.read_text(encoding="utf-8")


def test_every_table_is_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in tables.pages())
    assert set(re.findall(r"^<!-- table: ([\w-]+) -->", text, re.MULTILINE)) == set(tables.TABLES)


def test_a_table_is_replaced_and_the_text_around_it_stays() -> None:
    page = "a\n\n<!-- table: one -->\n| old |\n| 1 |\n\nb\n\n<!-- table: two -->\n\nc\n"
    made = tables.filled(page, {"one": lambda: "| new |", "two": lambda: "| 2 |"})
    assert made == "a\n\n<!-- table: one -->\n| new |\n\nb\n\n<!-- table: two -->\n| 2 |\n\nc\n"


def test_another_result_is_another_digest() -> None:
    figure = FIGURES[0]
    changed = {**figure.bars, "one more": {"pygraph": 2.0}}
    other = data.Figure(figure.name, figure.title, figure.alt, figure.series, changed, figure.log)
    assert other.digest() != figure.digest()


def test_texts_of_figures_name_the_figures() -> None:
    by_name = {figure.name: figure for figure in FIGURES}
    assert "to 1" in by_name["before-and-after"].alt
    assert "% findings right" in by_name["accuracy"].alt
    assert data.whole(92.5) == "93"
