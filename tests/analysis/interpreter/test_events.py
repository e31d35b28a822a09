"""What the analysis sees in a module's forward, and what it rightly does not see."""

from __future__ import annotations

import pytest

from tests.analysis.programs import confirmed, forward, kinds, project

SEEN = [
    ("return x.item()", ["sync.item"]),
    ("return float(x.sum())", ["sync.number"]),
    ("return x.tolist()", ["sync.tolist"]),
    ("return x.cpu()", ["sync.copy"]),
    ("return x.to('cpu')", ["sync.copy"]),
    ("return np.asarray(x)", ["sync.numpy"]),
    ("self.layer.register_forward_hook(print)\nreturn x", ["effect.module-hook"]),
    ("return x.reshape(np.prod(x.shape))", ["host.numpy-number"]),
    ("return x.new_zeros((2, np.sum([1, 2])))", ["host.numpy-number"]),
    ("return torch.zeros(np.max(x.shape), device=x.device)", ["host.numpy-number"]),
    ("n = int(np.sum(x.shape))\nreturn x * n", ["host.numpy-number"]),
    ("for i in range(np.min(x.shape)):\n    pass", ["host.numpy-number"]),
    ("return x * np.log1p(x.size(0)).astype('int').item()", ["host.numpy-number"]),
    ("for i in range((np.array(x.shape) // 2)[0]):\n    pass", ["host.numpy-number"]),
    ("n = np.arange(4)\nreturn x.view(n[3], -1)", ["host.numpy-number"]),
    ("if x.shape[0] % np.lcm(2, 3) != 0:\n    x = x + 1", ["host.numpy-number"]),
    ("y = np.zeros(3)\nif y.sum() > 0:\n    return x", ["host.numpy-number"]),
    ("n = np.lcm(2, 3)\nwhile x.shape[0] > n:\n    x = x[n:]", ["host.numpy-number"] * 2),
    ("n = np.prod(x.shape)\nfor i in range(n):\n    pass", ["host.numpy-number"]),
    ("n = np.power(2, 3)\nfor i in range(n):\n    pass", ["host.numpy-number"]),
    ("n = np.max(x.shape)\nreturn x.view(n, -1)", ["host.numpy-number"]),
    ("n = np.cumsum(x.shape).tolist()", ["host.numpy-number"]),
    ("n = np.prod(x.shape)\nreturn [1, 2][n]", ["host.numpy-number"]),
    ("for n in np.arange(3):\n    y = x[:n]", ["host.numpy-number"]),
    ("return x if np.isnan(x.shape[0]) else x + 1", ["host.numpy-number"]),
    ("return np.array([[1, 0], [0, np.cos(0.3)]])", ["host.numpy-number"]),
    ("y = np.linspace(0, 1, 4)\nreturn np.array([y[0], 1.0])", ["host.numpy-number"]),
    ("y = np.linspace(0, 1, 4)\nreturn np.asarray([[y[0], y[1]]])", ["host.numpy-number"]),
    ("return math.sqrt(np.sum(x.shape))", ["host.numpy-number"]),
    ("return np.empty(3, dtype=object)", ["effect.untraced-call"]),
    ("return list[int]()", ["effect.untraced-call"]),
    ("y = x * 2\nreturn y if y.grad_fn is None else -y", ["effect.untraced-call"]),
    ("y = np.zeros(3)\nreturn np.eye(3, dtype=y.dtype)", ["effect.untraced-call"]),
    ("return nn.utils.rnn.pack_padded_sequence(x, [3])", ["host.lengths"]),
    ("return math.prod(n for n in x.shape)", ["effect.untraced-call"]),
    ("g = torch.Generator()\ng.manual_seed(0)\nreturn x", ["effect.generator"]),
    ("return pow(x, 2)", ["effect.untraced-call"]),
    ("return max(x.unbind(), key=len)", ["effect.untraced-call"]),
    ("return min([x, x + 1], key=lambda t: t.shape[0])", ["effect.untraced-call"]),
    ("return x.type(torch.Tensor)", ["effect.untraced-call"]),
    ("class Here:\n    pass", ["effect.untraced-call"]),
    ("rng = np.random.default_rng(0)\nreturn x * rng.random()", ["effect.numpy-random"] * 2),
    ("rng = np.random.RandomState(0)\nn = rng.rand()", ["effect.numpy-random"] * 2),
    ("return copy.deepcopy(x)", ["effect.untraced-call"]),
    ("return torch.distributions.Normal(x, x.abs())", ["sync.validated"]),
    ("return torch.distributions.Categorical(logits=x).sample()", ["sync.validated"]),
    ("d = torch.distributions.Bernoulli(probs=x)\nreturn d.entropy()", ["sync.validated"]),
    ("d = torch.distributions.Normal(0.0, 1.0)\nreturn d.log_prob(x)", ["sync.validated"]),
    ("d = torch.distributions.Laplace(x, 1.0)\nreturn d.cdf(x)", ["sync.validated"] * 2),
    ("return torch.repeat_interleave(x.long())", ["shape.repeat-interleave"]),
    ("loss = self.other(x)\nloss.backward()\nreturn float(loss)", ["method", "sync.number"]),
    ("loss = self.other(x)\nloss.backward(retain_graph=True)", ["method"]),
    ("layer = torch.nn.GRU(2, 2)\nn = layer.num_layers", ["effect.parameter-made", "effect.rnn"]),
    ("return math.sqrt(x.sum())", ["sync.math"]),
    ("return max(x.sum(), x.mean())", ["sync.builtin"]),
    ("return torch.equal(x, x + 1)", ["sync.equal"]),
    ("return f'{x}'", ["sync.format"]),
    ("print(x)", ["call"]),
    ("x.sum().backward()", ["method"]),
    ("logger.info('hello')", ["effect.log"]),
    ("return random.random()", ["call"]),
    ("if x.sum() > 0:\n    x = x + 1\nreturn x", ["branch.if"]),
    ("if not (x > 0).all():\n    raise ValueError(f'{x}')", ["branch.raise"]),
    ("return x if x.any() else x + 1", ["branch.ternary"]),
    ("while x.sum() > 0:\n    x = x - 1\nreturn x", ["branch.while"]),
    ("assert x.sum() > 0, 'text'", ["branch.assert"]),
    ("assert x.sum() > 0, f'{x}'", ["branch.if"]),
    ("assert not x.any()", ["branch.not"]),
    ("for i in range(x.max()):\n    pass", ["branch.loop"]),
    ("if torch.rand([]) < 0.1:\n    return x", ["branch.random-skip"]),
    ("if random.uniform(0, 1) < 0.1:\n    return x", ["call", "branch.random-skip"]),
    ("n = random.randint(0, 9)\nreturn x if n == 3 else x + 1", ["call", "branch.random-skip"]),
    ("n = random.randint(0, 9)\nfor i in range(n):\n    x = x + 1\nreturn x", ["call"]),
    ("if torch.isinf(x).any():\n    x = x.clamp(0, 1)\nreturn x", ["branch.finite-guard"]),
    ("if x.dtype == torch.float16 and torch.isinf(x).any():\n    x = x + 1", ["branch.half-guard"]),
    ("return x.nonzero()", ["shape.nonzero"]),
    ("return torch.where(x > 0)", ["shape.nonzero"]),
    ("return x[x > 0]", ["shape.mask-read"]),
    ("y = self.made(x)\nreturn y[x > 0, :]", ["shape.mask-read"]),
    ("x[x > 0] = x.sum()", ["shape.mask-write"]),
    ("return torch.unique(x)", ["shape.unique"]),
    ("return x.repeat_interleave(x.long())", ["shape.repeat-interleave"]),
    ("return F.one_hot(x.long())", ["shape.one-hot"]),
    ("return torch.arange(x.max(), device=x.device)", ["shape.from-value"]),
    ("return x[: x.argmax()]", ["shape.from-value"]),
    ("return x[torch.arange(3)]", ["host.moved", "host.factory"]),
    ("return torch.zeros(3).to(x.device)", ["host.factory-moved"]),
    ("return x * torch.tensor(2.0)", ["host.scalar-tensor"]),
    ("return x[torch.tensor([1, 2])]", ["host.moved", "host.data-tensor"]),
    ("return x[[0, 1]]", ["host.index-list"]),
    ("m = torch.zeros(3)\nm = m + 1\nreturn m.cuda() + x", ["host.factory", "host.moved"]),
    ("x.requires_grad = True", ["effect.requires-grad"]),
    ("return torch.ones_like(x, requires_grad=self.training)", ["effect.requires-grad"]),
    ("return torch.ones_like(x, requires_grad=self.training)", ["effect.requires-grad"]),
    ("x.data = x + 1", ["effect.data-assign"]),
    ("return nn.Linear(3, 3)(x)", ["effect.parameter-made"]),
    ("return self.made(x)[x > 0]", ["shape.mask-read"]),
]


