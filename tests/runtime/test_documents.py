"""Documents of the runtime name files, names and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASES = (ROOT, ROOT / "pygraph_rt", ROOT / "pygraph_lint" / "analysis")
REFERENCE = ROOT / "docs" / "reference"
GUIDES = [REFERENCE / name for name in ("runtime.md", "report.md", "limits.md")]
PAGES = sorted((ROOT / "docs" / "internals").glob("*.md"))
NAMES = ("how-it-works.md", "memory.md", "trials.md", "invariants.md", "glossary.md")
RUNTIME = [page for page in PAGES if page.name in NAMES]


@pytest.mark.parametrize("page", [*RUNTIME, *GUIDES], ids=lambda p: p.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for name in re.findall(r"`([\w/]+\.(?:py|c|cpp))[`:]", text):
        assert any((base / name).exists() for base in BASES), name
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[\w-]+)?\)", text):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", RUNTIME, ids=lambda p: p.name)
def test_names_beside_a_file_are_defined_in_it(page: Path) -> None:
    for name, listed in re.findall(r"`([\w/]+\.py): ([\w., ]+)`", page.read_text("utf-8")):
        source = next(b / name for b in BASES if (b / name).exists()).read_text("utf-8")
        for word in re.split(r"[., ]+", listed):
            assert re.search(rf"\b{word}\b", source), f"{name}: {word}"


def test_the_tests_of_the_invariants_exist() -> None:
    text = (ROOT / "docs" / "internals" / "invariants.md").read_text("utf-8")
    found = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(found) >= 13
    for name, test in found:
        assert test in (ROOT / name).read_text("utf-8"), f"{name}::{test}"


def test_invariants_are_numbered_and_complete() -> None:
    text = (ROOT / "docs" / "internals" / "invariants.md").read_text("utf-8")
    entries = re.split(r"^## (\d+)\. ", text, flags=re.MULTILINE)[1:]
    numbers = [int(n) for n in entries[::2]]
    assert numbers == list(range(1, len(numbers) + 1))
    for body in entries[1::2]:
        for part in ("**Must hold.**", "**Otherwise.**", "**Kept by**", "**Would fail:**"):
            assert part in body, body.splitlines()[0]


def test_the_glossary_is_in_alphabetical_order_and_says_each_word_once() -> None:
    text = (ROOT / "docs" / "internals" / "glossary.md").read_text("utf-8")
    runtime, linter = text.split("\n## The analysis of the linter\n")
    for table in (runtime, linter):
        rows = [line for line in table.splitlines() if line.startswith("| ")]
        words = [line.split("|")[1].strip() for line in rows][2:]
        assert words and words == sorted(set(words), key=str.lower)


def test_the_map_names_twenty_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    part = text.partition("## The runtime: where to look")[2].partition("\n## ")[0]
    files = re.findall(r"^\| .* \| `([\w/]+\.py)` \|$", part, flags=re.MULTILINE)
    assert len(files) == len(set(files)) == 20
    assert all((ROOT / "pygraph_rt" / name).is_file() for name in files)
