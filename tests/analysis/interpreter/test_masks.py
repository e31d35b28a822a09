"""What an index says of the value that is indexed, and of what the index is made of."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, forward, project

STEP = """
    import torch
    def step(x, y, a, b):
        total = torch.abs(x).sum()
        USE
        return total
"""


def kinds(use: str) -> set[str]:
    """What happens in the body of a function that nobody annotated."""
    linked, facts = project(RegionOptions(every=True), pkg__loss=STEP.replace("USE", use))
    return {event.kind for event in confirmed(linked, facts["pkg.loss"])}


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        ("y[a == 1]", "shape.mask-read"),
        ("y[~a]", "shape.mask-read"),
        ("y[:, a > 0]", "shape.mask-read"),
        ("keep = a != -1\n        y[keep]", "shape.mask-read"),
        ("y[x > 0]", "shape.mask-read"),
        ("y[x > 0] = x", "shape.mask-write"),
        ("(a == b).nonzero()", "shape.nonzero"),
        ("if ((a - b) ** 2).mean() < 3: total += 1", "branch.if"),
    ],
)
def test_is_a_tensor(use: str, kind: str) -> None:
    assert kind in kinds(use)


@pytest.mark.parametrize(
    "use",
    [
        'y[a == "mean"]',
        "y[a is None]",
        "y[a in b]",
        '("no", "yes")[a == 1]',
        "y[a]",
        "y[a > 0 if a else 0]",
        "x[:, b] = 1",
        "x[a] = 1",
        "x[a, b] = y",
        "(a == b).sum",
        "if (a - b) ** 2 < 3: total += 1",
    ],
)
def test_may_be_something_else(use: str) -> None:
    assert not kinds(use)


def test_the_product_of_masks_is_a_mask() -> None:
    assert forward("x[(x > 0) * ~(x > 1)] = 1.0\nreturn x") == []
    assert "shape.mask-read" in forward("return x[(x > 0) + (x < 1)]")
    assert "shape.mask-read" not in forward("return x[(x > 0) * 2]")


@pytest.mark.parametrize("name", ["mask", "edge_mask", "mask_a", "node_mask_t", "MASK"])
def test_an_index_that_is_called_a_mask_is_one(name: str) -> None:
    typed = f"x: torch.Tensor, {name}: torch.Tensor"
    assert forward(f"return x[:, {name}]", typed) == ["shape.mask-read"]
    assert forward(f"return x[{name}]", typed) == ["shape.mask-read"]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("index", "index"),
        ("masked", "masked"),
        ("unmask", "unmask"),
        ("mask", "mask.long()"),
        ("mask", "mask.argmax(-1, keepdim=True)"),
    ],
)
def test_other_indices_are_none(name: str, index: str) -> None:
    typed = f"x: torch.Tensor, {name}: torch.Tensor"
    assert forward(f"return x[:, {index}]", typed) == []


LIBRARY = """
    import torch
    CALLS
    def smooth(x, fill=None):
        if fill is not None:
            x = x + fill * x.sum().item()
        return torch.abs(x)
"""


def test_users_of_a_library_pass_what_its_own_calls_do_not() -> None:
    calls = "def use(x):\n        return smooth(torch.exp(x))\n"
    text = LIBRARY.replace("CALLS", calls)
    linked, facts = project(RegionOptions(every=True), pkg__a=text)
    assert [event.kind for event in confirmed(linked, facts["pkg.a"])] == ["sync.item"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("value, atom_mask: torch.Tensor", ["shape.mask-read"]),
        ("value, atom_mask", []),
        ("value: dict, atom_mask: torch.Tensor", []),
        ("value, index: torch.Tensor", []),
        ("value, mask: torch.LongTensor", []),
    ],
)
def test_what_is_indexed_with_a_tensor_called_a_mask(parameters: str, expected: list[str]) -> None:
    name = parameters.rpartition(",")[2].partition(":")[0].strip()
    assert forward(f"return value[{name}]", f"x: torch.Tensor, {parameters}") == expected
