"""Results of convolutions and attentions that are saved for a backward: where they are, that they
are right there, and what memory that takes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from pygraph_rt.capture import capture
from pygraph_rt.capture.record import Recording
from pygraph_rt.memory import library_outputs
from tests.gpu.support import (
    DEVICE,
    assert_same,
    ordinary_path,
    peaks_of,
    poison_free_memory,
    regions,
)
from tests.gpu.test_training import compare, compiled, repeatable  # noqa: F401
from tests.gpu.training_models import Case, Transformer

MIB = 1 << 20
# Rows and edge of a batch of images: what a convolution returns has 512 KiB, 4 MiB or 16 MiB.
SIZES = {"small": (2, 32), "medium": (16, 32), "large": (16, 64)}


class Tower(nn.Module):
    """Convolutions with batch norms and connections around them."""

    def __init__(self, layers: int = 8, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
            )
            for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = x + layer(x)
        return x.mean((2, 3))


def images(size: str) -> tuple[torch.Tensor]:
    rows, edge = SIZES[size]
    return (torch.randn(rows, 3, edge, edge, device=DEVICE),)


class Seen:
    """What the captures of forwards had: results of libraries that a backward alone sees, how many
    of them stayed in their segments, and copy nodes.
    """

    def __init__(self) -> None:
        self.candidates = self.stayed = self.copies = 0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    found = Seen()
    plan_of: Callable[..., Any] = capture._plan

    def counted(job: Any, patches: Any, recording: Recording, only_stream: Any) -> Any:
        if job.signature.forward:
            plan = job.observed.plan
            found.candidates += len(library_outputs.candidates(plan, job.signature.saved))
            found.stayed += sum(len(kept.places) for kept in recording.retained)
            found.copies += sum(n.kind == "memory copy" for n in recording.capture.nodes)
        return plan_of(job, patches, recording, only_stream)

    monkeypatch.setattr(capture, "_plan", counted)
    return found


def test_what_a_convolution_returns_is_not_copied(seen: Seen) -> None:
    found = compare(Case(Tower, lambda: images("medium")), steps=20, poison=True)
    assert {r["name"].split()[2] for r in found} == {"forward", "backward"}
    assert seen.candidates == 9
    assert (seen.stayed, seen.copies) == (9, 0)


@pytest.mark.parametrize("size", ["small", "large"])
def test_results_are_right_wherever_they_are(size: str, seen: Seen) -> None:
    compare(Case(Tower, lambda: images(size)), steps=20, poison=True)
    assert seen.stayed
    assert seen.stayed + seen.copies == seen.candidates == 9


def test_what_an_attention_returns_is_not_copied(seen: Seen) -> None:
    def tokens() -> tuple[torch.Tensor]:
        return (torch.randint(0, 100, (32, 256), device=DEVICE),)

    compare(Case(lambda: Transformer(width=512), tokens, torch.bfloat16), steps=12, poison=True)
    assert seen.stayed


def test_several_forwards_before_their_backwards(seen: Seen) -> None:
    module = Tower().to(DEVICE)
    model = compiled(module, "always")
    batches = [images("medium") for _ in range(4)]

    def gradients() -> list[torch.Tensor]:
        losses = [model(*batch).square().mean() for batch in batches]
        poison_free_memory()
        found = []
        for loss in reversed(losses):
            found += torch.autograd.grad(loss, [*module.parameters()])
            poison_free_memory()
        return found

    for _ in range(3):
        gradients()
    assert seen.stayed == 9
    assert all(r["state"] == "serving" for r in regions())
    buffers = [b.clone() for b in module.buffers()]
    actual = gradients()
    for buffer, before in zip(module.buffers(), buffers, strict=True):
        buffer.copy_(before)
    with ordinary_path():
        expected = gradients()
    assert_same(actual, expected)


def peak(graphs: str) -> tuple[int, int]:
    """The most memory that a training step has, and reserves, in bytes."""
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    module = Tower(24).to(DEVICE)
    model = compiled(module, graphs)
    (batch,) = images("large")

    def step() -> None:
        model(batch).square().mean().backward()
        for parameter in module.parameters():
            parameter.grad = None

    allocated, reserved = peaks_of(step)
    return allocated - before[0], reserved - before[1]


def test_a_step_needs_about_what_it_does_without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, staying = peak("never"), peak("always")
    monkeypatch.setattr(library_outputs, "candidates", lambda plan, saved: frozenset())
    copied = peak("always")
    found = [tuple(n // MIB for n in pair) for pair in (plain, staying, copied)]
    assert staying[0] <= 1.1 * plain[0], found
    assert staying[1] <= copied[1], found
