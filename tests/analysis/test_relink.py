"""A second link after an edit: what of the first one is used again, and that it gives the same."""

from __future__ import annotations

import textwrap
from unittest import mock

import pytest

from pygraph_lint.analysis import link as link_module
from pygraph_lint.analysis.extract import extract, loop_bodies
from pygraph_lint.analysis.link import Project, link
from pygraph_lint.analysis.program.facts import ModuleFacts
from pygraph_lint.analysis.regions.compiled import compiled_regions
from tests.analysis.programs import SINKS, confirmed

BASE = """
import torch
class Base(torch.nn.Module):
    def __init__(self):
        self.scale = torch.ones(3)
        self.chosen = first
    def forward(self, x):
        return self.chosen(x)
def first(x):
    return x.item()
def second(x):
    return x.tolist()
"""
MODEL = """
import torch
from base import Base, second
class Model(Base):
    def forward(self, x):
        return super().forward(x) + helper(self.scale) + second(x)[0]
def helper(value):
    return value.sum().item()
"""
EDITS = {
    "a call less": ("return x.item()", "return x"),
    "another call": ("return self.chosen(x)", "return second(x)"),
    "a line more": ("return self.chosen(x)", "y = x\n        return self.chosen(y)"),
    "what an attribute holds": ("self.chosen = first", "self.chosen = second"),
    "an attribute that is no tensor": ("torch.ones(3)", "3"),
    "another base": ("Base(torch.nn.Module)", "Base"),
    "another function": ("def second(x):", "second = len\ndef third(x):"),
    "one function less": ("def second(x):\n    return x.tolist()\n", ""),
}


def _facts(name: str, text: str) -> ModuleFacts:
    return extract(textwrap.dedent(text), f"{name}.py", name, False, SINKS)


def _says(linked: Project, modules: list[ModuleFacts]) -> list[object]:
    found: list[object] = []
    for module in modules:
        found += confirmed(linked, module)
        found += [linked.region(name) for name in module.functions]
        found.append(linked.view(module))
    return found


@pytest.mark.parametrize("kind", EDITS)
def test_a_second_link_says_what_a_new_one_does(kind: str) -> None:
    model = _facts("model", MODEL)
    before, after = _facts("base", BASE), _facts("base", BASE.replace(*EDITS[kind]))
    new = _says(link([after, model]), [after, model])
    assert new != _says(link([before, model]), [before, model])
    linked = link([before, model])
    again = link([after, model], before=linked)
    assert _says(again, [after, model]) == new
    old = _says(link([before, model]), [before, model])
    assert _says(link([before, model], before=again), [before, model]) == old


def test_names_are_looked_up_again_only_where_they_may_mean_something_else() -> None:
    model, before = _facts("model", MODEL), _facts("base", BASE)
    program = link([before, model]).program
    kept = {kind: _facts("base", BASE.replace(*edit)) for kind, edit in EDITS.items()}
    taken = {kind: program.take([new, model]) for kind, new in kept.items()}
    other = ("another base", "another function", "one function less")
    assert taken == {kind: kind not in other for kind in EDITS}
    assert not program.take([before])
    assert not program.take([model, before])


def test_a_name_that_two_files_define_is_looked_up_again() -> None:
    package = _facts("a", "class b:\n    def f(self): return 1\n")
    inner = _facts("a.b", "def f(): return 2\n")
    program = link([package, inner]).program
    assert not program.take([_facts("a", "class b:\n    def f(self): return 3\n"), inner])
    assert program.take([package, _facts("a.b", "def f(): return 4\n")])


LOOPS = """
import torch
class Trainer:
    def fit(self, model, batches):
        for batch in batches:
            loss = self.loss(model, batch)
            loss.backward()
            self.log(loss)
    def loss(self, model, batch):
        return model(batch).mean() + self.last
    def log(self, loss):
        self.last = self.smooth(loss)
        print(self.last.item())
    def smooth(self, loss):
        return loss + self.last
"""


def test_what_a_helper_does_is_the_same_whichever_is_asked_for_first() -> None:
    forwards, backwards = (loop_bodies(LOOPS, "m", False).helpers for _ in range(2))
    found = {name: forwards[name] for name in forwards}
    assert {name: backwards[name] for name in reversed(list(backwards))} == found
    assert [name.rpartition(".")[2] for name in found] == ["fit", "loss", "log", "smooth"]
    assert [event.kind for event in found["m.Trainer.log"].events] == ["loop.read"]


STEPS = """
import torch
from base import first
@torch.compile
def step(x):
    return first(x) + around(x)
def wrapper(function):
    def inner(*given):
        return function(*given)
    return inner
@wrapper
def around(x):
    if is_large():
        second(x)
    return x.item()
def second(x):
    return x.tolist()
def is_large():
    return torch.compiler.is_compiling()
def size(x):
    return 1
def size(x):
    return x.item()
"""
MOVES = {
    "nothing": ("", "", False),
    "a line more": ("    return x.item()", "    x = x + 1\n    return x.item()", False),
    "an event more": ("    return x.tolist()", "    print(x)\n    return x.tolist()", False),
    "lines above a function that is defined again": ("return 1", "x = 1\n    return x", False),
    "a call more": ("    return x.item()", "    size(x)\n    return x.item()", True),
    "a call in another order": ("first(x) + around(x)", "around(x) + first(x)", True),
    "no condition": ("if is_large():", "if x is None:", True),
    "a condition that never holds": ("torch.compiler.is_compiling()", "False", True),
    "no decorator": ("@wrapper\n", "", True),
    "a start that is on another line": ("from base", "\n\nfrom base", False),
    "disabled": ("def second(x)", "@torch.compiler.disable\ndef second(x)", True),
    "disabled itself": (
        "def second(x)",
        "@torch.compiler.disable(recursive=False)\ndef second(x)",
        True,
    ),
}


@pytest.mark.parametrize("kind", MOVES)
def test_regions_are_looked_for_again_only_where_they_may_be_others(kind: str) -> None:
    old, new, again = MOVES[kind]
    base, model, before = _facts("base", BASE), _facts("model", MODEL), _facts("steps", STEPS)
    after = _facts("steps", STEPS.replace(old, new, 1) if old else STEPS)
    linked = link([base, model, before])
    _says(linked, [base, model, before])
    with mock.patch.object(link_module, "compiled_regions", wraps=compiled_regions) as found:
        second = link([base, model, after], before=linked)
    assert found.called == again
    assert _says(second, [base, model, after]) == _says(
        link([base, model, after]), [base, model, after]
    )
