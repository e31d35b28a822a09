"""What the benchmark of fixes on unseen code says of a program."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.fix_unseen.subjects import Made, Subject
from benchmarks.fix_unseen.worker import look


@pytest.mark.parametrize(
    ("values", "same"), [((1.0,) * 9, True), ((1.0, 1.0, 2.0, 1.0, 1.0), False)]
)
def test_a_program_that_repeats_itself_by_chance_is_not_compared(
    tmp_path: Path, values: tuple[float, ...], same: bool
) -> None:
    drawn = iter(values)

    def make() -> Made:
        value = next(drawn)
        return Made(lambda x: x * value, [((torch.ones(2),), {})], False, list)

    found: list[dict[str, object]] = []
    subject = Subject("drawn", "none", "develop", make)
    with torch.enable_grad():  # which is back afterwards: a worker turns gradients off for good
        look(subject, tmp_path, None, frozenset(), found.append)
    assert (found[0].get("error"), found[0]["repeatable"]) == (None, same)
