"""What the GPU tests share: compiling both ways, moving memory about, poisoning it, comparing
bits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import pygraph_rt
from pygraph_rt.cuda.native.memory import Helper
from pygraph_rt.memory.slabs import SlabMemory
from pygraph_rt.region.region import Partition
from pygraph_rt.verify.bits import same_bits

DEVICE = "cuda"


class ReadyHelper(Helper):
    """The compiled helper whose module is there from the start."""

    def __init__(self, module: Any) -> None:
        super().__init__(Path(module.__file__).parent)
        self.open, self._module = False, module


def graphed(function: Any, **options: Any) -> Any:
    """Compiled with graphs wherever they can be proven right."""
    options = {"graphs": "always", **options}
    return torch.compile(function, backend=pygraph_rt.pygraph, options=options)


def ungraphed(function: Any) -> Any:
    """The same compiled code without graphs."""
    return torch.compile(function, backend=pygraph_rt.pygraph, options={"graphs": "never"})


@contextmanager
def ordinary_path() -> Iterator[None]:
    """Every region runs the code that was generated for it, as if it had no graph.

    Compiled a second time, the same model may get other kernels, whose last bits differ.
    """

    def generated(self: Partition, args: list[Any]) -> Any:
        return self._function(args)

    with mock.patch.object(Partition, "__call__", generated):
        yield


def regions(state: str | None = None) -> list[dict[str, Any]]:
    """Regions in the report, without those that were told not to use graphs or were freed."""
    found = [
        r
        for r in pygraph_rt.report().to_dict()["regions"]
        if "graphs='never'" not in r["reason"] and r["state"] != "released"
    ]
    return [r for r in found if state is None or r["state"] == state]


def shared_memory(replay: Any) -> list[SlabMemory]:
    """The memory that a graph's outputs share, whichever way it is taken."""
    ways = (getattr(part.memory, "_python", part.memory) for part in replay._launcher.sub_graphs)
    return [memory for way in ways for memory in way.shared]


def leaves(value: Any) -> list[Any]:
    """Tensors of a nested result, in order."""
    return [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def assert_same(actual: Any, expected: Any, when: str = "") -> None:
    """Equal bit for bit, tensor by tensor; `when` is said where they are not."""
    left, right = leaves(actual), leaves(expected)
    assert len(left) == len(right)
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        assert same_bits(a, b), (
            f"output {i} of shape {tuple(a.shape)} differs: "
            f"{(a != b).sum().item()} of {a.numel()} values, by at most "
            f"{(a.double() - b.double()).abs().max().item()} {when}"
        )


def peaks_of(step: Callable[[], object]) -> tuple[int, int]:
    """The most bytes that are allocated, and reserved, while a step runs that has warmed up."""
    for _ in range(6):
        step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def poison_free_memory() -> None:
    """Fill every free block of the caching allocator with 0xFF."""
    torch.cuda.synchronize()
    sizes = [
        block["size"]
        for segment in torch.cuda.memory_snapshot()
        if tuple(segment["segment_pool_id"]) == (0, 0)
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]
    held = [
        torch.empty(size, dtype=torch.uint8, device=DEVICE).fill_(255)
        for size in sorted(sizes, reverse=True)
    ]
    del held
    torch.cuda.synchronize()


def copies(values: Sequence[Any]) -> list[Any]:
    """Independent copies of tensor arguments, with their strides."""
    return [
        v.clone(memory_format=torch.preserve_format) if isinstance(v, torch.Tensor) else v
        for v in values
    ]


def check(
    function: Callable[..., Any],
    make: Callable[[], list[Any]],
    *,
    calls: int = 6,
    served: bool = True,
    **options: Any,
) -> list[dict[str, Any]]:
    """Compare graphs with the same compiled code without them, on fresh inputs, with moved and
    poisoned memory; returns the regions.

    Inputs are compared after the call too, because they may have been written to. `served`: every
    region must end up served by a graph.
    """
    fast = graphed(function, **options)
    kept: list[tuple[Any, Any]] = []
    junk: list[torch.Tensor] = []
    with torch.no_grad():
        for i in range(calls):
            inputs = make()
            others = copies(inputs)
            junk.append(torch.empty(random.randrange(1, 1 << 22), dtype=torch.uint8, device=DEVICE))
            if i % 3 == 2:
                junk.clear()
            poison_free_memory()
            actual = fast(*inputs)
            poison_free_memory()
            with ordinary_path():
                expected = fast(*others)
            when = f"on call {i}, calls served by graphs: {[r['served'] for r in regions()]}"
            assert_same(actual, expected, when)
            assert_same(inputs, others, when)
            kept.append((actual, expected))
        for actual, expected in kept:
            assert_same(actual, expected)
    found = regions()
    if served:
        assert found, "nothing was compiled into a partition"
        for region in found:
            assert region["state"] == "serving", region["reason"]
            assert region["served"] >= calls - 2, region
    return found
