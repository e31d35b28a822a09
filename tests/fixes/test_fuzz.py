"""A few programs of the fuzzer; ``make fuzz-fixes`` takes thousands."""

from __future__ import annotations

import ast

from tests.fixes.fuzz.grammar import program
from tests.fixes.fuzz.run import fuzz

PROGRAMS = 100


def test_programs_are_python_and_the_same_for_a_seed() -> None:
    for seed in range(20):
        ast.parse(program(seed))
        assert program(seed) == program(seed)


def test_fixed_programs_do_the_same() -> None:
    log = fuzz(range(PROGRAMS))
    assert log.differences == []
    assert log.changed["safe"] > PROGRAMS // 10
    assert log.compared["safe eager"] > PROGRAMS // 3
