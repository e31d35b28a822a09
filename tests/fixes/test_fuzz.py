"""A few programs of the fuzzer for each rewrite; ``make fuzz-fixes`` takes thousands."""

from __future__ import annotations

import ast

import pytest

from tests.fixes.fuzz.programs import IDIOMS, program
from tests.fixes.fuzz.run import MODES, Log, fuzz

PROGRAMS = 100


@pytest.mark.parametrize("rewrite", sorted(IDIOMS))
def test_programs_are_python_and_the_same_for_a_seed(rewrite: str) -> None:
    for seed in range(20):
        ast.parse(program(rewrite, seed).source)
        assert program(rewrite, seed) == program(rewrite, seed)


def test_fixed_programs_do_the_same() -> None:
    log = Log()
    each = PROGRAMS // len(IDIOMS) + 1
    for number, rewrite in enumerate(sorted(IDIOMS)):
        log.join(fuzz(rewrite, range(1, 1 + each), MODES[number % len(MODES)]))
    assert log.programs >= PROGRAMS
    assert [one for one in log.differences if one["fixes"] != "unsafe"] == []
    assert sum(log.accepted.values()) > PROGRAMS // 4
