"""Allocate the memory of one sub-graph for a call: outputs, segments of the arena, and slabs.

There are two ways that do the same: `PythonAllocator`, one tensor at a time, and `NativeAllocator`,
one call into compiled code (cuda/native/memory.cpp) before the launch and one after it.

`allocate(stream, empty)` allocates all of it with `empty`, writes where it is to the addresses, and
returns (outputs with memory of their own, segments of the arena), in order. It raises what `empty`
raises, and holds nothing then. `outputs()` returns the outputs in slabs, in order, once the
addresses are in use. `forget()` lets go of the memory of slabs. `first_segment` is the first
segment's place among the addresses.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.memory.layout import OWN_SEGMENT
from pygraph_rt.memory.slabs import SlabMemory, hooked, slabs
from pygraph_rt.plan.graph import SubGraph
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Allocate, Layout, Slab, SlabPlan, Storage


class Needs(NamedTuple):
    """What a sub-graph allocates: storages of outputs with memory of their own, segments of the
    arena, slabs, and all `blocks` in the order in which their addresses are written.
    """

    own: Sequence[int]
    segments: Sequence[Block]
    slabs: Sequence[Slab]
    blocks: Sequence[Block]


def needs_of(part: SubGraph, storages: Sequence[Storage], plan: SlabPlan) -> Needs:
    """What a sub-graph allocates. Outputs come first, where sizes do not matter: what stays leaves
    fewer gaps when it does.
    """
    found = slabs(storages, part.outputs, plan.groups)
    whole = {**plan.retained, **plan.kept}
    found += [whole[block] for block in part.segments if block in whole]
    inside = {n for slab in (*found, *plan.retained.values()) for n in slab.storages}
    own = [n for n in part.outputs if n not in inside]
    segments = [block for block in part.segments if block not in whole]
    shared = [block for slab in found for block in slab.blocks]
    return Needs(own, segments, found, [*(Block("output", n) for n in own), *segments, *shared])


def _large_first(nbytes: Sequence[int]) -> tuple[int, ...]:
    """The order in which to allocate: what torch has a segment of its own for, the largest first,
    so that nothing small takes a part of what something large needs.
    """
    sizes = [n if n >= OWN_SEGMENT else 0 for n in nbytes]
    return tuple(sorted(range(len(sizes)), key=lambda i: -sizes[i]))


class PythonAllocator:
    """One tensor after the other, in Python."""

    def __init__(
        self,
        outputs: Sequence[Storage],
        segments: Sequence[int],
        shared: Sequence[SlabMemory],
        addresses: array[int],
        first: int,
    ) -> None:
        """`outputs` have memory of their own, `segments` are the arena's (bytes): in this order,
        with the `shared` slabs behind them, their blocks are among the `addresses`, from the
        `first` place on.
        """
        self.own = len(outputs)
        self.first_segment = first + self.own
        self.shared = shared
        self.addresses = addresses
        self.memory: list[Layout] = [
            *((s.size, s.stride, s.dtype) for s in outputs),
            *(((nbytes,), (1,), torch.uint8) for nbytes in segments),
        ]
        slabs_bytes = [memory.slab.nbytes for memory in shared]
        # Of the pieces of `memory`, and after them the slabs.
        self.order = _large_first([*(s.nbytes for s in outputs), *segments, *slabs_bytes])
        self.first = first
        blocks = sum(len(memory.slab.blocks) for memory in shared)
        self._places = slice(first, first + len(self.memory) + blocks)

    def allocate(self, stream: int, empty: Allocate) -> tuple[Sequence[Any], Sequence[Any]]:
        """See above."""
        pieces = len(self.memory)
        new: list[Any] = [None] * pieces
        where: list[Sequence[int]] = [()] * len(self.shared)
        try:
            for i in self.order:
                if i < pieces:
                    new[i] = empty(*self.memory[i])
                else:
                    where[i - pieces] = self.shared[i - pieces].allocate(stream)
        except BaseException:
            new = []  # the error holds this frame, and may be handled by what needs memory
            self.forget()
            raise
        now = [tensor.data_ptr() for tensor in new]
        self.addresses[self._places] = array("Q", itertools.chain(now, *where))
        return new[: self.own], new[self.own :]

    def outputs(self) -> list[torch.Tensor]:
        """See above."""
        made: list[torch.Tensor] = []
        for memory in self.shared:
            made += memory.outputs()
        return made

    def forget(self) -> None:
        """See above."""
        for memory in self.shared:
            memory.forget()

    @property
    def tensors(self) -> int:
        """How many tensors a call makes, or looks at."""
        return len(self.memory) + sum(len(m.slab.views) for m in self.shared)


class NativeAllocator:
    """All of it in compiled code, in the same order. A call whose saved tensors go through hooks is
    Python's.
    """

    def __init__(self, python: PythonAllocator, native: Any, empty: Allocate) -> None:
        """`native` is the helper's module, `empty` what calls will mostly allocate with."""
        python.forget()  # what could be reused: from now on that is here
        self._python = python
        self.first_segment = python.first_segment
        self._addresses = python.addresses
        self._own = python.own
        self._saved = any(memory.slab.saved for memory in python.shared)
        self._hooked = False
        # Of torch's own functions the allocator is enough. A tensor without memory tells which.
        self._torchs = empty if empty in _torchs_functions() else None
        specimen = empty((0,), (1,), torch.uint8) if self._torchs is not None else None
        shared = tuple(
            (m.slab.memory, m.slab.offsets, m.slab.views, m.slab.reuse) for m in python.shared
        )
        pieces = tuple(python.memory)
        self._plan = native.Plan(specimen, pieces, python.first, shared, python.order)

    def allocate(self, stream: int, empty: Allocate) -> tuple[Sequence[Any], Sequence[Any]]:
        """See above."""
        self._hooked = self._saved and hooked()
        if self._hooked:
            self._plan.forget()
            return self._python.allocate(stream, empty)
        function = None if empty is self._torchs else empty
        try:
            new = self._plan.take(self._addresses, function, stream)
        except BaseException:
            self._plan.forget()
            raise
        return new[: self._own], new[self._own :]

    def outputs(self) -> list[torch.Tensor]:
        """See above."""
        made: list[torch.Tensor] = (self._python if self._hooked else self._plan).outputs()
        return made

    def forget(self) -> None:
        """See above."""
        self._python.forget()
        self._plan.forget()


Allocator = PythonAllocator | NativeAllocator


def compiled(allocator: Allocator, native: Any, empty: Allocate) -> Allocator:
    """The same in compiled code; see `NativeAllocator`."""
    if isinstance(allocator, PythonAllocator) and allocator.tensors:
        return NativeAllocator(allocator, native, empty)
    return allocator


def _torchs_functions() -> list[Allocate]:
    """torch's own allocation functions, those of generated code."""
    guards = torch._C._dynamo.guards
    names = ("_empty_strided_cuda", "_empty_strided_cpu")
    return [getattr(guards, name) for name in names if hasattr(guards, name)]
