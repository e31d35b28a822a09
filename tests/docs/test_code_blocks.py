"""Every code block is run, or is output, or says why it is not run."""

from __future__ import annotations

import json
import sys

import pytest

from tests.docs import pages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = [*sorted((pages.ROOT / "docs").rglob("*.md")), pages.ROOT / "README.md"]
BLOCKS = [block for page in PAGES for block in pages.blocks(page)]
# test_transcripts.py runs these: commands, and the files that they work on.
RUN = {block.page for block in BLOCKS if block.language == "console" and not block.reason}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_a_block_is_run_or_says_why_not(block: pages.Block) -> None:
    if block.reason:
        assert len(block.reason) > 10
        return
    if block.language == "console" or "title" in block.attributes:
        assert block.page in RUN
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        json.loads(block.text)
    else:
        pytest.fail(f"{block.where}: say what made it or why it is not run, in a comment above")


def test_there_are_blocks_of_each_kind() -> None:
    assert len(BLOCKS) > 60
    assert {"console", "python", "toml", "sh", "diff"} <= {block.language for block in BLOCKS}


def test_a_block_without_an_end_is_an_error(tmp_path: pages.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```python\nx = 1\n")
    with pytest.raises(AssertionError, match="no end"):
        list(pages.blocks(page))