@pytest.mark.parametrize(("body", "expected"), SEEN, ids=[body for body, _ in SEEN])
def test_seen(body: str, expected: list[str]) -> None:
    assert forward(body) == expected


def test_an_array_of_what_is_not_known_is_an_array() -> None:
    body = "ends = np.array(plan) // size\nfor i in range(ends[0]):\n    x = x + i\nreturn x"
    assert forward(body, "x: torch.Tensor, plan, size") == ["host.numpy-number"]


NOT_SEEN = [
    "return self.made(x)[x]",
    "return self.made(x)[x, :]",
    "if x.shape[0] > 1:\n    x = x + 1\nreturn x",
    "if x.size(0) == x.dim():\n    return x",
    "if x is None:\n    return 1",
    "if self.training:\n    return x",
    "if isinstance(x, torch.Tensor):\n    return x",
    "for i in range(x.shape[0]):\n    x = x + i\nreturn x",
    "for row in x:\n    x = x + row\nreturn x",
    "return torch.zeros(3, device=x.device) + x",
    "return torch.zeros_like(x)",
    "return x.new_zeros(3)",
    "return x.new(x)",
    "return x[0] + x[:, 1:]",
    "return x[x.argsort()]",
    "return nn.functional.relu(x)",
    "return torch.where(x > 0, x, 0)",
    "return nn.Dropout(0.1)(x)",
    "return x.to(x.dtype)",
    "return x.float()",
    "raise ValueError(f'{x}')",
    "if x.shape[0] > 3:\n    print(x.item())\n    raise ValueError",
    "try:\n    return x\nexcept RuntimeError:\n    print(x)\n    raise",
    "if not torch.compiler.is_compiling():\n    print(x)\nreturn x",
    "if torch.jit.is_scripting() and x.sum() > 0:\n    return x",
    "return int(x.shape[0]) + float(self.size)",
    "return max(x.shape[0], 3)",
    "return sum([x, x])",
    "return 'a' if len(x) else 'b'",
    "y = np.zeros(3)\nif y.shape[0] > 2 and y.ndim == 1 and len(y):\n    return x",
    "n = int(np.ceil(x.shape[0] / 2)) + int(np.sqrt(16))\nreturn x[:n]",
    "n = [int(np.ceil(s / 3) * 3 - s) for s in x.shape]",
    "assert np.sqrt(x.shape[0]) > 1",
    "y = np.sqrt(2.0)\nreturn x * y",
    "y = np.pi * 2\nif y > 3:\n    return x",
    "if np.issubdtype(np.float32, np.floating):\n    return x",
    "y = np.arange(3)\nreturn x * np.array([y[0], y[1]])",
    "return x * np.array([np.cos(0.3), np.sin(0.3)])",
    "return x * np.array([[1, 0], [0, x.shape[0]]])",
    "return torch.ones_like(x, requires_grad=x.requires_grad)",
    "d = torch.distributions.Normal(x, x, validate_args=False)\nreturn d.log_prob(x)",
    "d = torch.distributions.Normal(0.0, 1.0)\nreturn d.icdf(x)",
    "return torch.distributions.Normal(0.0, 1.0).sample((2,))",
    "return torch.distributions.Normal(0.0, 1.0).entropy()",
    "y = copy.deepcopy([1, 2])",
    "y = copy.deepcopy(torch.nn.ReLU())(x)",
    "y = pow(2, 3)",
    "return x if x.grad_fn is None else -x",
    "y = np.zeros(3)\nreturn x * y.shape[0] + y.ndim",
    "return nn.utils.rnn.pad_sequence([x, x[:2]])",
    "return math.prod([n for n in x.shape])",
    "g = torch.Generator().manual_seed(0)\nreturn x.to(g.device)",
    "y = max([1, 2], key=lambda k: -k)",
    "y = {'a': list}['a']()",
    "y: list[int] = list()",
    "y = np.empty(3, dtype=np.float32)",
    "held = {self.name: x}\nif held.get('cache', False):\n    return x",
]


