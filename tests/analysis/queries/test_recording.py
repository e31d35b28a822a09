"""Functions are run as far as rewrites ask: whichever expression is asked for first, values are the
same, and what was not run is let go.
"""

from __future__ import annotations

import ast
import gc
import weakref

import pytest

from pygraph_lint.analysis.queries.file_queries import FileQueries

TEXT = """\
import torch
from torch import nn


class First(nn.Module):
    def forward(self, x: torch.Tensor):
        y = helper(x, self.scale)
        return y.sum() if self.flag else self.second(y)

    def second(self, y):
        def inner(z):
            return z * self.scale
        self.scale = y.mean()
        return inner(y)


class Second(First):
    def __init__(self):
        super().__init__()
        self.scale = torch.zeros(3)
        self.flag = True

    def reset(self, given=torch.ones(2)):
        self.scale = given.item()
        return self.forward(given)


if torch.cuda.is_available():
    def helper(x, scale):
        return x.argmax() * scale
else:
    def helper(x, scale):
        return x * scale

made = helper(torch.zeros(3), 2)
"""


def known(first: int) -> list[str]:
    """What is known of every expression, in the order of the text, asked from one of them on."""
    tree = ast.parse(TEXT)
    queries = FileQueries(tree)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    found = {node: repr(queries.known(node)) for node in (*nodes[first:], *nodes[:first])}
    return [found[node] for node in nodes]


@pytest.mark.parametrize("first", range(0, 60, 4))
def test_the_order_of_questions_changes_no_answer(first: int) -> None:
    assert known(first) == known(0)


def test_functions_that_nobody_asks_for_are_not_run() -> None:
    tree = ast.parse(TEXT)
    queries = FileQueries(tree)
    forward = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    call = next(node for node in ast.walk(forward.body[0]) if isinstance(node, ast.Call))
    queries.known(call)
    ran = queries._recording.functions
    assert any(name.endswith("First.forward") for name in ran)
    assert not any(name.endswith("Second.reset") for name in ran)


def test_runs_that_nobody_asks_for_any_more_leave_no_cycles() -> None:
    """In what they hold: parts of other programs of this process may be let go of meanwhile."""
    asked_once()
    gc.collect()
    gc.disable()
    try:
        alive = [asked_once() for _ in range(20)]
        assert [each() for each in alive] == [None] * 20
    finally:
        gc.enable()


def asked_once() -> weakref.ref[object]:
    """The run of a program of which one value was asked, when all else of it is gone."""
    queries = FileQueries(ast.parse(TEXT))
    call = next(each for each in queries.of_kind(ast.Call) if each.lineno == 7)
    queries.known(call)
    return weakref.ref(queries._recording)
