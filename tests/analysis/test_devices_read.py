"""Tensors made on the host that only the host reads."""

from __future__ import annotations

import pytest

from tests.analysis.programs import confirmed, project

HEAD = """
import torch
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor, p: float, others):
"""


def waits(body: str) -> dict[str, bool]:
    """Whether the host may wait, by kind of event."""
    source = HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    linked, facts = project(m=source)
    return {event.kind: event.waits for event in confirmed(linked, facts["m"])}


@pytest.mark.parametrize(
    "body",
    [
        "order = torch.randperm(4)\nreturn [others[i] for i in order.tolist()]",
        "return x.sum(torch.arange(2, x.ndim).tolist())",
        "return x if torch.rand(1) < p else x + 1",
    ],
)
def test_what_only_the_host_reads_never_waits(body: str) -> None:
    seen = waits(body)
    assert seen["host.factory"] is False


def test_what_meets_the_device_too_waits() -> None:
    seen = waits("steps = torch.arange(4)\nnames = steps.tolist()\nreturn x + steps")
    assert seen["host.factory"] is True


@pytest.mark.parametrize("value", ["p", "2.5", "x.shape[0]", "p / x.shape[-1]"])
def test_a_number_that_is_filled_on_the_device_is_no_copy(value: str) -> None:
    assert waits(f"return x * torch.scalar_tensor({value}, device=x.device)") == {}
    assert waits(f"return x * torch.scalar_tensor({value})") == {"host.scalar-tensor": True}


def test_a_host_tensor_meets_what_may_be_a_number() -> None:
    branch = "if torch.zeros({}) > others: x = x + 1\nreturn x"
    assert waits(branch.format("1"))["branch.if"] is False
    assert waits(branch.format("()"))["branch.if"] is True  # a number meets any device
    assert waits("if torch.zeros(1) + x > others: x = x + 1\nreturn x")["branch.if"] is True
