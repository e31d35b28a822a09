"""Programs with just enough memory for the ordinary path: results are its, and nothing fails."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pygraph_rt.verify import snapshot
from pygraph_rt.verify.snapshot import Kept
from tests.gpu.support import DEVICE, assert_same, graphed, leaves, ordinary_path, regions
from tests.gpu.test_training import compiled, repeatable  # noqa: F401
from tests.gpu.test_training_memory import wide

MIB = 1 << 20


def empty_cache() -> None:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


@contextmanager
def limited(nbytes: int) -> Iterator[None]:
    """torch may have no more memory than this."""
    empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(nbytes / whole)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def on_the_ordinary_path(call: Callable[[], Any]) -> tuple[list[torch.Tensor], int]:
    """The results of a call without graphs, on the CPU, and the most memory that it had."""
    with ordinary_path():
        call()
        empty_cache()
        torch.cuda.reset_peak_memory_stats()
        results = leaves(call())
        most = torch.cuda.max_memory_reserved()
    return [t.cpu() for t in results], most


class Undone:
    """Counts the calls that were undone."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        original = Kept.put_back

        def counted(kept: Kept, args: list[Any]) -> None:
            self.calls += 1
            original(kept, args)

        patch.setattr(Kept, "put_back", counted)


def advance(state: torch.Tensor, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Draws, writes 512 MiB, and needs 1 GiB for a moment."""
    state.add_(F.dropout(x, 0.5, True))
    return (state @ weights).sum(1)


@pytest.mark.parametrize("kept_on", ["cpu", "gpu"])
def test_a_call_that_has_no_room_beside_copies(
    kept_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the copies on the GPU the ordinary path fails and is run again alone; with them on the
    CPU the graph has no room for its own.
    """
    monkeypatch.setattr(snapshot, "_HOST_SHARE", 1 if kept_on == "cpu" else 1 << 60)
    undone = Undone(monkeypatch)
    state = torch.randn(16384, 8192, device=DEVICE)
    weights, x = torch.randn(8192, 16384, device=DEVICE), torch.randn(8192, device=DEVICE)
    first, fast = state.cpu(), graphed(advance)

    def call() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        state.copy_(first)
        torch.manual_seed(7)
        with torch.no_grad():
            result = fast(state, x, weights)
        return result, state, torch.tensor(torch.cuda.default_generators[0].get_offset())

    call()  # compiled and observed
    expected, most = on_the_ordinary_path(call)
    with limited(most + 256 * MIB):
        for _ in range(3):
            assert_same([t.cpu() for t in call()], expected)
    assert undone.calls == (kept_on == "gpu")
    (region,) = regions()
    assert "too little memory for the comparison of its first call" in region["reason"]


def training_step() -> Callable[[], list[torch.Tensor]]:
    """A step of a model that saves 384 MiB; it gives its loss and gradients.

    Nothing of it shares a block of memory with what earlier tests left.
    """
    empty_cache()
    module = wide()
    model = compiled(module, "always")
    batch = torch.randn(2048, 2048, device=DEVICE)

    def step() -> list[torch.Tensor]:
        module.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        return [loss.detach(), *(p.grad for p in module.parameters())]

    return step


class Full(Kept):
    """Copies that leave next to no memory to the call beside them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        empty_cache()
        whole = torch.cuda.get_device_properties(0).total_memory
        nbytes = torch.cuda.memory_reserved() + 8 * MIB
        torch.cuda.set_per_process_memory_fraction(nbytes / whole)

    def put_back(self, args: list[Any]) -> None:
        torch.cuda.set_per_process_memory_fraction(1.0)
        super().put_back(args)


@pytest.mark.parametrize("kept_on", ["cpu", "gpu"])
def test_a_backward_that_has_no_room_beside_copies(
    kept_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was saved, and lent to the backward, is gone by the time when it is run again."""
    monkeypatch.setattr(snapshot, "_HOST_SHARE", 1 if kept_on == "cpu" else 1 << 60)
    undone = Undone(monkeypatch)
    step = training_step()
    step()  # observed
    expected, _ = on_the_ordinary_path(step)
    monkeypatch.setattr("pygraph_rt.verify.compare.Kept", Full)
    try:
        for _ in range(3):
            assert_same([t.cpu() for t in step()], expected)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert undone.calls == 2, regions()  # the forward's, and the backward's
    assert {r["state"] for r in regions()} == {"refused"}


def test_training_with_memory_for_the_ordinary_path_alone() -> None:
    step = training_step()
    step()
    expected, most = on_the_ordinary_path(step)
    with limited(most + 64 * MIB):
        for _ in range(5):
            assert_same([t.cpu() for t in step()], expected)
