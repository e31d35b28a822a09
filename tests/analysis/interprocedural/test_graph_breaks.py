"""Methods of objects that a function makes, in which the graph ends."""

from __future__ import annotations

import textwrap

import pytest

from pygraph_lint.analysis.interprocedural.graph_breaks import BREAKING_EVENTS
from pygraph_lint.analysis.regions.compiled import RegionOptions
from pygraph_lint.rules import catalogue
from tests.analysis.programs import confirmed, project

SOLVERS = """
    import torch
    class Solver:
        def __init__(self, scale):
            self.scale = scale
        def run(self, x: torch.Tensor):
            return self.step(x)
        def step(self, x: torch.Tensor):
            return x if x.sum() > 0 else -x
        def plain(self, x: torch.Tensor):
            return x * self.scale
        def __call__(self, x: torch.Tensor):
            return self.run(x)
    class Quiet(Solver):
        def step(self, x: torch.Tensor):
            return x
    class RK4(Solver):
        pass
    class Heun(Solver):
        pass
"""


def made_objects(body: str, head: str = "") -> list[str]:
    source = "import torch\nfrom pkg.solvers import Solver, Quiet, RK4, Heun\n" + head
    source += "\ndef solve(x: torch.Tensor, given: Solver, name='a'):\n"
    source += "".join(f"    {line}\n" for line in body.splitlines())
    linked, facts = project(RegionOptions(every=True), pkg__solvers=SOLVERS, pkg__m=source)
    events = confirmed(linked, facts["pkg.m"])
    return [event.subject for event in events if event.kind == "effect.made-object"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s = Solver(2)\nreturn s.run(x)", ["s.run"]),
        ("return Solver(2).run(x)", ["Solver(2).run"]),
        ("s = Solver(2)\nrun = s.run\nreturn run(x)", ["run"]),
        ("s = Solver(2)\nif name:\n    s = Heun(2)\nreturn s.run(x)", ["s.run"]),
        # the class of the object says which method runs
        ("s = Quiet(2)\nreturn s.run(x)", []),
        # the graph does not end in it
        ("s = Solver(2)\nreturn s.plain(x)", []),
        # calling the object itself needs no bound method
        ("s = Solver(2)\nreturn s(x)", []),
        # made by the caller
        ("return given.run(x)", []),
    ],
)
def test_methods_of_objects_made_here(body: str, expected: list[str]) -> None:
    assert made_objects(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s.run(x.sum())", ["s.run"]),
        ("s.run(3)", []),
        # whether it breaks depends on an option
        ("s.say(x, True)", []),
    ],
)
def test_breaks_that_rest_on_what_is_passed(body: str, expected: list[str]) -> None:
    source = """
        import torch
        class Stepper:
            def run(self, t):
                return t if t > 0 else -t
            def say(self, x: torch.Tensor, loud=False):
                if loud:
                    print(x)
                return x
        def solve(x: torch.Tensor):
            s = Stepper()
            return BODY
    """
    linked, facts = project(RegionOptions(every=True), m=source.replace("BODY", body))
    events = confirmed(linked, facts["m"])
    assert [event.subject for event in events if event.kind == "effect.made-object"] == expected


def test_a_class_from_a_table() -> None:
    head = "TABLE = {'a': Solver, 'b': RK4, 'c': Heun}\nQUIET = {'a': Quiet}\n"
    assert made_objects("s = TABLE[name](2)\nreturn s.run(x)", head) == ["s.run"]
    assert made_objects("s = QUIET[name](2)\nreturn s.run(x)", head) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return make(x).run(x)", ["make(x).run"]),
        ("s = choose(name)(2)\nreturn s.run(x)", ["s.run"]),
        ("s = TABLE[name](2)\nreturn s.run(x)", ["s.run"]),
        # the graph does not end in it
        ("return make(x).plain(x)", []),
        # made before
        ("return keep(x).run(x)", []),
    ],
)
def test_an_object_that_another_function_makes(body: str, expected: list[str]) -> None:
    parts = """
        from pkg.solvers import Solver, Heun
        TABLE = {"a": Solver, "b": Heun}
        KEPT = Solver(2)
        def make(x):
            return Solver(x)
        def keep(x):
            return KEPT
        def choose(name):
            return TABLE[name] if name else Heun
    """
    source = "import torch\nfrom pkg.parts import TABLE, choose, keep, make\n"
    source += "def solve(x: torch.Tensor, name):\n" + textwrap.indent(body, "    ")
    every = RegionOptions(every=True)
    linked, facts = project(every, pkg__solvers=SOLVERS, pkg__parts=parts, pkg__m=source)
    events = confirmed(linked, facts["pkg.m"])
    assert [event.subject for event in events if event.kind == "effect.made-object"] == expected


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("return Quiet(2)(x)", []),
        # its constructor breaks, and so those that it calls are compiled alone, too
        ("return Loud(2)(x)", ["Quiet", "Loud"]),
        # the graph ends in a method of what is made here: all of this function runs uncompiled
        ("return Reads(2).solve(x)", ["Quiet", "Reads"]),
        ("return Reads(2)(x)", []),
    ],
)
def test_constructors_without_parameters_that_are_compiled_alone(
    body: str, lines: list[str]
) -> None:
    source = """
        import torch
        from torch import nn
        class Quiet(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.size = size
            def forward(self, x):
                return x * self.size
        class Loud(Quiet):
            def __init__(self, size):
                super().__init__(size)
                print(size)
        class Reads(Quiet):
            def __init__(self, size):
                super().__init__(size)
            def solve(self, x: torch.Tensor):
                return x if x.sum() > 0 else -x
        def use(x: torch.Tensor):
            BODY
    """
    linked, facts = project(RegionOptions(every=True), m=source.replace("BODY", body))
    events = [
        (name.split(".")[1], event.kind)
        for name, function in facts["m"].functions.items()
        for event in function.events
        if linked.region(name) is not None and all(map(linked.confirmed, event.needs))
    ]
    assert [name for name, kind in events if kind == "effect.parameter-made"] == lines


def test_an_object_kept_in_an_attribute_belongs_to_no_single_call() -> None:
    source = """
    import torch
    from pkg.solvers import Solver
    class Owner:
        def __init__(self):
            self.solver = Solver(2)
        def run(self, x: torch.Tensor):
            return self.solver.run(x)
    """
    linked, facts = project(RegionOptions(every=True), pkg__solvers=SOLVERS, pkg__m=source)
    assert not confirmed(linked, facts["pkg.m"])


def test_every_breaking_event_has_a_rule_that_claims_a_break() -> None:
    rules = catalogue.load().values()
    claimed = {e for rule in rules if rule.consequences["compile"] == "break" for e in rule.events}
    assert claimed >= BREAKING_EVENTS
