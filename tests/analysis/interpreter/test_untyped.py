"""Code without annotations: what uses, defaults and callers say of a value."""

from __future__ import annotations

import textwrap

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, forward, kinds, project

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"

# What a parameter of forward with default None is used for, and what is seen.
SEEN = [
    ("if not mask.all():\n    x = x + 1", ["branch.if"]),
    ("if mask is not None and mask.any():\n    x = x + 1", ["branch.if"]),
    ("if mask is not None:\n    n = mask.shape[0]\n    return mask.item()", ["sync.item"]),
    ("if mask is not None and mask.dim() == 2 and mask.sum() > 0:\n    x = x + 1", ["branch.if"]),
    (
        "if mask is None:\n    mask = torch.ones_like(x)\nif mask.sum() > 0:\n    x = x + 1",
        ["branch.if"],
    ),
    ("ids = mask == 3\nif ids.sum() > 0:\n    x = x + 1", ["branch.if"]),
    ("if (mask == 3).any():\n    x = x + 1", ["branch.if"]),
    ("n = mask[:, 0]\nreturn n.tolist()", ["sync.tolist"]),
    ("x = x.masked_fill(mask == 0, 0)\nreturn mask.nonzero()", ["shape.nonzero"]),
    ("y = mask.to(x.device)\nreturn y.tolist()", ["sync.tolist"]),
    ("y = torch.where(mask, x, 0)\nreturn mask.tolist()", ["sync.tolist"]),
    ("y = F.relu(mask)\nreturn int(y.max())", ["sync.number"]),
    ("if mask > 0:\n    x = x + 1\nreturn torch.exp(mask)", ["branch.if"]),
    (
        "keep = mask[0] != mask[1]\ny = x[keep]\nif mask[0] > 0:\n    pass",
        ["shape.mask-read", "branch.if"],
    ),
    ("order = mask['order'].tolist()", ["sync.tolist"]),
    ("n = mask.dim() if isinstance(mask, Point) else mask.long().item()", ["sync.item"]),
    (
        "if isinstance(mask, Point):\n    mask.corner()\nif (mask == 3).any():\n    pass",
        ["branch.if"],
    ),
    ("y = F.relu(mask)\nif mask > 0:\n    x = x + 1", ["branch.if"]),
    ("with torch.no_grad():\n    y = torch.exp(mask)\nreturn int(mask)", ["sync.number"]),
    ("if mask is not None and mask.eq(0).any():\n    x = x + 1", ["branch.if"]),
    ("if mask is not None and mask.min() == 0:\n    x = x + 1", ["branch.if"]),
]
# Values that only look like tensors.
NOT_SEEN = [
    "if mask:\n    return x",
    "y = torch.exp(mask) if x.ndim > 2 else mask\nif mask > 0:\n    x = x + 1",
    "y = lambda: torch.exp(mask)\nif mask > 0:\n    x = x + 1",
    "y = torch.bitwise_and(mask, x)\nif mask > 0:\n    x = x + 1",
    "if x.ndim > 2:\n    y = F.relu(mask)\nif mask > 0:\n    x = x + 1",
    "mask = 3\ny = F.relu(mask)\nif mask > 0:\n    x = x + 1",
    "keep = mask[0] != 'a'\nx = x[keep]\nif mask[0] > 0:\n    x = x + 1",
    "order = mask.order\nreturn order.tolist",
    "if isinstance(x, Point):\n    x = x + 1\nmask.corner()\nif (mask == 3).any():\n    pass",
    "y = torch.tensor(mask)\nif mask > 0:\n    x = x + 1",
    "y = torch.exp(x, out=mask)\nif mask > 0:\n    x = x + 1",
    "if mask > 0.5:\n    return x",
    "if mask is not None and mask > 2:\n    return x",
    "return x * (mask or 1.0)",
    "for i in range(mask or 2):\n    x = x + i\nreturn x",
    "y = mask.keys()\nif mask:\n    return x",
    "if 'a' in mask:\n    return x",
    "if isinstance(mask, str):\n    return mask",
    "if mask == 'sum':\n    return x.sum()",
    "assert mask.dim == 4\nif mask > 1:\n    return x",
]


@pytest.mark.parametrize(("body", "expected"), SEEN, ids=[body for body, _ in SEEN])
def test_a_parameter_that_is_none_by_default(body: str, expected: list[str]) -> None:
    assert forward(body, "x, mask=None") == expected