@pytest.mark.parametrize("body", NOT_SEEN)
def test_not_seen(body: str) -> None:
    assert forward(body) == []


def test_a_name_is_what_it_is_bound_to() -> None:
    assert kinds("import numpy as torch\nfrom torch import nn\nclass M(nn.Module):\n    pass") == []
    source = """
        import torch as t
        from torch import arange as make
        class M(t.nn.Module):
            def forward(self, x: t.Tensor, print):
                print(x)
                return x[make(3)]
    """
    assert "host.factory" in kinds(source)


def test_a_number_that_numpy_made_before_is_known() -> None:
    source = """
        import numpy as np
        import torch
        class M(torch.nn.Module):
            def __init__(self, size):
                super().__init__()
                self.n = np.prod(size)
            def forward(self, x: torch.Tensor):
                return x.view(self.n, -1)[: int(self.n)], self.padded(x.shape[0], 3)
            def padded(self, s, m):
                return int(np.ceil(s / m) * m - s)
    """
    assert kinds(source) == []


def test_each_branch_on_one_draw_is_reported() -> None:
    body = "skip = torch.rand([], device=x.device) < 0.1\nif skip:\n    x = x + 1\n"
    body += "if skip:\n    x = x + 2\nreturn x"
    assert forward(body) == ["branch.if", "branch.if"]


