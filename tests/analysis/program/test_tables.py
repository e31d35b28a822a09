"""Functions and classes that are kept in tables, and chosen at run time."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

MAKERS = """
    import functools
    import torch
    def ones(size):
        return torch.ones(size, device="cuda")
    def zeros(size):
        return torch.zeros(size, device="cuda")
    def sizes(size):
        return (size, size)
    class Part:
        def __init__(self, scale):
            self.scale = float(scale.sum())
        def run(self, x):
            return x * self.scale
"""
EVERY = RegionOptions(every=True)


def branches(table: str, use: str, elsewhere: bool) -> list[str]:
    """The events of a function that branches on ``use``, in the file of the table or another."""
    body = f"\ndef choose(name, x: torch.Tensor):\n    y = {use}\n    return x if y > 1 else -x\n"
    made = "import functools\nimport torch\nfrom pkg.makers import ones, zeros, sizes\n"
    source = made + table
    if elsewhere:
        other = "import torch\nfrom pkg.tables import TABLE\n" + body
        linked, facts = project(EVERY, pkg__makers=MAKERS, pkg__tables=source, pkg__m=other)
    else:
        linked, facts = project(EVERY, pkg__makers=MAKERS, pkg__m=source + body)
    return [event.kind for event in confirmed(linked, facts["pkg.m"])]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    ("table", "use"),
    [
        ("TABLE = {'a': ones, 'b': zeros}", "TABLE[name](3)"),
        ("TABLE = dict(a=ones, b=zeros)", "TABLE[name](3)"),
        ("TABLE = [ones, zeros]", "TABLE[name](3)"),
        ("TABLE = (ones, zeros)", "TABLE[name](3)"),
        ("TABLE = {}\nTABLE['a'] = ones", "TABLE[name](3)"),
        ("TABLE = {'a': functools.partial(ones, 3)}", "TABLE[name]()"),
    ],
)
def test_functions_in_tables(table: str, use: str, elsewhere: bool) -> None:
    assert branches(table, use, elsewhere) == ["branch.ternary"]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    "table",
    [
        "TABLE = {'a': sizes}",
        "TABLE = [sizes]",
        "TABLE = {}\nTABLE['a'] = sizes",
        "TABLE = {'a': 1.0}",
        "TABLE = {}",
    ],
)
def test_tables_of_functions_that_give_no_tensor(table: str, elsewhere: bool) -> None:
    assert branches(table, "TABLE[name](3)", elsewhere) == []


def test_a_table_of_a_class() -> None:
    source = """
        import torch
        from pkg.makers import ones, sizes
        class Chooser:
            TABLE = {"a": ones}
            SIZES = {"a": sizes}
            def choose(self, name, x: torch.Tensor):
                return x if self.TABLE[name](3) > 1 else -x
            def plain(self, name, x: torch.Tensor):
                return x if self.SIZES[name](3) > 1 else -x
    """
    linked, facts = project(EVERY, pkg__makers=MAKERS, pkg__m=source)
    assert [event.kind for event in confirmed(linked, facts["pkg.m"])] == ["branch.ternary"]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("PARTS = {'a': Part}", ["sync.number"]),
        ("PARTS = dict(a=Part)", ["sync.number"]),
        ("PARTS = [Part]", ["sync.number"]),
        ("PARTS = {'a': (Part, 1)}", ["sync.number"]),
        ("PARTS = {}\nPARTS['a'] = Part", ["sync.number"]),
        # nothing names it: its objects are made where that is seen, or once
        ("PARTS = {'a': 'Part'}", []),
    ],
)
def test_the_constructors_of_classes_in_tables(table: str, expected: list[str]) -> None:
    source = f"from pkg.makers import Part\n{table}\n"
    linked, facts = project(EVERY, pkg__makers=MAKERS, pkg__m=source)
    assert [event.kind for event in confirmed(linked, facts["pkg.makers"])] == expected


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [
        ("@register('a')", ["sync.number"]),
        ("@PARTS.register_module()", ["sync.number"]),
        ("@final", []),
    ],
)
def test_the_constructors_of_registered_classes(decorator: str, expected: list[str]) -> None:
    source = MAKERS.replace("class Part", f"{decorator}\n    class Part")
    linked, facts = project(EVERY, m="    from parts import PARTS, final, register\n" + source)
    assert [event.kind for event in confirmed(linked, facts["m"])] == expected
