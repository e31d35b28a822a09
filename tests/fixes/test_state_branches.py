"""Branches on a tensor that register a buffer again: run call after call, and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect, marked

_FREQUENCIES = '''
import torch
from torch import nn


def frequencies(length):
    """Frequencies, and how much the result is scaled."""
    return torch.arange(1.0, 4.0) * length, 1.0 + length / 8


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = 4
        self.scaling = 1.0
        self.seen = self.limit
        self.short = frequencies(2)[0]
        self.register_buffer("freq", self.short, persistent=False)

    def forward(self, position, kind=""):
UPDATE
        return position[:, None] * self.freq * self.scaling
'''

TWO_ARMS = """
        length = torch.max(position) + 1
        short = self.short if kind == "" else getattr(self, f"{kind}_short")
        if «length > self.limit»:  # long
            if not hasattr(self, f"{kind}_long"):
                # the long ones
                factor = 3
                long, _ = frequencies(
                    length=factor,
                )
            self.register_buffer(f"{kind}freq", long, persistent=False)
            self.long = long
            setattr(self, f"{kind}longest", long)
        else:
            # from where
            # it was
            short = short.to(position.device)
            self.register_buffer(f"{kind}freq", short, persistent=False)
            setattr(self, f"{kind}short", short)
"""
TWO_ARMS_AFTER = """
        length = torch.max(position) + 1
        short = self.short if kind == "" else getattr(self, f"{kind}_short")
        chosen = length > self.limit  # long
        # the long ones
        factor = 3
        long, _ = frequencies(
            length=factor,
        )
        self.long = long
        setattr(self, f"{kind}longest", long)
        # from where
        # it was
        short = short.to(position.device)
        setattr(self, f"{kind}short", short)
        self.register_buffer(
            f"{kind}freq", torch.where(chosen, long, short), persistent=False
        )
"""

ONE_ARM = """
        length = torch.max(position) + 1
        if «length > self.seen»:
            freq, self.scaling = frequencies(length)
            self.register_buffer("freq", freq, persistent=False)  # again
            self.seen = length

        if «length < self.limit and self.seen > self.limit»:  # reset
            self.short = self.short.to(position.device)
            self.register_buffer("freq", self.short, persistent=False)
            self.seen = self.limit
"""
ONE_ARM_AFTER = """
        length = torch.max(position) + 1
        chosen = length > self.seen
        freq, scaling = frequencies(length)
        self.scaling = torch.where(chosen, scaling, self.scaling)
        # again
        self.register_buffer(
            "freq", torch.where(chosen, freq, self.freq), persistent=False
        )
        self.seen = torch.where(chosen, length, self.seen)

        chosen = (length < self.limit) & (self.seen > self.limit)  # reset
        self.short = self.short.to(position.device)
        self.register_buffer(
            "freq", torch.where(chosen, self.short, self.freq), persistent=False
        )
        self.seen = torch.where(chosen, self.limit, self.seen)
"""

NAMED = """
        length = torch.max(position) + 1
        seen = getattr(self, f"{kind}seen", self.limit)
        if («length > seen»):
            if not hasattr(self, "long"):
                self.long, _ = frequencies(3)
            self.register_buffer("freq", self.long * 2)
            setattr(self, f"{kind}seen", length)
"""
NAMED_AFTER = """
        length = torch.max(position) + 1
        seen = getattr(self, f"{kind}seen", self.limit)
        chosen = length > seen
        if not hasattr(self, "long"):
            self.long, _ = frequencies(3)
        self.register_buffer("freq", torch.where(chosen, self.long * 2, self.freq))
        setattr(
            self,
            f"{kind}seen",
            torch.where(chosen, length, getattr(self, f"{kind}seen", self.limit)),
        )
"""


def _model(update: str) -> str:
    return _FREQUENCIES.replace("UPDATE\n", update.lstrip("\n"))


CASES = {
    "two arms": (_model(TWO_ARMS), _model(TWO_ARMS_AFTER)),
    "one arm": (_model(ONE_ARM), _model(ONE_ARM_AFTER)),
    "named": (_model(NAMED), _model(NAMED_AFTER)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_registered_is_selected(name: str) -> None:
    fix = expect(*CASES[name], "PG301", "unsafe")
    assert "both arms" in fix.reason and "called in either case" in fix.reason


def _calls(text: str, wrap: Callable[..., Any] = lambda model: model) -> Callable[..., Any]:
    """Calls of a new model one after the other, and the buffer after each."""

    def forward(lengths: list[int]) -> list[torch.Tensor]:
        model = module_of(text).Rotary()
        function, seen = wrap(model), []
        for length in lengths:
            seen += [function(torch.arange(length)), model.freq.clone()]
        return seen

    return forward


@pytest.mark.parametrize("name", CASES)
@FEW
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_later_calls_see_the_same(name: str, lengths: list[int]) -> None:
    before, after = (marked(text)[0] for text in CASES[name])
    seen = run(_calls(before), (lengths,))
    assert seen.error is None
    assert_same(seen, run(_calls(after), (lengths,)))


@pytest.mark.parametrize("name", CASES)
def test_no_break_is_left(name: str) -> None:
    before, after = (marked(text)[0] for text in CASES[name])
    arguments = (torch.arange(7),)
    assert breaks(module_of(before).Rotary(), arguments) > 0
    assert breaks(module_of(after).Rotary(), arguments) == 0
    lengths = ([7, 2, 9, 3],)
    assert_same(run(_calls(before), lengths), run(_calls(after, compiled), lengths))


@pytest.mark.parametrize(
    ("update", "old", "new", "reason"),
    [
        (ONE_ARM, "length > self.seen", "length > self.seen > 2", "more than comparisons"),
        (ONE_ARM, "length > self.seen", "length is not self.seen", "more than comparisons"),
        (ONE_ARM, "length > self.seen", "torch.max(length)", "more than comparisons"),
        (ONE_ARM, "freq, self.scaling", "freq, self.scaling[0]", "more than compute and set"),
        (ONE_ARM, "self.seen = length", "print(length)", "more than compute and set"),
        (ONE_ARM, "self.seen = length", "self.seen += 1", "more than compute and set"),
        (ONE_ARM, "self.seen = length", "seen[0] = length", "more than compute and set"),
        (ONE_ARM, "freq, persistent=False)", "tensor=freq)", "not known"),
        (ONE_ARM, "            self.seen = length", "            self.seen = 1; x = 2", "one line"),
        (NAMED, 'hasattr(self, "long")', "self.long", "more than compute and set"),
        (NAMED, "if not hasattr", "if hasattr", "more than compute and set"),
        (
            TWO_ARMS,
            'self.register_buffer(f"{kind}freq", short, persistent=False)',
            'self.register_buffer(f"{kind}freq", short)',
            "in different ways",
        ),
        (TWO_ARMS, "factor = 3", "self.factor = 3", "more than compute and set"),
    ],
)
def test_other_branches_stay(update: str, old: str, new: str, reason: str) -> None:
    decline(_model(_edited(update, old, new)), "PG301", reason)


def _edited(update: str, old: str, new: str) -> str:
    """The first branch, with something in it written otherwise."""
    first, _, _ = update.partition("\n        if «length < ")
    assert old in first
    return first.replace(old, new, 1) + "\n"


def test_a_branch_that_registers_nothing_is_for_others() -> None:
    text = _edited(ONE_ARM, 'register_buffer("freq", freq, persistent=False)', "freq = freq")
    decline(_model(text), "PG301", "the condition is no tensor")
