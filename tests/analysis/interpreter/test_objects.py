"""Objects and names: properties, grown module lists, aliases, compiled forms."""

from __future__ import annotations

import textwrap

import pytest

from tests.analysis.programs import kinds

HEAD = """
import time
import torch
from torch import nn
"""

SEEN = {
    "a property of the same class": (
        """
        class M(nn.Module):
            @property
            def limit(self):
                return self.p.max()
            def __init__(self):
                super().__init__()
                self.register_buffer("p", torch.ones(3))
            def forward(self, x):
                if self.limit > 2:
                    return x
        """,
        ["branch.if"],
    ),
    "a module list that is appended to": (
        """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
            def helper(self, x: torch.Tensor):
                return x.item()
        class M(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.blocks = nn.ModuleList()
                for i in range(n):
                    self.blocks.append(Block())
            def forward(self, x):
                for block in self.blocks:
                    x = block.helper(x)
                return x
        """,
        ["sync.item"],
    ),
    "a module list that is extended": (
        """
        class Block(nn.Module):
            def helper(self, x: torch.Tensor):
                return x.item()
        class M(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.blocks = nn.ModuleList()
                self.blocks.extend([Block() for _ in range(n)])
            def forward(self, x):
                return self.blocks[0].helper(x)
        """,
        ["sync.item"],
    ),
    "one of two modules": (
        """
        class A(nn.Module):
            def helper(self, x: torch.Tensor):
                return x.item()
        class B(nn.Module):
            def helper(self, x: torch.Tensor):
                return x.tolist()
        class M(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.part = A() if n else B()
            def forward(self, x):
                return self.part.helper(x)
        """,
        ["sync.item", "sync.tolist"],
    ),
    "a module that may be missing": (
        """
        class M(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.norm = nn.LayerNorm(n) if n else None
            def forward(self, x):
                return self.norm(x).item()
        """,
        ["sync.item"],
    ),
    "forward by another name": (
        """
        class M(nn.Module):
            def _forward(self, x: torch.Tensor):
                return x.item()
            forward = _forward
        """,
        ["sync.item"],
    ),
    "a class inside a function": (
        """
        def make():
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(2, 2)
                def forward(self, x):
                    return self.layer(x).item()
            return M()
        """,
        ["sync.item"],
    ),
    "a bound method in a variable": (
        """
        class M(nn.Module):
            def forward(self, x: torch.Tensor):
                read = x.item
                return read()
        """,
        ["sync.item"],
    ),
    "an import inside the function": (
        """
        class M(nn.Module):
            def forward(self, x: "torch.Tensor"):
                import torch
                import torch.nn.functional as F
                return torch.nonzero(F.relu(x))
        """,
        ["shape.nonzero"],
    ),
    "a captured name": (
        """
        class M(nn.Module):
            def forward(self, x: torch.Tensor, n):
                match x:
                    case torch.Tensor() as t:
                        return t.item()
        """,
        ["sync.item"],
    ),
    "a sequence pattern": (
        """
        class M(nn.Module):
            def forward(self, x: torch.Tensor):
                match (x, 1):
                    case (a, b):
                        return a.item()
        """,
        ["sync.item"],
    ),
    "a type alias": (
        """
        Array = torch.Tensor
        class M(nn.Module):
            def forward(self, x: Array):
                return x.item()
        """,
        ["sync.item"],
    ),
    "an optional alias": (
        """
        from typing import Optional, TypeAlias
        Mask: TypeAlias = Optional[torch.Tensor]
        class M(nn.Module):
            def forward(self, x: Mask):
                return x.item()
        """,
        ["sync.item"],
    ),
    "jaxtyping": (
        """
        from jaxtyping import Float, Bool
        from torch import Tensor
        class M(nn.Module):
            def forward(self, x: Float[Tensor, "b n"], m: Bool[Tensor, "b n"]):
                return x[m]
        """,
        ["shape.mask-read"],
    ),
    "a compiled lambda": (
        """
        f = torch.compile(lambda x: x.item())
        """,
        ["sync.item"],
    ),
    "a method that is compiled in place": (
        """
        class T:
            def step(self, x):
                return x.item()
        t = T()
        t.step = torch.compile(t.step)
        """,
        ["sync.item"],
    ),
    "torch.compile under another name": (
        """
        compile_ = torch.compile
        def f(x: torch.Tensor):
            return x.item()
        g = compile_(f)
        """,
        ["sync.item"],
    ),
    "a compiled method of self": (
        """
        class T:
            def __init__(self):
                self.run = torch.compile(self._run)
            def _run(self, x):
                return x.item()
        """,
        ["sync.item"],
    ),
    "an autograd function": (
        """
        class G(torch.autograd.Function):
            @staticmethod
            def forward(ctx, y, n, total):
                if total > 0:
                    return y
                if n > 2:
                    return y
                return y
        class M(nn.Module):
            def forward(self, x: torch.Tensor):
                return G.apply(x, 3, x.sum())
        """,
        ["branch.if"],
    ),
    "an expert indexed by a tensor": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.experts = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
            def forward(self, x: torch.Tensor):
                for i in x.argmax(-1).unique():
                    x = self.experts[i](x)
                return x
        """,
        ["shape.unique", "sync.number"],
    ),
    "a parameter indexed by an element": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.ones(3, 2))
            def forward(self, x: torch.Tensor):
                idx = x.argmax()
                return self.w[idx]
        """,
        ["shape.from-value"],
    ),
    "a mask in an attribute": (
        """
        class M(nn.Module):
            def make(self, x: torch.Tensor):
                self.mask = x > 0
            def forward(self, x: torch.Tensor):
                self.make(x)
                return x[self.mask]
        """,
        ["effect.kept-output", "shape.mask-read"],
    ),
    "a mask that is returned": (
        """
        def mask_of(x):
            return x > 0
        class M(nn.Module):
            def forward(self, x: torch.Tensor):
                return x[mask_of(x)]
        """,
        ["shape.mask-read"],
    ),
    "a buffer read in a helper": (
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("steps", torch.zeros(()))
            def helper(self):
                return int(self.steps) + self.steps.item()
            def forward(self, x: torch.Tensor):
                return x + self.helper()
        """,
        ["sync.number", "sync.item"],
    ),
    "an assert on a helper's result": (
        """
        def check(t):
            assert (t >= 0).all()
            assert t.min() >= 0, "negative"
        class M(nn.Module):
            def forward(self, x: torch.Tensor):
                check(x)
        """,
        ["branch.assert", "branch.assert"],
    ),
}

SEEN["a scripted function, which Dynamo traces"] = (
    """
    @torch.jit.script
    def f(x: torch.Tensor):
        if x.sum() > 0:
            return x
        return x + 1
    class M(nn.Module):
        def forward(self, x: torch.Tensor):
            return f(x)
    """,
    ["branch.if"],
)
NOT_SEEN = {
    "compile that is disabled": """
        @torch.compile(disable=True)
        def f(x: torch.Tensor):
            return x.item()
        """,
    "a class without parameters made": """
        class Helper(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.n = n
            def forward(self, x):
                return x * self.n
        class M(nn.Module):
            def forward(self, x: torch.Tensor):
                return Helper(2)(x)
        """,
    "a type that is matched": """
        class M(nn.Module):
            def forward(self, x):
                match x:
                    case torch.Tensor():
                        return x + 1
                    case _:
                        return x
        """,
    "sizes of a typed constructor": """
        class M(nn.Module):
            def forward(self, x: torch.Tensor):
                n, m = x.shape
                return torch.LongTensor(n, m).to("cuda")
        """,
    "flags": """
        class M(nn.Module):
            def __init__(self, causal=False, scale=None):
                super().__init__()
                self.causal = causal
                self.scale = scale
            def forward(self, x: torch.Tensor, flag=False, eps=1e-5):
                if self.causal and flag:
                    return x
                if self.scale and self.scale > 2:
                    return x
                return x + eps if eps > 0 else x
        """,
    "a draw behind a short circuit": """
        class M(nn.Module):
            def forward(self, x: torch.Tensor):
                if self.training and self.p > 0 and torch.rand(1) < self.p:
                    return x
                return x
        """,
}


def seen(source: str) -> list[str]:
    return kinds(HEAD + textwrap.dedent(source))


@pytest.mark.parametrize("name", SEEN)
def test_seen(name: str) -> None:
    source, expected = SEEN[name]
    assert seen(source) == expected


@pytest.mark.parametrize("name", NOT_SEEN)
def test_not_seen(name: str) -> None:
    found = [kind for kind in seen(NOT_SEEN[name]) if not kind.startswith("host.")]
    assert found == [] or name == "a draw behind a short circuit"


def test_sizes_of_a_typed_constructor_are_no_data() -> None:
    assert seen(NOT_SEEN["sizes of a typed constructor"]) == ["host.factory-moved"]


def test_a_property_that_makes_a_host_tensor() -> None:
    source = """
        class M(nn.Module):
            @property
            def table(self):
                return torch.zeros(3)
            def forward(self, x: torch.Tensor):
                return self.table.to(x.device) + x
        """
    assert seen(source) == ["host.moved"]
