"""Checks, masks and experts in the spellings that other people's code uses."""

from __future__ import annotations

import textwrap

import pytest
import torch

from tests.fixes.equivalence import Seen, assert_same, breaks, module_of, run
from tests.fixes.support import marked, offer

CHECKS = {
    "torchdiffeq": ("PG301", "assert «(x[1:] > x[:-1]).all()», '{} must grow'.format(k)"),
    "e3nn": ("PG207", "assert «torch.allclose(x, x)»"),
    "torchcde": ("PG307", "assert not «torch.isnan(x).any()», f'nan in {k}'"),
    "chained": ("PG301", "assert «x[0] <= x[1] <= x[2]», f'{x}'"),
    "raise": ("PG207", "if not «torch.allclose(x, x)»:\n        raise ValueError('no')"),
    "says, raises": (
        "PG307",
        "if «torch.isnan(x).any()»:\n        print('nan')\n        raise ValueError(f'{x}')",
    ),
    "text, raises": (
        "PG201",
        "if «x.min().item()» < -1:\n        text = f'{x}'\n        raise ValueError(text)",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_checks_are_left_to_eager_code(name: str) -> None:
    code, body = CHECKS[name]
    before = f"import torch\n\ndef forward(x: torch.Tensor, k):\n    {body}\n    return x * 2\n"
    fix, after = offer(before, code)
    assert fix is not None and fix.applicability == "unsafe", fix
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    for values in ([0.0, 1.0, 2.0], [float("nan"), 0.0, -3.0]):
        arguments = (torch.tensor(values), "k")
        assert_same(run(old, arguments), run(new, arguments))
    arguments = (torch.tensor([0.0, 1.0, 2.0]), "k")
    assert breaks(old, arguments) > breaks(new, arguments) == 0


def _same_and_whole(before: str, code: str, arguments: tuple[object, ...], rounds: int = 1) -> str:
    """The fixed source of a ``forward``: it computes the same, and is one graph."""
    plain, after = marked(before)[0], ""
    fix, after = offer(before, code)
    assert fix is not None and fix.applicability == "unsafe", fix
    old, new = (module_of(text).forward for text in (plain, after))
    assert_near(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) > breaks(new, arguments) == 0
    return after


def assert_near(old: Seen, new: Seen) -> None:
    """The same up to rounding, gradients included."""
    assert (old.error, new.error) == (None, None)
    for name in ("outputs", "inputs", "gradients"):
        pairs = zip(getattr(old, name), getattr(new, name), strict=True)
        for one, two in pairs:
            torch.testing.assert_close(one, two, equal_nan=True)


WRITES = {
    "pypose": """
        real = torch.zeros_like(x)
        idx = x > 0.1
        «real[idx] = torch.sin(x[idx]) / x[idx]»
        return real
    """,
    "other half": """
        real = torch.zeros_like(x)
        idx = x > 0.1
        «real[~idx] = 1.0 - (1.0 / 8.0) * x[~idx] ** 2»
        return real
    """,
    "torchmin": """
        new = x.clone()
        lower = x < 0
        «new[lower] = y[lower].add(x[lower].abs().clamp(1, None), alpha=2.0)»
        return new
    """,
    "roma": """
        low = x * 1
        «low[low < -0.5] += 2 * math.pi»
        return low
    """,
    "rows": """
        low = x * 1
        «low[x[:, 0] < 0, :] *= -1»
        return low
    """,
    "kornia": """
        chosen = x.mean(1) > 0
        out = x.clone()
        «out[chosen] = y[chosen]»
        return out
    """,
    "log": """
        out = torch.zeros_like(x)
        kept = x > 0
        «out[kept] = x[kept].log()»
        return out
    """,
}


def _module(body: str) -> str:
    lines = textwrap.dedent(body).strip("\n").splitlines()
    head = "import math\nimport torch\n\ndef forward(x: torch.Tensor, y: torch.Tensor):\n"
    return head + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize("name", WRITES)
def test_writes_through_a_mask_become_a_selection(name: str) -> None:
    x = torch.tensor([[-1.0, 0.0], [0.5, -0.25], [2.0, 0.01]], requires_grad=True)
    y = torch.arange(6.0).reshape(3, 2).requires_grad_()
    code = "PG402" if name in ("roma", "rows") else "PG406"
    _same_and_whole(_module(WRITES[name]), code, (x, y))
