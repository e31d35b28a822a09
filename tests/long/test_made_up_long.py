"""Made-up source in quantity, and the whole standard library, through check and fix."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.lint.made_up import (
    PROGRAMS,
    as_models,
    broken_programs,
    check_and_fix,
    fix_text,
    library_files,
)

MANY = settings(
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@MANY
@given(PROGRAMS)
def test_made_up_programs(text: str) -> None:
    assert fix_text(text) <= 1


@MANY
@given(broken_programs())
def test_broken_programs(text: str) -> None:
    assert fix_text(text) <= 1


@pytest.mark.parametrize("models", [False, True])
def test_every_file_of_the_standard_library(tmp_path: Path, models: bool) -> None:
    copies = []
    for number, path in enumerate(library_files()):
        # Folders of a hundred, so that a failure names few files.
        copy = tmp_path / f"part{number // 100}" / f"m{number}.py"
        copy.parent.mkdir(exist_ok=True)
        data = path.read_bytes()
        copy.write_bytes(as_models(data) if models else data)
        copies.append(copy)
    changed = 0
    for start in range(0, len(copies), 100):
        changed += len(list(check_and_fix(copies[start : start + 100])))
    assert (changed > 20) is models
