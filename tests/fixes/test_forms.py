"""Checks, masks and experts in the spellings that other people's code uses."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, breaks, module_of, run
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
