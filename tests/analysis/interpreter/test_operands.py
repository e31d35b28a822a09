"""What operators and functions of torch say of their operands, and read of them."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, forward, project

HEAD = "import math\nimport torch\nimport torch.nn.functional as F\nfrom tqdm import tqdm\n"
EVERY = RegionOptions(every=True)

# Bodies of forward(x), and what is seen.
SEEN = [
    ("return x.masked_fill(x > 0, x.sum())", ["sync.number"]),
    ("return torch.clamp(x, x.min(), max=3)", ["sync.number"]),
    ("return F.pad(x, (1, 1), value=x.mean())", ["sync.number"]),
    ("return F.leaky_relu(x, x.mean())", ["sync.number"]),
    ("return torch.full_like(x, x.mean())", ["sync.number"]),
    ("return torch.full((2,), x.sum(), device=x.device)", ["sync.number"]),
    ("return torch.nan_to_num(x, nan=x.mean())", ["sync.number"]),
    ("torch._assert(x.sum() > 0, 'empty')\nreturn x", ["sync.number"]),
    ("return torch.combinations(x[:, 0])", ["shape.mask-read"]),
    ("for p in self.parameters():\n    if p.grad is not None:\n        return p.sum().item()", 1),
    ("if torch.rand((), device=x.device) < x.mean():\n    return x", ["branch.if"]),
    (
        "d = torch.distributions.Normal(x, 1.0, validate_args=False)\n"
        "return d.log_prob(x).sum().item()",
        ["sync.item"],
    ),
    (
        "d = torch.distributions.Categorical(x, validate_args=False)\nreturn d.sample().tolist()",
        ["sync.tolist"],
    ),
    ("kl = torch.distributions.kl_divergence(x, x)\nif kl.mean() > 1:\n    return x", 1),
]
NOT_SEEN = [
    "return x.masked_fill(x > 0, 0.0)",
    "return x.masked_fill(x > 0, self.size)",
    "return x.clamp(min=x.min())",
    "return torch.clamp(x, x.min(), x.max())",
    "return x.clamp(0, 1)",
    "return F.pad(x, (1, 1), value=0.0)",
    "return torch.full_like(x, 2.0)",
    "torch._assert(x.shape[0] > 0, 'empty')\nreturn x",
    "d = torch.distributions.Normal(2.0, 1.0)\nif d.batch_shape[0] > 1:\n    return x",
]


@pytest.mark.parametrize(("body", "expected"), SEEN, ids=[body for body, _ in SEEN])
def test_a_value_that_the_host_reads(body: str, expected: list[str] | int) -> None:
    found = forward(body)
    assert found == expected or len(found) == expected


@pytest.mark.parametrize("body", NOT_SEEN)
def test_numbers_that_are_numbers(body: str) -> None:
    assert forward(body) == []


# Functions of a library without annotations, and what is seen where users compile them.
UNTYPED = [
    ("def f(x, y):\n    hit = y > x[1:]\n    return torch.nonzero(hit)", ["shape.nonzero"]),
    ("def f(scores):\n    return torch.bincount(scores.ids)", ["shape.bincount"]),
    ("def f(x, ids):\n    for i in ids:\n        x = x + torch.relu(x) * i.item()", ["sync.item"]),
    (
        "def f(n=None, sizes=None):\n    sizes = torch.cumsum(sizes, 0)\n    n = n or sizes.max()\n"
        "    return torch.arange(n, device=sizes.device)",
        ["shape.from-value"],
    ),
    (
        "def f(x, mask=None):\n    if mask is None:\n        mask = torch.relu(x) > 0\n"
        "    return torch.exp(x)[mask]",
        ["shape.mask-read"],
    ),
    (
        "def f(xs):\n    keys = torch.arange(3, device=xs.device)\n    picked = xs[keys]\n"
        "    if picked.sum():\n        return xs",
        ["branch.if"],
    ),
    (
        "def f(x, value=-float('inf')):\n    x = torch.relu(x)\n    x[x > 0] = value\n    return x",
        [],
    ),
    (
        "class Sgd(torch.optim.Optimizer):\n    def step(self):\n"
        "        for group in self.param_groups:\n            for p in group['params']:\n"
        "                if p.grad is None:\n                    continue\n"
        "                if p.grad.norm() > group['limit']:\n                    p.grad.mul_(0.5)",
        ["branch.if"],
    ),
    (
        "class Mean:\n    def __init__(self):\n"
        "        self.add_state('total', default=torch.tensor(0.0))\n"
        "    def update(self, x):\n        self.total += torch.relu(x).sum()\n"
        "        if self.total == 0:\n            return x",
        ["effect.buffer-rebound", "branch.if"],
    ),
    (
        "def sample(model, steps, device):\n    x = torch.randn(3, device=device)\n"
        "    for t in tqdm(range(steps)):\n        x = model(x, t)\n"
        "    if torch.isnan(x).any():\n        raise ValueError",
        ["branch.finite-guard"],
    ),
    (
        "def pad(rows):\n    ids = [0]\n    for row in rows:\n        ids.append(len(row))\n"
        "    x = torch.ones(9, device=rows[0].device)\n    return x[ids]",
        ["host.index-list"],
    ),
]


@pytest.mark.parametrize(("source", "expected"), UNTYPED, ids=[each for each, _ in UNTYPED])
def test_functions_that_say_no_types(source: str, expected: list[str]) -> None:
    linked, facts = project(EVERY, m=HEAD + source + "\n")
    assert [event.kind for event in confirmed(linked, facts["m"])] == expected


@pytest.mark.parametrize(
    ("call", "subject"),
    [
        ("x.masked_fill(x > 0, x.sum())", "masked_fill()"),
        ("torch.add(x, x, alpha=x.sum())", "alpha="),
        ("torch.full((2,), x.sum(), device=x.device)", "torch.full()"),
        ("torch.full((2,), fill_value=x.sum(), device=x.device)", "fill_value="),
    ],
)
def test_an_argument_is_named_as_it_is_passed(call: str, subject: str) -> None:
    source = f"import torch\ndef f(x: torch.Tensor):\n    return {call}\n"
    linked, facts = project(EVERY, m=source)
    assert [event.subject for event in confirmed(linked, facts["m"])] == [subject]
