"""Memory that libraries take while a graph is captured: a served call takes what was used of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from tests.gpu.support import DEVICE, check

MIB = 1 << 20


class Notes:
    """The allocator's notes, as a program has it take them."""

    def start(self) -> None:
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=100_000)

    def stop(self) -> None:
        torch.cuda.memory._record_memory_history(None)

    def blocks(self) -> int:
        """How many blocks it has noted."""
        events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        return sum(event["action"] == "alloc" for event in events)


@pytest.fixture
def notes() -> Iterator[Notes]:
    found = Notes()
    yield found
    found.stop()


def served_arena() -> int:
    """Bytes that each call of a small convolutional network takes for its graph."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 8, 3, stride=2), nn.Flatten(), nn.LazyLinear(10)),
    ).to(DEVICE)
    with torch.no_grad():
        model(torch.zeros((8, 3, 64, 64), device=DEVICE))
        function: Callable[..., torch.Tensor] = lambda x: model(x)  # noqa: E731
        region = check(function, lambda: [torch.randn((8, 3, 64, 64), device=DEVICE)])[-1]
    return int(region["arena_bytes"])


def test_as_much_of_a_segment_as_was_used(notes: Notes) -> None:
    torch._dynamo.reset()
    needed = served_arena()
    torch._dynamo.reset()
    notes.start()
    whole = served_arena()
    assert notes.blocks() > 0  # a program's own notes go on, and whole segments are taken
    assert needed < whole - 8 * MIB, (needed / MIB, whole / MIB)


def test_nothing_is_noted_afterwards(notes: Notes) -> None:
    torch._dynamo.reset()
    served_arena()
    assert not torch._C._cuda_isHistoryEnabled()
    notes.start()
    held = torch.empty(MIB, device=DEVICE)
    assert notes.blocks() == 1
    del held
