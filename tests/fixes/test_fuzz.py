"""A few programs of the fuzzer for each rewrite; ``make fuzz-fixes`` takes thousands."""

from __future__ import annotations

import ast

import pytest

from tests.fixes.fuzz.on_gpu import compare
from tests.fixes.fuzz.programs import IDIOMS, program
from tests.fixes.fuzz.run import MODES, Log, fuzz, pairs

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


def test_programs_for_a_gpu_are_compared_on_any_device() -> None:
    found = list(pairs("factory_device", 12))
    assert {pair.mode for pair in found} == set(MODES)
    assert {compare(pair, "cpu") for pair in found} == {("same", "")}
    safe = next(pair for pair in found if pair.mode == "safe")
    wrong = safe._replace(after=safe.after.replace("return x,", "return x + 1,"))
    came, problem = compare(wrong, "cpu")
    assert (came, bool(problem)) == ("different", True)