def test_each_branch_on_one_draw_waits() -> None:
    body = "for layer in self.layers:\n    skip = torch.rand([], device=x.device) < 0.1\n"
    body += "    if not skip:\n        x = layer(x)\n    if skip:\n        x = x + 2\nreturn x"
    assert forward(body) == ["branch.if", "branch.if"]
    on_host = body.replace("[], device=x.device", "[]")
    assert forward(on_host) == ["branch.random-skip"]


def test_use_and_annotation_of_parameters() -> None:
    assert forward("if x.unsqueeze(0).sum() > 0:\n    return y", "x, y") == ["branch.if"]
    assert forward("if x > 0:\n    return x", "x: int") == []
    assert forward("if x > 0:\n    return x", "x") == []
    assert forward("if x:\n    return 1", "x: 'torch.Tensor | None' = None") == ["branch.if"]
    assert forward("if flag:\n    return 1", "flag: torch.Tensor = False") == []
    assert forward("for t in xs:\n    if t.any():\n        return t", "xs: list[torch.Tensor]") == [
        "branch.if"
    ]


def test_attributes_set_in_the_constructor() -> None:
    init = "self.register_buffer('table', torch.zeros(3))\nself.plain = torch.zeros(3)\n"
    init += "self.scale = 2.0\n"
    init += "self.layer = nn.Linear(3, 3)"
    assert forward("if self.table.sum() > 0:\n    return x", init=init) == ["branch.if"]
    assert forward("return x + self.plain", init=init) == ["host.attribute"]
    assert forward("if self.scale > 1:\n    return x", init=init) == []
    assert forward("if self.layer(x).sum() > 0:\n    return x", init=init) == ["branch.if"]


