"""A copy that the same expression reads waits once, also where the copy is the tensor itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import pygraph_rt

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU's copies are told apart")


def _syncs(function: Callable[[torch.Tensor], object]) -> int:
    x = torch.tensor(2.0)
    with pygraph_rt.trace() as trace:
        for _ in range(3):
            function(x)
    return trace.counts()["sync"]


def _kept(x: torch.Tensor) -> Any:
    copy = x.cpu()
    return copy.item()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cpu().item(),
        lambda x: x.detach().cpu().tolist(),
        lambda x: x.to("cpu").item(),
        lambda x: float(x.cpu()),
        lambda x: 1 if x.cpu() else 0,
        lambda x: not x.cpu(),
        lambda x: x.detach().cpu().numpy(),
        lambda x: f"{x.cpu().item():.2f}",
    ],
)
def test_a_copy_and_its_reading_are_one_wait(function: Callable[[torch.Tensor], object]) -> None:
    assert _syncs(function) == 3


@pytest.mark.parametrize(
    ("function", "each"),
    [
        (lambda x: (x.cpu(), x.item()), 2),
        (lambda x: (x * 2).item(), 1),
        (lambda x: x.to(torch.float64).item(), 1),
        (lambda x: x.to(x.device).item(), 1),
        (lambda x: (x.cpu() if x is None else x).item(), 1),
        (lambda x: (x if x is not None else x.cpu()).item(), 1),
        (_kept, 2),  # which of the two is the copy is not known here
    ],
)
def test_other_reads_count(function: Callable[[torch.Tensor], object], each: int) -> None:
    assert _syncs(function) == 3 * each
