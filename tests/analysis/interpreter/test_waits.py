"""Where the host waits for the device: indices, single elements, moved attributes, numbers."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, forward, kinds, project

HEAD = "import torch\nfrom torch import nn\n"
X = "x: torch.Tensor, n: int"


def tail(body: str) -> str:
    """The last event of a forward, of those that wait or are made on the host."""
    return (forward(body, X) or ["nothing"])[-1]


WAITS = [
    ("return x[..., (0, 2)]", "host.index-list"),
    ("rows = [n] * x.shape[0]\nreturn x[rows]", "host.index-list"),
    ("rows = [i for i in range(n)]\nreturn x[rows]", "host.index-list"),
    ("rows = []\nrows.append(n)\nreturn x[:, rows]", "host.index-list"),
    ("rows = x[0].tolist()\nreturn x[None, rows]", "host.index-list"),
    ("y = torch.zeros(4, device=x.device)\ny[n] = 1\nreturn y", "sync.index-write"),
    ("y = torch.zeros(4, 5, device=x.device)\ny[0, n] = 1\nreturn y", "sync.index-write"),
    ("y = x.new_zeros(4, 5)[0]\ny[..., -1] = 1\nreturn y", "sync.index-write"),
    ("return torch.add(x, x, alpha=x.sum())", "sync.number"),
    ("x.addcmul_(x, x, value=x.mean())", "sync.number"),
    ("y = other(x)\ny = y.unsqueeze(0)\nif (y > 0).all():\n    return y", "branch.if"),
    ("y = self.kept[n]\nif not y.isfinite():\n    return x", "branch.finite-guard"),
    ("y = other(x)\ny.add_(1)\nif y > 0:\n    return x", "branch.if"),
    ("for i in x.masked_select(x > 0):\n    y = x[i]\nreturn y", "shape.from-value"),
    ("for i in x.masked_select(x > 0):\n    x[i] = x[0]\nreturn x", "shape.from-value"),
    ("i = (x == n).nonzero(as_tuple=True)[0][0]\nreturn x[i]", "shape.from-value"),
]
SILENT = [
    "rows = (n, 0)\nreturn x[rows]",
    "rows = [slice(None)] * 3\nreturn x[rows]",
    "return x[n, 0]",
    "y = torch.zeros(4, 5, device=x.device)\ny[0] = 1\nreturn y",
    "y = torch.zeros(4, 5, device=x.device)\ny[:, 0] = 1\nreturn y",
    "y = torch.zeros(4, device=x.device)\ny[0] = x.sum()\nreturn y",
    "x[n] = 1\nreturn x",  # whole rows, perhaps
    "return torch.add(x, x, alpha=n)",
    "y = other(x)\ny.update(1)\nif y:\n    return x",
    "y = other(x)\nif y:\n    return y.expand(3)",
]


@pytest.mark.parametrize(("body", "expected"), WAITS, ids=[body for body, _ in WAITS])
def test_the_host_waits(body: str, expected: str) -> None:
    assert tail(body) == expected


@pytest.mark.parametrize("body", SILENT)
def test_nothing_waits(body: str) -> None:
    assert tail(body) == "nothing"


def module(start: str, forward_: str, more: str = "") -> list[str]:
    """The events of a forward, for a module with these statements in its constructor."""
    lines = [
        "class M(nn.Module):",
        "    def __init__(self, given):",
        "        super().__init__()",
        *(f"        {line}" for line in start.splitlines()),
        *(f"    {line}" for line in more.splitlines()),
        "    def forward(self, x: torch.Tensor):",
        *(f"        {line}" for line in forward_.splitlines()),
    ]
    return [kind for kind in kinds(HEAD + "\n".join(lines)) if kind != "host.attribute"]


MOVED = ("y = self.kept.to(x.device)\nreturn x + y", ["host.moved"])


def test_the_last_store_counts() -> None:
    stores = "self.kept = torch.arange(4).to(given)\nself.kept = self.kept.to('cpu')"
    assert module(stores, MOVED[0]) == MOVED[1]
    assert module("\n".join(reversed(stores.splitlines())), MOVED[0]) == []


def test_a_store_behind_a_way_out_does_not_count_alone() -> None:
    more = (
        "def set(self, given):\n    self.kept = torch.arange(4).to(given)\n"
        "    if given:\n        return\n    self.kept = self.kept.to('cpu')"
    )
    assert module("", MOVED[0], more) == []


def test_an_attribute_that_moves_itself() -> None:
    body = "self.kept = self.kept.to(x.device)\nreturn x + self.kept"
    assert "host.moved" not in module("self.kept = torch.arange(4)", body)  # by the first call
    assert "host.moved" not in module("self.kept = nn.Parameter(torch.rand(4))", body)


def test_a_tensor_of_the_module_is_on_the_host() -> None:
    made = "TABLE = torch.tensor([1.0, 2.0])\n"
    body = "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    read = "        return x + TABLE.to(x.device)\n"
    assert kinds(HEAD + made + body + read) == ["host.moved"]
    placed = "TABLE = torch.tensor([1.0, 2.0], device='cuda')\n"
    assert kinds(HEAD + placed + body + read) == []


def test_a_number_that_a_helper_reads() -> None:
    source = HEAD + (
        "class M(nn.Module):\n    def place(self, t: torch.Tensor):\n        return t[0].item()\n"
        "    def forward(self, x: torch.Tensor):\n"
        "        rows = [self.place(t) for t in x]\n        return x[rows]\n"
    )
    assert kinds(source) == ["sync.item", "host.index-list"]


def test_a_helper_of_the_constructor_makes_it_on_the_host() -> None:
    helper = "def table(n):\n    return torch.tensor([1.0] * n)\n"
    body = "class M(nn.Module):\n    def __init__(self, n):\n        self.kept = 1 - table(n)\n"
    read = "    def forward(self, x: torch.Tensor):\n        return x + self.kept.to(x.device)\n"
    found = kinds(HEAD + body + read + helper)
    assert "host.moved" in found
    on_device = helper.replace("* n)", "* n, device='cuda')")
    assert "host.moved" not in kinds(HEAD + body + read + on_device)


def test_constructors_of_objects_that_are_no_modules() -> None:
    source = (
        "class Solver{base}:\n    def __init__(self, x: torch.Tensor):\n"
        "        self.first = x[0].item()\n"
    )
    made = "def solvers():\n    return [Solver]\n"
    assert reported(source.format(base="")) == []
    assert reported(source.format(base="") + made) == ["sync.item"]
    assert reported(source.format(base="(nn.Module)") + made) == []


def reported(source: str) -> list[str]:
    """The events of a library's file: every function that gets tensors may be compiled."""
    linked, facts = project(RegionOptions(every=True), m=HEAD + source)
    return [event.kind for event in confirmed(linked, facts["m"])]


def test_numbers_computed_at_import_are_numbers() -> None:
    head = "import math\nimport torch\nLOW = -5e4\nHIGH = 2 * LOW\nROOT = math.sqrt(2)\n"
    for name in ("LOW", "HIGH", "ROOT"):
        body = f"def f(x: torch.Tensor):\n    i = x.argsort()\n    x[:, i, i] = {name}\n"
        assert kinds(f"{head}@torch.compile\n{body}") == ["sync.index-write"], name
    table = "def f(x: torch.Tensor):\n    i = x.argsort()\n    x[:, i, i] = OTHER\n"
    assert kinds(f"{head}OTHER = torch.zeros(3).cuda()\n@torch.compile\n{table}") == []


def test_what_may_be_a_number_is_converted_because_it_is_one() -> None:
    source = """
import torch
@torch.compile
def f(x: torch.Tensor, t: float | torch.Tensor):
    return x * torch.as_tensor(t, device=x.device)
"""
    assert kinds(source) == ["host.data-tensor"]
    assert kinds(source.replace("float | ", "")) == []
    assert kinds(source.replace("as_tensor", "tensor")) == []
