"""The truth table of packages on disk: the same table comes back."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.lint_truth_packages import truth_file

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "results" / "lint_truth_packages_sites.json"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    table = truth_file.read(COMMITTED)
    files = {row["file"] for row in table["sites"]} | table["ran"].keys()
    assert files
    assert all(re.fullmatch(r"\w+(/\w+)*\.py", file) for file in files)
    copy = tmp_path / "copy.json"
    truth_file.write(copy, table)
    assert copy.read_text() == COMMITTED.read_text()
    assert truth_file.read(copy) == table
