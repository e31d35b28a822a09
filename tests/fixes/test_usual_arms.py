"""Which arm of a branch most calls take, and how much work a call does at most."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pygraph_lint.fixes.shared.breaking_places import usual
from tests.fixes.support import offer

HEAD = "def f(x, size=None, flat=False, whole=True, *, most=None, count=3):\n    return "
USUAL = {
    # torch_geometric, transformers, diffusers: worked out unless it is given.
    "size is None": True,
    "size is not None": False,
    "size is None and most is None": True,
    "size is None or x is None": True,
    "not size": True,
    "count is None": False,
    # transformers: worked out unless a dictionary hands it in.
    "(mask := x.pop('mask', None)) is not None": False,
    "size is not None or x.pop('mask', None) is not None": False,
    # pytorch_metric_learning, torch_geometric, torchvision: unless there is nothing.
    "x.numel() > 0": True,
    "x.numel() == 0": False,
    "len(x) != 0": True,
    "len(x)": True,
    "not len(x)": False,
    # geomloss, kornia, torchmetrics: flags.
    "flat": False,
    "not whole": False,
    "whole and not flat": True,
    "whole or x.on": True,
    # What a region gets.
    "isinstance(x, torch.Tensor)": True,
    "isinstance(x, Tensor) and x.numel()": True,
    "torch.is_tensor(x)": True,
    "torch.jit.is_scripting()": False,
    "not torch.jit.is_tracing() and whole": True,
}


def answer(test: str) -> bool | None:
    """What `usual` says of a condition."""
    (function,) = ast.parse(HEAD + test).body
    assert isinstance(function, ast.FunctionDef)
    (result,) = function.body
    assert isinstance(result, ast.Return) and result.value is not None
    return usual(function, result.value)


@pytest.mark.parametrize("test", USUAL)
def test_defaults_and_sizes_say_which_way_a_branch_goes(test: str) -> None:
    assert answer(test) is USUAL[test]


NOTHING = (
    *("x", "x is None", "len(x) > 1", "x > 0", "size == 0", "isinstance(x, list)", "x.is_sparse"),
    *("x.pop('mask') is None", "x.pop(size, None) is None", "x.get('mask', None) is None"),
    *("flat or y.on", "y.on and whole", "0 < len(x) < 3", "count", "size.on is None"),
)


@pytest.mark.parametrize("test", NOTHING)
def test_what_says_nothing(test: str) -> None:
    assert answer(test) is None


BODY = """
import torch


def counted(x: torch.Tensor, index: torch.Tensor, size=None, how="sum"):
{}


def forward(x: torch.Tensor, index: torch.Tensor):
    return counted(x.sin(), index).cos()
"""
MANY = "x = x.sin() * 2 + x.cos() * 3 + x.exp() * 4 + x.tan()"
BODIES = {
    "unless given": ("if size is None:\n    size = «int(index.max())» + 1\nreturn x[:size]", True),
    "unless empty": (
        "size = «int(index.max())» + 1 if index.numel() > 0 else 0\nreturn x[:size]",
        True,
    ),
    "where it is given": ("if size is not None:\n    size = «int(index.max())»\nreturn x", False),
    "behind a return for what is given": (
        "if size is not None:\n    return size\nreturn «int(index.max())» + 1 + x",
        True,
    ),
    "behind a return for what a dictionary hands in": (
        "if x.is_sparse:\n    found = how.pop('found', None)\n    rest = how.pop('rest', None)\n"
        "    if found is not None and rest is not None:\n        return found\n"
        "return «int(index.max())» + 1 + x",
        True,
    ),
    "behind a return for what it has": (
        "if x.is_sparse:\n    found = how.pop('found', None)\n    found = how.get('found')\n"
        "    if found is not None:\n        return found\nreturn «int(index.max())» + 1 + x",
        False,
    ),
    "behind a return": ("if len(x) > 9:\n    return x\nreturn «int(index.max())» + x", False),
    "one of several ways": (
        "size = «int(index.max())»\nif how == 'sum':\n    return x.sum(0) * 2 + size * 3\n"
        "elif how == 'mean':\n    x = x.mean(0) * 3 + size * 4\n    return x * 2\n"
        "if how == 'max':\n    return x.amax(0) * 4 + size * 5\nreturn x.amin(0) * 5",
        True,
    ),
    "much on one way": (
        f"size = «int(index.max())»\nif how == 'sum':\n    {MANY}\nelse:\n    x = x * 2\nreturn x",
        False,
    ),
    "views": (
        "size = «int(index.max())»\ny = x.reshape(-1).unsqueeze(0).expand(2, -1).transpose(0, 1)\n"
        "z = y.flatten()[:size].view(1, -1).permute(1, 0).squeeze(1).unflatten(0, (1, -1))\n"
        "return z[0], z[:, 1:], z[None], z[..., :2], x[0].detach()",
        True,
    ),
    "rows": (
        "size = «int(index.max())»\n" + "x = x[index]\n" * 9 + "return x + size",
        False,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_helper_is_left_out_by_what_most_calls_do(name: str) -> None:
    body, left_out = BODIES[name]
    _, after = offer(BODY.format(textwrap.indent(body, "    ")), "PG202")
    assert ("@torch.compiler.disable(recursive=False)\ndef counted" in after) is left_out
