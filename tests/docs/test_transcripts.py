"""Commands of the tutorial and of guides print what the pages show."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.docs import pages

# Pages that are followed from top to bottom, each in a folder of its own.
FOLLOWED = sorted(
    page
    for page in (pages.ROOT / "docs").rglob("*.md")
    if any(block.language == "console" and not block.reason for block in pages.blocks(page))
)


# Commands that import torch; only `make test-long` runs them.
SLOW = ("python ", "pytest ", "pygraph-lint trace ")
ALL = os.environ.get("PYGRAPH_PAGES") == "all"


def _is_run(command: str) -> bool:
    return ALL or not command.startswith(SLOW)


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    blocks = [block for block in pages.blocks(page) if not block.reason]
    shown = [one for b in blocks if b.language == "console" for one in pages.commands(b)]
    if not any(_is_run(command) for command, _ in shown):
        pytest.skip("make test-long follows this page")
    for block in blocks:
        if "title" in block.attributes:
            pages.write(block, tmp_path)
        elif block.language == "console":
            _follow(block, tmp_path)


def _follow(block: pages.Block, folder: Path) -> None:
    for command, shown in pages.commands(block):
        if command == "python serve.py" and ALL and not shutil.which("g++"):
            pytest.skip("no C++ compiler: the rest of the page needs one")
        if _is_run(command):
            printed = pages.run(command, folder)
            assert pages.matches(shown, printed), f"{block.where}: $ {command}\n{printed}"


def test_the_comparison_sees_other_output() -> None:
    assert pages.matches("a\n...\nz\n", "a\nb\nc\nz\n")
    assert pages.matches("a ... z\n", "a b z\n")
    assert not pages.matches("a\nz\n", "a\nb\nz\n")
    assert not pages.matches("a ... z\n", "a b y\n")