@pytest.mark.parametrize("body", NOT_SEEN)
def test_a_parameter_that_nothing_shows_to_be_a_tensor(body: str) -> None:
    assert forward(body, "x, mask=None") == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = x + 1\nreturn x.item()", ["sync.item"]),
        ("x = x + 1\ny = x\nreturn y.item()", ["sync.item"]),
        ("x = x + 1\nx = x.relu()\nreturn x.item()", ["sync.item"]),
        ("x = x * 2\nreturn x.cpu()", ["sync.copy"]),
        ("x = len(x) + 1\nreturn x.item()", []),
        ("x = self.f(x)\nreturn x.item()", []),
    ],
)
def test_a_parameter_that_is_calculated_anew(body: str, expected: list[str]) -> None:
    assert forward(body, "x") == expected


def test_a_helper_is_told_by_its_caller() -> None:
    source = HEAD + (
        "def helper(t, mask=None):\n    if mask is not None and mask.any():\n        return t\n"
        "    return int(t[0])\n"
        "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        "        return helper(x.sum(1), mask=x > 0)\n"
    )
    assert kinds(source) == ["branch.if", "sync.number"]


def test_a_number_given_to_a_helper_is_none() -> None:
    source = HEAD + (
        "def helper(t, scale=None):\n    if scale is not None and scale > 2:\n        return t\n"
        "    return t\n"
        "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        "        return helper(x, scale=3)\n"
    )
    assert kinds(source) == []


def test_what_a_compiled_function_gets_without_annotation() -> None:
    source = HEAD + "@torch.compile\ndef f(x):\n    return x.item()\n"
    assert kinds(source) == ["sync.item"]
    source = (
        HEAD + "@torch.compile\ndef f(x, n):\n    if x.sum() > 0:\n        return x\n    return n\n"
    )
    assert kinds(source) == ["branch.if"]


def test_what_takes_arguments_is_no_method_of_a_tensor() -> None:
    source = """
    import torch
    def pull(transform, make, x: torch.Tensor):
        y = make(x)
        return transform.inverse(x), y.inverse(x)
    def push(matrix, x: torch.Tensor):
        return matrix.inverse() @ x, x.mean().numpy()
    """
    linked, facts = project(RegionOptions(every=True), m=source)
    assert facts["m"].functions["m.pull"].arrays == ()
    assert facts["m"].functions["m.push"].arrays == ("matrix",)
    assert not confirmed(linked, facts["m"])


SCHEDULER = """
import torch
class Scheduler:
    def __init__(self, n):
        self.scales = torch.linspace(0, 1, n)
        self.{kept} = torch.arange(n)
    def step(self, output, timestep, sample):
        t = timestep
        return sample * self.scales[t] + self.scales[timestep - 1] * output
"""


@pytest.mark.parametrize(("kept", "places"), [("steps", [])])
def test_a_parameter_named_as_an_element_of_a_tensor_of_its_object(
    kept: str, places: list[int]
) -> None:
    linked, facts = project(RegionOptions(every=True), m=SCHEDULER.format(kept=kept).lstrip())
    found = [event for event in confirmed(linked, facts["m"]) if event.kind == "shape.from-value"]
    assert [event.span.line for event in found if "scales" in event.subject] == places


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("means = [torch.mean(mask) for mask in x]", []),
        ("means = {k: torch.mean(mask) for k, mask in x.items()}", []),
    ],
)
def test_what_a_comprehension_binds_itself_says_nothing_of_a_parameter(
    source: str, expected: list[str]
) -> None:
    body = f"{source}\nfor i in range(mask):\n    x = x + 1\nreturn x"
    assert forward(body, "x: torch.Tensor, mask=None") == expected


def test_a_helper_that_works_with_files_is_not_compiled() -> None:
    source = """
    import json
    def tuned(path):
        with open(path) as file:
            print(path)
            return json.load(file)
    class M(nn.Module):
        def forward(self, x: torch.Tensor):
            return x + tuned("a")["b"]
    """
    assert kinds(HEAD + textwrap.dedent(source)) == []
    inside = source.replace("return x + tuned", "open('a'); print(x.shape); return x + tuned")
    assert kinds(HEAD + textwrap.dedent(inside)) == ["call"]
