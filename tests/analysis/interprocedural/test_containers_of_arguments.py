"""Lists and dictionaries that calls pass, types of other packages, and code that reads a file."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project


def found(source: str) -> list[str]:
    """The kinds of the events of a one-file program, where every region is asked for."""
    linked, facts = project(RegionOptions((), True), m="import torch\n" + source)
    kinds = [event.kind for event in confirmed(linked, facts["m"])]
    return [kind for kind in kinds if kind.startswith(("branch", "sync"))]


CHECK = """
def check(held: TYPE):
    for each in held.values() if isinstance(held, dict) else held:
        if each.min() < 0:
            return 1
    return 0
def run(p: torch.Tensor):
    return check(GIVEN)
"""


@pytest.mark.parametrize(
    ("type_", "given", "kinds"),
    [
        ("dict", '{"a": p[:, 0]}', ["branch.if"]),
        ("dict", '{"a": 3, "b": p}', ["branch.if"]),
        ("dict", '{"a": 3}', []),
        ("list", "[p[:, 0]]", ["branch.if"]),
        ("list", "[p.shape]", []),
    ],
)
def test_a_container_that_is_passed(type_: str, given: str, kinds: list[str]) -> None:
    arm = ".values()" if type_ == "dict" else ""
    source = CHECK.replace("held.values() if isinstance(held, dict) else held", f"held{arm}")
    assert found(source.replace("TYPE", type_).replace("GIVEN", given)) == kinds


@pytest.mark.parametrize(
    ("module", "kinds"),
    [("other.typing", ["branch.if"] * 2), ("tensorflow", []), ("m_types", [])],
)
def test_a_tensor_by_the_name_that_another_package_gives_it(module: str, kinds: list[str]) -> None:
    source = f"import torch\nfrom {module} import Tensor\n"
    source += "def f(y: torch.Tensor, x: Tensor, z: list[Tensor]):\n"
    source += "    if x > 0:\n        y = -y\n    if z[0] > 0:\n        y = y + 1\n    return y\n"
    linked, facts = project(RegionOptions((), True), m=source, m_types="class Tensor:\n    pass\n")
    assert [event.kind for event in confirmed(linked, facts["m"])] == kinds


LOAD = """
def table():
    return torch.load("a.pt")
def lookup(x: torch.Tensor, ref=None):
    if torch.max(x) >= 3:
        raise ValueError
    LOAD
    return ref[x.long()]
"""


@pytest.mark.parametrize(
    ("load", "kinds"),
    [
        ("if ref is None:\n        ref = torch.load('a.pt')", ["branch.raise"]),
        ("if ref is None:\n        ref = table()", ["branch.raise"]),
        ("ref = torch.load('a.pt')", []),
        ("ref = table()", []),
    ],
)
def test_a_file_that_is_read_where_an_argument_is_left_out(load: str, kinds: list[str]) -> None:
    assert found(LOAD.replace("LOAD", load)) == kinds
