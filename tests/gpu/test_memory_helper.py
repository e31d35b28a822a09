"""Memory taken by the compiled helper: the same results, the same allocator, the same errors."""

from __future__ import annotations

import gc
from array import array
from typing import Any

import pytest
import torch

from pygraph_rt.backend import _graph_maker
from pygraph_rt.memory.allocate import NativeAllocator
from pygraph_rt.replay import launcher, replay
from pygraph_rt.replay.platform import Native
from tests.gpu.support import (
    DEVICE,
    ReadyHelper,
    assert_same,
    check,
    graphed,
    ordinary_path,
    poison_free_memory,
    regions,
)
from tests.gpu.test_little_memory import MIB, empty_cache, limited
from tests.gpu.test_training import compare, repeatable  # noqa: F401
from tests.gpu.training_models import CASES


def in_compiled_code() -> int:
    """Parts of graphs whose memory the helper takes, without those of earlier tests."""
    gc.collect()
    return sum(type(found) is NativeAllocator for found in gc.get_objects())


@pytest.mark.parametrize("way", ["Python", "compiled code"])
@pytest.mark.parametrize("name", CASES)
def test_training(name: str, way: str, memory_module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part of a graph takes its memory in one way, whatever it gains."""
    if way == "Python":
        monkeypatch.setattr(launcher, "compiled", lambda allocator, native, empty: allocator)
    before = in_compiled_code()
    compare(CASES[name], steps=12, poison=True)
    assert (in_compiled_code() > before) == (way == "compiled code")


class LateHelper(ReadyHelper):
    """One that is there when it was asked for eight times."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.open, self.asked = True, 0

    def ask(self, work: int = 0) -> Any:
        self.asked += 1
        return self._module if self.asked > 8 else None


def test_a_helper_that_comes_later(memory_module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    coming = LateHelper(memory_module)
    platform = _graph_maker().platform
    monkeypatch.setitem(vars(platform), "native", Native(platform.native.launch, coming))
    monkeypatch.setattr(replay, "_LOOK_EVERY", 3)
    before = in_compiled_code()
    compare(CASES["transformer"], steps=30, poison=True)
    assert coming.asked > 8
    assert in_compiled_code() > before


def many(x: torch.Tensor, count: int = 40) -> list[torch.Tensor]:
    return [(x + n).sin() for n in range(count)]


def test_many_outputs() -> None:
    before = in_compiled_code()
    found = check(many, lambda: [torch.randn(1 << 15, device=DEVICE)])
    assert found
    assert in_compiled_code() == before + 1


def test_on_two_streams_without_waiting() -> None:
    """Memory belongs to the stream on which it was taken."""
    fast = graphed(many)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    values = [torch.randn(1 << 18, device=DEVICE) for _ in streams]
    with torch.no_grad():
        for _ in range(4):
            fast(values[0])
        with ordinary_path():
            expected = [fast(value) for value in values]
        torch.cuda.synchronize()
        for _ in range(10):
            actual = []
            for value, stream in zip(values, streams, strict=True):
                with torch.cuda.stream(stream):
                    fast(value)
                    actual.append(fast(value))
            torch.cuda.synchronize()
            assert_same(actual, expected)
            del actual
            poison_free_memory()
    (region,) = regions()
    assert region["served"] >= 20


def test_too_little_memory() -> None:
    """The error is torch's, its memory is given back, and the graph serves again."""
    fast, value = graphed(many), torch.randn(1 << 22, device=DEVICE)
    with torch.no_grad():
        for _ in range(4):
            fast(value)
        with ordinary_path():
            expected = fast(value)
        empty_cache()
        before = torch.cuda.memory_allocated()
        with limited(torch.cuda.memory_reserved() + 64 * MIB):
            for _ in range(2):
                with pytest.raises(torch.OutOfMemoryError):
                    fast(value)
                gc.collect()
                assert torch.cuda.memory_allocated() == before
        served = regions()[0]["served"]
        for _ in range(3):
            assert_same(fast(value), expected)
    (region,) = regions()
    assert region["state"] == "serving", region["reason"]
    assert region["served"] == served + 3


def test_what_the_helper_takes_is_torchs(memory_module: Any) -> None:
    """Memory of torch's allocator for GPUs, counted there, and its error where there is none."""
    torch.cuda.init()  # else torch's Python says that nothing is allocated
    empty = torch._C._dynamo.guards._empty_strided_cuda
    specimen = empty((0,), (1,), torch.uint8)
    pieces = (((3 * MIB,), (1,), torch.uint8), ((64, 8), (8, 1), torch.float32))
    slabs = ((((4096,), (1,), torch.float32), (0, 512), (((100,), (1,), 128),), False),)
    plan = memory_module.Plan(specimen, pieces, 0, slabs, (0, 2, 1))
    before, addresses = torch.cuda.memory_allocated(), array("Q", [0] * 4)
    made = plan.take(addresses, None, 0)
    (view,) = plan.outputs()
    assert [t.shape for t in made] == [(3 * MIB,), (64, 8)]
    assert all(t.device == torch.device(DEVICE, 0) for t in (*made, view))
    assert [*addresses[:2]] == [t.data_ptr() for t in made]
    assert [addresses[2], addresses[3]] == [view.data_ptr() - 512, view.data_ptr()]
    assert torch.cuda.memory_allocated() - before >= 3 * MIB + 2048 + 16384
    made[1].fill_(2.0)
    assert float(made[1].sum()) == 1024
    del made, view
    assert torch.cuda.memory_allocated() == before
    huge = memory_module.Plan(specimen, (((1 << 48,), (1,), torch.uint8),), 0, (), (0,))
    with pytest.raises(torch.OutOfMemoryError):
        huge.take(addresses, None, 0)
