"""Numbers that are filled on the device they are asked for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, compiled, module_of, run
from tests.fixes.strategies import FEW, tensors
from tests.fixes.support import decline, expect, marked, offer

FILLS = [
    ("0.0, device=x.device", "zeros((), device=x.device)"),
    ("-0.0, device=x.device", "full((), -0.0, device=x.device)"),
    ("0, device=x.device", "full((), 0, device=x.device)"),
    ("1, device=x.device, dtype=torch.long", "ones((), device=x.device, dtype=torch.long)"),
    ("-1, device=x.device", "full((), -1, device=x.device)"),
    ("(5), dtype=x.dtype, device=x.device", "full((), (5), dtype=x.dtype, device=x.device)"),
    (
        "0.25, device=x.device, dtype=torch.float16",
        "full((), 0.25, device=x.device, dtype=torch.float16)",
    ),
    (
        "-float('inf'), dtype=torch.float64, device=x.device",
        "full((), -float('inf'), dtype=torch.float64, device=x.device)",
    ),
]


@pytest.mark.parametrize(("before", "after"), FILLS)
@FEW
@given(data=st.data())
def test_numbers_are_filled_where_they_are_wanted(
    before: str, after: str, data: st.DataObject
) -> None:
    head = "import torch\n\n\ndef forward(x: torch.Tensor):\n    t = "
    text = f"{head}«torch.tensor({before})»\n    return x * t, torch.where(x > 0, t, x)\n"
    fixed = f"{head}torch.{after}\n    return x * t, torch.where(x > 0, t, x)\n"
    expect(text, fixed, "PG104", "safe")
    x = data.draw(tensors([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
    old, new = module_of(marked(text)[0]).forward, module_of(fixed).forward
    assert_same(run(old, (x,)), run(new, (x,)))


def test_filled_numbers_are_the_same_when_compiled() -> None:
    """All of them in one program."""
    head = "import torch\n\n\ndef forward(x):\n    return ["
    rows = [(f"torch.tensor({before})", f"torch.{after}") for before, after in FILLS]
    old, new = (
        module_of(head + "".join(f"x * {t}, torch.where(x > 0, {t}, x), " for t in column) + "]\n")
        for column in zip(*rows, strict=True)
    )
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.tensor([[1.5, -0.0, -2.0], [float("inf"), float("nan"), 0.0]]).to(dtype)
        assert_same(run(old.forward, (x,)), run(compiled(new.forward), (x,)))


READ = [
    "return {t}",
    "return x[: int({t})]",
    "t = {t}\n    return x * t, t",
    "t = {t}\n    return range(int(t)), x * t",
    "t = {t} * 2\n    return x * t",
    "return {t} * torch.ones(())",
    "return k * {t}",
    "self.t = {t}",
    "t = {t}\n    for y in k:\n        t = t + x\n    return t",
]


@pytest.mark.parametrize("body", READ)
def test_a_number_that_may_be_read_is_unsafe(body: str) -> None:
    """An export knows the number of ``torch.tensor``, not that of ``torch.full``."""
    call = "«torch.tensor(4, device=x.device)»"
    text = f"import torch\n\ndef forward(x: torch.Tensor, k, self):\n    {body.format(t=call)}\n"
    fix, _ = offer(text, "PG104")
    assert fix is not None and fix.applicability != "safe"


OTHER_NUMBERS = [
    "torch.tensor([0.0], device=x.device)",
    "torch.tensor(1e39, device=x.device)",
    "torch.tensor(9223372036854775808, device=x.device)",  # `full` raises
    "torch.tensor(n, device=x.device)",
    "torch.tensor(n, dtype=x.dtype, device=x.device)",
    "torch.tensor(torch.finfo(x.dtype).max, device=x.device)",
    "torch.tensor(torch.finfo(n).max, dtype=x.dtype, device=x.device)",
    "torch.tensor(float(n), dtype=x.dtype, device=x.device)",
    "torch.tensor(0.0)",
    "torch.tensor(data=0.0, device=x.device)",
    "torch.as_tensor(0.0, device=x.device)",
    "x.new_tensor(0.0)",
]


@pytest.mark.parametrize("call", OTHER_NUMBERS)
def test_other_data_stay(call: str) -> None:
    decline(f"import torch\n\ndef forward(x, n):\n    return x * «{call}»\n", "PG104", "")


def test_a_number_is_filled_in_the_layout_of_the_call() -> None:
    before = """
        import torch


        def forward(x: torch.Tensor):
            return x * «torch.tensor(
                0.5,  # half
                device=x.device,
            )»
        """
    after = """
        import torch


        def forward(x: torch.Tensor):
            return x * torch.full(
                (), 0.5,  # half
                device=x.device,
            )
        """
    expect(before, after, "PG104", "safe")
