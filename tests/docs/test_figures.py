"""The committed pictures show what the committed results say; no matplotlib is needed."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.figures import data, diagram
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
