"""Unsafe rewrites of branches, checks and draws: the break goes, ordinary inputs give the same."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.strategies import FEW, tensors
from tests.fixes.support import decline, expect, marked, offer

Forward = Callable[..., object]


class Rewritten(NamedTuple):
    """Source before and after. Each ``forward`` takes a float tensor ``x`` and a number ``n``."""

    code: str
    before: str
    after: str
    notes: dict[str, str] = {}


HEAD = "import torch\n\n\ndef forward(x: torch.Tensor, n=1):\n"


def _case(code: str, before: str, after: str, head: str = HEAD, **notes: str) -> Rewritten:
    old, new = (textwrap.indent(textwrap.dedent(text).strip(), "    ") for text in (before, after))
    return Rewritten(code, f"{head}{old}\n", f"{head}{new}\n", notes)


CASES = {
    "else-less": _case(
        "PG301",
        """
        if n is not None and «x.sum() > 0»:
            x = x * 2
        return x
        """,
        """
        if n is not None:
            x = torch.where(x.sum() > 0, x * 2, x)
        return x
        """,
        tensors="x",
    ),
    "a-name": _case(
        "PG301",
        """
        total = x.sum()
        if «total > 0»:
            total = total * 2
        return total
        """,
        """
        total = x.sum()
        total = torch.where(total > 0, total * 2, total)
        return total
        """,
        tensors="total",
    ),
    "both-arms": _case(
        "PG301",
        """
        if «not (x.sum() > 0 and x.mean() < 9)»:
            y = x + 1
            z = x - 1
        else:
            y = x * 3
            z = -x
        return y, z
        """,
        """
        chosen = torch.logical_not(torch.logical_and(x.sum() > 0, x.mean() < 9))
        y = torch.where(chosen, x + 1, x * 3)
        z = torch.where(chosen, x - 1, -x)
        return y, z
        """,
    ),
    "returns": _case(
        "PG301",
        """
        if «x.sum()»:
            return x * 2
        return torch.abs(x)
        """,
        """
        return torch.where(x.sum() != 0, x * 2, torch.abs(x))
        """,
    ),
    "a-name-twice": _case(
        "PG301",
        """
        if «not (x > n).any()»:  # all small
            x = x - x.mean()
            # twice
            x = x * 2  # as large
        return x
        """,
        """
        # all small
        chosen = torch.logical_not((x > n).any())
        x = torch.where(chosen, x - x.mean(), x)
        # twice
        x = torch.where(chosen, x * 2, x)  # as large
        return x
        """,
    ),
    "other-names": _case(
        "PG301",
        """
        y = x + 1
        x = x * 1
        if «x.sum() > 0»:
            part = x.exp()
            y = y * part
            x += y
        else:
            x = x / 2
        return x, y
        """,
        """
        y = x + 1
        x = x * 1
        chosen = x.sum() > 0
        part = x.exp()
        y = torch.where(chosen, y * part, y)
        x += torch.where(chosen, y, 0)
        x = torch.where(chosen, x, x / 2)
        return x, y
        """,
    ),
    "elif": _case(
        "PG301",
        """
        if n > 1:
            x = x + 1
        # or
        elif «x.sum() > 0»:
            x = x * 2
        return x
        """,
        """
        if n > 1:
            x = x + 1
        # or
        else:
            x = torch.where(x.sum() > 0, x * 2, x)
        return x
        """,
    ),
    "nested": _case(
        "PG301",
        """
        if «(x > 1).any()»:
            x = torch.abs(x)
        else:
            x = torch.where((x.mean() > n).reshape(()), x * 2, x)
        return x
        """,
        """
        x = torch.where(
            (x > 1).any(), torch.abs(x), torch.where((x.mean() > n).reshape(()), x * 2, x)
        )
        return x
        """,
    ),
    "read": _case(
        "PG201",
        """
        if n and («x.max().item()» > 2.0 or bool((x < 0).all())):
            x = x * 2
        else:
            x = x + 1
        return x
        """,
        """
        if n:
            x = torch.where(
                torch.logical_or((x.max() > 2.0).reshape(()), (x < 0).all()), x * 2, x + 1
            )
        else:
            x = x + 1
        return x
        """,
    ),
    "said": _case(
        "PG307",
        """
        if «torch.isnan(x).any()»:
            found = torch.isnan(x).sum().item()
            print(found)
            x = torch.nan_to_num(x, nan=0.0)
        return x
        """,
        """
        chosen = torch.isnan(x).any()
        if not torch.compiler.is_compiling() and chosen:
            found = torch.isnan(x).sum().item()
            print(found)
        x = torch.where(chosen, torch.nan_to_num(x, nan=0.0), x)
        return x
        """,
    ),
    "in-place": _case(
        "PG301",
        """
        x = x * 1
        if «(x > 1).any()»:
            x.zero_()
            x[..., 1] = 5.0
        return x
        """,
        """
        x = x * 1
        chosen = (x > 1).any()
        x.masked_fill_(chosen, 0)
        x[..., 1] = torch.where(chosen, 5.0, x[..., 1])
        return x
        """,
    ),
    "given": _case(
        "PG301",
        "return x * 2 if n is not None and «x.sum() > 0» else x",
        "return (torch.where(x.sum() > 0, x * 2, x) if n is not None else x)",
    ),
    "full-mask": _case(
        "PG301",
        """
        mask = x != 77
        if (n is None) or (
            mask is not None and «torch.all(mask == 1)»
        ):
            mask = None
        return x if mask is None else x * mask
        """,
        """
        mask = x != 77
        if n is None:
            mask = None
        return x if mask is None else x * mask
        """,
    ),
    "only-a-full-mask": _case(
        "PG301",
        """
        mask = x == 77
        if «not mask.any()»:
            mask = None
        return x if mask is None else x.masked_fill(mask, 0)
        """,
        """
        mask = x == 77
        return x if mask is None else x.masked_fill(mask, 0)
        """,
    ),
    "raise": _case(
        "PG303",
        """
        if n is not None and «x.amax() >= 99»:
            raise ValueError("too large")
        return x + 1
        """,
        """
        if n is not None:
            torch._assert_async(~(x.amax() >= 99), "too large")
        return x + 1
        """,
    ),
    "raise-unless": _case(
        "PG303",
        """
        if «not (x < 99).all()»:
            raise ValueError("large")
        return x + 1
        """,
        """
        torch._assert_async((x < 99).all(), "large")
        return x + 1
        """,
    ),
    "raise-with-a-computed-message": _case(
        "PG303",
        """
        if n is None or «x.amax() >= 99»:
            raise ValueError(f"not {n}")
        return x + 1
        """,
        """
        if not torch.compiler.is_compiling() and (n is None or x.amax() >= 99):
            raise ValueError(f"not {n}")
        return x + 1
        """,
    ),
    "assert": _case(
        "PG201",
        """
        assert «x.amax().item()» <= 99 and x.amin().item() < x.amax().item() + 1, "out of range"
        return x + 1
        """,
        """
        assert (x.amax() <= 99) & (x.amin() < x.amax() + 1), "out of range"
        return x + 1
        """,
    ),
    "check": _case(
        "PG402",
        """
        check(
            «x[x > 99]».numel() == 0,
            f"{n}",
        )
        return x + 1
        """,
        """
        if not torch.compiler.is_compiling():
            check(
                x[x > 99].numel() == 0,
                f"{n}",
            )
        return x + 1
        """,
        head="import torch\n\n\ndef check(right, text):\n    assert right, text\n\n\n"
        "def forward(x, n=1):\n",
    ),
    "assert on all": _case(
        "PG304",
        """
        assert «torch.all(x > -99)» and (x < 99).all().item() and x.amin() != 4, "range"
        return x + 1
        """,
        """
        assert torch.all(x > -99) & (x < 99).all() & (x.amin() != 4), "range"
        return x + 1
        """,
    ),
    "assert on all, of which the first decides": _case(
        "PG301",
        """
        assert «(x > -99).all()» and (x < 99).all(), "range"
        return x + 1
        """,
        """
        assert (x > -99).all() & (x < 99).all(), "range"
        return x + 1
        """,
    ),
    "check in capitals": _case(
        "PG402",
        """
        SIZES_CHECK(
            «x[x > 99]».numel() == 0
        )
        return x + 1
        """,
        """
        if not torch.compiler.is_compiling():
            SIZES_CHECK(
                x[x > 99].numel() == 0
            )
        return x + 1
        """,
        head="import torch\n\n\ndef SIZES_CHECK(right):\n    assert right\n\n\n"
        "def forward(x, n=1):\n",
    ),
    "requires-grad": _case(
        "PG508",
        """
        y = x.detach()
        if n:
            «y.requires_grad = True»
        return x + y.detach()
        """,
        """
        y = x.detach()
        if not torch.compiler.is_compiling() and n:
            y.requires_grad = True
        return x + y.detach()
        """,
    ),
    "requires-grad-by-a-switch": _case(
        "PG508",
        """
        y = x.detach()
        if n and _requires_grad:
            «y.requires_grad = True»
        return x + y.detach()
        """,
        """
        y = x.detach()
        if not torch.compiler.is_compiling() and n and _requires_grad:
            y.requires_grad = True
        return x + y.detach()
        """,
        head="import torch\n\n_requires_grad = True\n\n\ndef forward(x: torch.Tensor, n=1):\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_code_becomes(name: str) -> None:
    case = CASES[name]
    expect(case.before, case.after, case.code, "unsafe", **case.notes)


@pytest.mark.parametrize("name", CASES)
def test_ordinary_inputs_give_the_same_without_a_break(name: str) -> None:
    case = CASES[name]
    old, new = module_of(marked(case.before)[0]).forward, module_of(case.after).forward
    for x in (torch.tensor([[1.0, -2.0], [3.0, 0.5]]), torch.full((2, 2), -1.0)):
        _assert_same_but_for_aliases(old, new, x)
        _assert_same_but_for_aliases(old, new, x.clone().requires_grad_())
    assert breaks(old, (x, 1)) > 0
    assert breaks(new, (x, 1)) == 0


def _assert_same_but_for_aliases(old: Forward, new: Forward, x: torch.Tensor) -> None:
    before, after = run(old, (x, 1)), run(new, (x, 1))
    before.aliases = after.aliases = []
    assert_same(before, after, strides=False)


WHERE = ("else-less", "both-arms")


@pytest.mark.parametrize("name", WHERE)
@FEW
@given(data=st.data())
def test_selections_give_the_same_values_and_gradients(name: str, data: st.DataObject) -> None:
    """Where the arms have the same dtype and shape, only aliases may differ."""
    case = CASES[name]
    old, new = module_of(marked(case.before)[0]).forward, module_of(case.after).forward
    floating = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    x = data.draw(tensors(floating))
    _assert_same_but_for_aliases(old, new, x)


@pytest.mark.parametrize(
    "body",
    [
        "x = x + n",  # None is what it defaults to
        "x = x / (1 / len(x))",
        "x = x[0]",
        "x = x * later",
        "x, n = x * 2, x",
        "x[x > 0] = 1",
        "n |= x > 0",
    ],
)
def test_arms_that_may_raise_or_do_more_stay(body: str) -> None:
    text = f"import torch\n\ndef f(x: torch.Tensor, n=None):\n    if «x.sum()»:\n        {body}\n"
    fix, _ = offer(f"{text}    later = 2\n    return x, n, later\n", "PG301")
    assert fix is None or fix.applicability == "declined"


@pytest.mark.parametrize(
    "body",
    [
        "return «random.random()» < p",
        "if p > 0. and «random.random()» < p:\n        return x\n    return x + 1",
        "return keep(«random.random()» < p)",
        "if x.ndim and «random.random()» < 0.5:\n        return x\n    return x + 1",
    ],
)
def test_a_draw_stays_where_the_branch_would_wait_for_a_tensor_instead(body: str) -> None:
    text = f"import random\nimport torch\n\ndef forward(self, x: torch.Tensor, p):\n    {body}\n"
    decline(text, "PG504", "the graph would break there as well")


def test_draws_come_from_torch() -> None:
    before = """
        import random

        import numpy as np
        import torch


        def forward(x, p):
            draw = «np.random.uniform(0, 1)»
            if draw < p:
                return x
            return x + 1 if «random.random()» < p else x + 2
        """
    after = """
        import random

        import numpy as np
        import torch


        def forward(x, p):
            draw = torch.rand([])
            if draw < p:
                return x
            return x + 1 if torch.rand([]) < p else x + 2
        """
    expect(before, after, "PG504", "unsafe")
    old, new = (
        module_of(marked(before)[0]).forward,
        module_of(textwrap.dedent(after).lstrip("\n")).forward,
    )
    for p in (0.0, 1.0):
        assert torch.equal(old(torch.ones(2), p), new(torch.ones(2), p))


def test_what_another_file_raises_is_not_this_error() -> None:
    text = (
        "import torch\n\n\ndef read(path):\n    try:\n        return torch.load(path)\n"
        "    except ValueError:\n        return None\n\n\n"
        "def forward(x: torch.Tensor, n=1):\n    if «x.max()» > 9:\n"
        "        raise ValueError(f'not {n}')\n    return x * 2\n"
    )
    fix, after = offer(text, "PG303")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("tensor_raise", "unsafe")
    assert breaks(module_of(after).forward, (torch.ones(2),)) == 0
    for own in ("forward(path)", "path.read()"):
        fix, _ = offer(text.replace("torch.load(path)", own), "PG303")
        assert fix is not None and fix.applicability == "declined"


@pytest.mark.parametrize(
    ("limit", "is_tensor"), [("shape[-1]", False), ("shape.max()", True), ("shape[0] + 1", False)]
)
def test_a_size_that_is_compared_with_an_element_may_be_compared_with_a_size(
    limit: str, is_tensor: bool
) -> None:
    text = (
        "import torch\n\n\ndef forward(x: torch.Tensor, shape: torch.Tensor):\n"
        f"    most = {limit}\n    if «x.shape[0] > most»:\n"
        "        raise ValueError('too many')\n    return x * 2\n"
    )
    fix, after = offer(text, "PG303")
    assert fix is not None and ("_assert_async" in after) is is_tensor
    if not is_tensor:  # the annotation says something else
        assert torch.equal(module_of(after).forward(torch.ones(2), (2, 2)), torch.full((2,), 2.0))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 and later have except*")
def test_a_group_that_the_file_catches_may_hold_this_error() -> None:
    text = (
        "import torch\n\n\ndef read(path):\n    try:\n        forward(path)\n"
        "    except* ValueError:\n        print(path)\n\n\n"
        "def forward(x: torch.Tensor, n=1):\n    if «x.max()» > 9:\n"
        "        raise ValueError(f'not {n}')\n    return x * 2\n"
    )
    fix, _ = offer(text, "PG303")
    assert fix is not None and fix.applicability == "declined"
