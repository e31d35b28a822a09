"""A sample of made-up source through check and fix; `make test-long` runs the rest."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings

from tests.lint.made_up import (
    PROGRAMS,
    as_models,
    broken_programs,
    check_and_fix,
    fix_text,
    library_files,
)

SOME = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SOME
@given(PROGRAMS)
def test_made_up_programs(text: str) -> None:
    assert fix_text(text) <= 1


@SOME
@given(broken_programs())
def test_broken_programs(text: str) -> None:
    assert fix_text(text) <= 1


def test_some_of_the_standard_library(tmp_path: Path) -> None:
    small = [path for path in library_files() if 2_000 < path.stat().st_size < 30_000]
    copies = []
    for number, path in enumerate(small[:: len(small) // 40]):
        copy = tmp_path / f"m{number}.py"
        copy.write_bytes(as_models(path.read_bytes()))
        copies.append(copy)
    assert len(copies) >= 40
    assert set(dict(check_and_fix(copies))) <= set(copies)
