"""Facts of a text that was edited, with runs of functions kept: the same, and not all run again."""

from __future__ import annotations

from unittest import mock

import pytest

from pygraph_lint.analysis.extract import extract
from pygraph_lint.analysis.interpreter import run
from pygraph_lint.analysis.interpreter.incremental import ReusableRuns
from pygraph_lint.analysis.program.facts import ModuleFacts
from pygraph_lint.errors import SourceError
from tests.analysis.programs import SINKS

TEXT = """
import torch
from torch import nn

LIMIT = 3

def first(x):
    # begins
    return second(x).item()

def second(x):
    'Give a number.'
    # the sum
    return x.sum()

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(3)
        self.layer = nn.Linear(3, 3)

    @property
    def size(self):
        return self.scale.sum()

class Model(Base):
    def forward(self, x, other):
        if self.size > 0:
            x = self.layer(other)
        return self.helper(x) * self.scale

    def helper(self, x):
        return torch.relu(x) + len([each for each in x])

class Outer(nn.Module):
    def forward(self, x):
        def inner(y):
            return y.item()
        return inner(x) + (lambda z: z.sum())(x)
"""
# What is replaced by what, and the functions that are run again: names end so.
EDITS = {
    "nothing": ("", "", {"Outer.forward"}),
    "a comment in a function": ("# the sum", "# all", {"second", "Outer.forward"}),
    "a comment between": ("class Base", "# more\n\nclass Base", {"Outer.forward"}),
    "another value returned": (
        "return x.sum()",
        "return torch.zeros(2, 2)",
        {"second", "first", "Outer.forward"},
    ),
    "a statement above a comment that a body begins with": (
        "    # begins\n",
        "    x = x + 1\n    # begins\n",
        {"first", "Outer.forward"},
    ),
    "a function that is asked returns the same": (
        "return x.sum()",
        "return 1 * x.sum()",
        {"second", "Outer.forward"},
    ),
    "a line more": (
        "return x.sum()",
        "print(x)\n    return x.sum()",
        {"second", "Outer.forward"},
    ),
    "another base class": (
        "class Model(Base)",
        "class Model(nn.Module)",
        {"Model.forward", "Outer.forward"},
    ),
    "what an attribute holds": (
        "torch.ones(3)",
        "3",
        {"Base.__init__", "Base.size", "Model.forward", "Outer.forward"},
    ),
    "another import": ("import torch\n", "import torch\nimport math\n", None),
    "a parameter more": ("def helper(self, x):", "def helper(self, x, y=None):", None),
    "a head over two lines": ("(self, x, other):", "(self, x,\n            other):", None),
    "a decorator of a class's first method": (
        "class Base(nn.Module):\n    def",
        "class Base(nn.Module):\n    @torch.compiler.disable\n    def",
        None,
    ),
    "another constant": ("LIMIT = 3", "LIMIT = torch.ones(3)", None),
}
ALL = {
    *("first", "second", "Base.__init__", "Base.size"),
    *("Model.forward", "Model.helper", "Outer.forward"),
}


def _facts(text: str, kept: ReusableRuns | None = None) -> ModuleFacts:
    return extract(text, "example.py", "example", False, SINKS, kept)


def _facts_and_runs(text: str, kept: ReusableRuns) -> tuple[ModuleFacts, set[str]]:
    """The facts, and the functions at import level that were run for them."""
    with mock.patch.object(run, "run_function", side_effect=run.run_function) as ran:
        facts = _facts(text, kept)
    names = {call.args[1].removeprefix("example.") for call in ran.call_args_list}
    return facts, {name for name in names if "<locals>" not in name}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_gives_the_facts_of_a_fresh_look(kind: str) -> None:
    old, new, again = EDITS[kind]
    edited = TEXT.replace(old, new) if old else TEXT
    kept = ReusableRuns()
    _, run = _facts_and_runs(TEXT, kept)
    assert run == ALL
    facts, run = _facts_and_runs(edited, kept)
    assert repr(facts) == repr(_facts(edited))
    assert run == (ALL if again is None else again)
    assert repr(_facts(TEXT, kept)) == repr(_facts(TEXT))


def test_a_function_that_moves_keeps_its_facts_without_moving_them_otherwise() -> None:
    kept = ReusableRuns()
    before = _facts(TEXT, kept).functions["example.Model.forward"]
    assert _facts(TEXT, kept).functions["example.Model.forward"] is before
    moved = _facts("\n\n" + TEXT, kept).functions["example.Model.forward"]
    assert (moved.line, len(moved.events)) == (before.line + 2, len(before.events))
    assert [each.span.line - 2 for each in moved.calls] == [each.span.line for each in before.calls]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_in_any_way_and_letters_are_wide(newline: str) -> None:
    text = TEXT.replace("# the sum", 'name = "ü"; other = x.sum().item()').replace("\n", newline)
    kept = ReusableRuns()
    for edited in (text, text.replace("ü", "üü"), "#" + newline + text, text):
        assert repr(_facts(edited, kept)) == repr(_facts(edited))


def test_a_text_that_cannot_be_parsed_leaves_what_is_kept() -> None:
    kept = ReusableRuns()
    _facts(TEXT, kept)
    with pytest.raises(SourceError, match=r"invalid syntax|never closed|expected"):
        _facts(TEXT.replace("x.sum()", "x.sum("), kept)
    assert _facts_and_runs(TEXT, kept)[1] == {"Outer.forward"}