MOVES = """
import torch
class M(torch.nn.Module):
    def __init__(self, scaler=None, device=None):
        super().__init__()
        self.scaler = scaler.{call}
    @property
    def slope(self):
        return self.scaler
    @slope.setter
    def slope(self, value):
        print(value.item())
    def forward(self, x):
        return x if self.scaler else self.slope(x)
"""


@pytest.mark.parametrize(("call", "seen"), [("to(device)", []), ("abs()", ["branch.ternary"])])
def test_what_the_constructor_moves_may_be_a_module(call: str, seen: list[str]) -> None:
    assert kinds(MOVES.format(call=call)) == seen


def test_reading_a_property_does_not_set_it() -> None:
    linked, _ = project(m=MOVES.format(call="eval()"))
    assert linked.region("m.M.slope") is not None
    assert linked.region("m.M.slope.setter") is None


def test_a_subclass_may_replace_the_setter_alone() -> None:
    """Its setter is no method of the property's name: reading still calls the parent's getter."""
    kept = """
class Lazy(M):
    @M.slope.setter
    def slope(self, value):
        self.other = value
    def forward(self, x):
        return x if self.slope else -x
"""
    _, facts = project(m=MOVES.format(call="abs()") + kept)
    assert "slope" not in facts["m"].classes["m.Lazy"].methods


def test_loops_and_branches_join() -> None:
    body = (
        "y = 0\nfor i in range(3):\n    if y > 1:\n        return x\n    y = y + x.sum()\nreturn y"
    )
    assert forward(body) == ["branch.if"]
    assert forward(
        "y = None\nif self.training:\n    y = x.sum()\nif y is not None and y > 0:\n    return x"
    ) == ["branch.if"]


def test_tensors_passed_for_annotated_numbers_are_seen() -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor, flag: bool):
                return self.pad(x, (1, VALUE))
            def pad(self, x, sizes: tuple[int, int]):
                left, right = sizes
                if right > 3:
                    return x[left:]
    """
    for value, count in (("x.sum()", 1), ("len(x)", 0)):
        linked, facts = project(m=source.replace("VALUE", value))
        found = [event.kind for event in confirmed(linked, facts["m"])]
        assert len(found) == count, found


@pytest.mark.parametrize(("default", "seen"), [("True", True), ("False", False), ("None", False)])
def test_a_leaf_is_made_where_the_switch_is_on_by_default(default: str, seen: bool) -> None:
    body = "return x + torch.ones_like(x, requires_grad=grad)"
    events = forward(body, f"x: torch.Tensor, *, grad: bool = {default}")
    assert events == (["effect.requires-grad"] if seen else [])


def test_columns_are_characters() -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return 'é', x.item()
    """
    linked, facts = project(m=source)
    (event,) = confirmed(linked, facts["m"])
    assert event.span[:2] == (5, 20)


def test_long_sums_and_deep_nesting_are_survived() -> None:
    assert forward("return " + " + ".join(["x"] * 5000)) == []
    assert forward("y = " + "(" * 80 + "x" + ")" * 80 + "\nreturn y.item()") == ["sync.item"]
    deep = (
        "".join("    " * i + "if x.shape[0]:\n" for i in range(60)) + "    " * 60 + "x = x.item()"
    )
    assert forward(deep) == ["sync.item"]


KEPT = """
from functools import cached_property
import torch

class Base(torch.nn.Module):
    @cached_property
    def left(self):
        return 1

class Model(Base):
    {inside}
    def forward(self, x: torch.Tensor):
        return x + self.left
"""


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("", ["effect.cached-property"]),
        ("@property\n    def left(self):\n        return 1\n", []),
        ("@cached_property\n    def other(self):\n        return 1\n", ["effect.cached-property"]),
        ("def __init__(self):\n        self.left = 2\n", []),
    ],
)
def test_a_cached_property_is_seen_where_the_class_has_it(inside: str, expected: list[str]) -> None:
    assert kinds(KEPT.replace("{inside}", inside)) == expected
