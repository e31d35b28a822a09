"""Functions made of functions: over batches, derivatives, under a context."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

HEAD = """
import functools
import torch
from contextlib import suppress

def loss(x):
    return x.sum()

def both(x):
    return x.sum(), 3

def three(x):
    return 3

def use(f, x: torch.Tensor):
"""


def seen(body: str) -> list[str]:
    source = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    linked, facts = project(RegionOptions(every=True), m=source)
    return [event.kind for event in confirmed(linked, facts["m"])]


@pytest.mark.parametrize(
    "body",
    [
        "y = torch.vmap(loss)(x)\nreturn y.item()",
        "y = torch.vmap(loss)(x)\nreturn float(y[0])",
        "g = torch.vmap(loss)\nreturn float(g(x))",
        "a, b = torch.vmap(both)(x)\nreturn float(a)",
        "return float(torch.func.grad(loss)(x))",
        "g = torch.func.jacrev(loss)\nreturn float(g(x))",
        "return float(torch.vmap(torch.func.grad(loss))(x))",
        "return float(torch.autograd.functional.jacobian(loss, x))",
        "f = torch.enable_grad()(f)\nreturn float(f(x))",
        "f = torch.set_grad_enabled(True)(f)\nreturn float(f(x))",
        "g = functools.wraps(loss)(loss)\nreturn float(g(x))",
    ],
)
def test_what_they_give_is_a_tensor(body: str) -> None:
    assert seen(body)[-1:] in (["sync.number"], ["sync.item"])


@pytest.mark.parametrize(
    "body",
    [
        "a, b = torch.vmap(both)(x)\nreturn x.view(b)",
        "g = torch.func.grad(loss, has_aux=True)(x)\nreturn float(g)",
        "return float(torch.autograd.functional.jacobian(loss, (x, x)))",
        "g = torch.no_grad()(three)\nreturn float(g(x))",
        "g = suppress(ValueError)(f)\nreturn float(g)",
    ],
)
def test_what_else_they_give_is_not(body: str) -> None:
    assert "sync.number" not in seen(body)
    assert "shape.from-value" not in seen(body)
