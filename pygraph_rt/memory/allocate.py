"""Take what a part of a graph needs: memory of outputs, of the arena, and slabs.

There are two ways that do the same: `PythonTaking`, one tensor at a time, and `NativeTaking`, where
it is one call into compiled code (native/memory.cpp) before the launch and one after it.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch

from pygraph_rt.capture.diff import Block
from pygraph_rt.capture.output_plan import Allocate, Sizes, Storage
from pygraph_rt.memory.arena import OWN_SEGMENT
from pygraph_rt.memory.output_pool import Memory, Sharing, Slab, hooked, slabs
from pygraph_rt.memory.split import Part

Asked = tuple[Sizes, Sizes, torch.dtype]  # size, strides, dtype
# From so many tensors in a call on, compiled code is used where there is any.
MANY = 1


class Taking(Protocol):
    """How a part of a graph takes its memory, call by call.

    `take(stream, allocate)` takes all of it, puts where it is among the addresses, and returns the
    outputs with memory of their own and the segments of the arena, in order. It raises what
    `allocate` raises, and holds nothing then. `outputs()` are the outputs in slabs, in order, once
    the addresses are in use. `forget()` lets go of the memory of slabs. `segments` is the first
    segment's place among the addresses.
    """

    segments: int

    def take(self, stream: int, allocate: Allocate) -> tuple[Sequence[Any], Sequence[Any]]: ...

    def outputs(self) -> list[torch.Tensor]: ...

    def forget(self) -> None: ...


class Wanted(NamedTuple):
    """What a part takes: storages of outputs with memory of their own, segments of the arena,
    memory that other outputs share, and all blocks in the order in which their addresses are known.
    """

    own: Sequence[int]
    segments: Sequence[Block]
    slabs: Sequence[Slab]
    blocks: Sequence[Block]


def wanted(part: Part, storages: Sequence[Storage], sharing: Sharing) -> Wanted:
    """See `Wanted`. Outputs come first, where sizes do not matter: what stays leaves fewer gaps
    when it does.
    """
    found = slabs(storages, part.made, sharing.families)
    found += [sharing.kept[block] for block in part.taken if block in sharing.kept]
    inside = {n for slab in (*found, *sharing.kept.values()) for n in slab.storages}
    own = [n for n in part.made if n not in inside]
    segments = [block for block in part.taken if block not in sharing.kept]
    shared = [block for slab in found for block in slab.blocks]
    return Wanted(own, segments, found, [*(Block("output", n) for n in own), *segments, *shared])


def _large_first(nbytes: Sequence[int]) -> tuple[int, ...]:
    """The order in which to take memory: what torch has a segment of its own for, the largest
    first, so that nothing small takes a part of what something large needs.
    """
    sizes = [n if n >= OWN_SEGMENT else 0 for n in nbytes]
    return tuple(sorted(range(len(sizes)), key=lambda i: -sizes[i]))


class PythonTaking:
    """One tensor after the other, in Python."""

    def __init__(
        self,
        made: Sequence[Storage],
        segments: Sequence[int],
        shared: Sequence[Memory],
        addresses: array[int],
        first: int,
    ) -> None:
        """`made` are outputs with memory of their own, `segments` the arena's (bytes), `shared` the
        slabs: in this order their blocks are among the `addresses`, from the `first` place on.
        """
        self.own = len(made)
        self.segments = first + self.own
        self.shared = shared
        self.addresses = addresses
        self.memory: list[Asked] = [
            *((s.size, s.stride, s.dtype) for s in made),
            *(((nbytes,), (1,), torch.uint8) for nbytes in segments),
        ]
        slabs_bytes = [memory.slab.nbytes for memory in shared]
        # Of the pieces of `memory`, and after them the slabs.
        self.order = _large_first([*(s.nbytes for s in made), *segments, *slabs_bytes])
        self.first = first
        self._places = slice(first, first + len(self.memory) + _blocks(shared))

    def take(self, stream: int, allocate: Allocate) -> tuple[Sequence[Any], Sequence[Any]]:
        """See `Taking`."""
        pieces = len(self.memory)
        new: list[Any] = [None] * pieces
        where: list[Sequence[int]] = [()] * len(self.shared)
        try:
            for i in self.order:
                if i < pieces:
                    new[i] = allocate(*self.memory[i])
                else:
                    where[i - pieces] = self.shared[i - pieces].take(stream)
        except BaseException:
            new = []  # the error holds this frame, and may be handled by what needs memory
            self.forget()
            raise
        now = [tensor.data_ptr() for tensor in new]
        self.addresses[self._places] = array("Q", itertools.chain(now, *where))
        return new[: self.own], new[self.own :]

    def outputs(self) -> list[torch.Tensor]:
        """See `Taking`."""
        made: list[torch.Tensor] = []
        for memory in self.shared:
            made += memory.outputs()
        return made

    def forget(self) -> None:
        """See `Taking`."""
        for memory in self.shared:
            memory.forget()

    @property
    def tensors(self) -> int:
        """How many tensors a call makes, or looks at."""
        return len(self.memory) + sum(len(m.slab.views) for m in self.shared)


class NativeTaking:
    """All of it in compiled code, in the same order. A call whose saved tensors go through hooks is
    Python's.
    """

    def __init__(self, python: PythonTaking, native: Any, allocate: Allocate) -> None:
        """`native` is the helper's module, `allocate` what calls will mostly allocate with."""
        python.forget()  # what could serve again: from now on that is here
        self._python = python
        self.segments = python.segments
        self._addresses = python.addresses
        self._own = python.own
        self._saved = any(memory.slab.saved for memory in python.shared)
        self._hooked = False
        # Of torch's own functions the allocator is enough. A tensor without memory tells which.
        self._torchs = allocate if allocate in _torchs_functions() else None
        specimen = allocate((0,), (1,), torch.uint8) if self._torchs is not None else None
        shared = tuple(
            (m.slab.memory, m.slab.offsets, m.slab.views, m.again) for m in python.shared
        )
        pieces = tuple(python.memory)
        self._plan = native.Plan(specimen, pieces, python.first, shared, python.order)

    def take(self, stream: int, allocate: Allocate) -> tuple[Sequence[Any], Sequence[Any]]:
        """See `Taking`."""
        self._hooked = self._saved and hooked()
        if self._hooked:
            self._plan.forget()
            return self._python.take(stream, allocate)
        function = None if allocate is self._torchs else allocate
        try:
            new = self._plan.take(self._addresses, function, stream)
        except BaseException:
            self._plan.forget()
            raise
        return new[: self._own], new[self._own :]

    def outputs(self) -> list[torch.Tensor]:
        """See `Taking`."""
        made: list[torch.Tensor] = (self._python if self._hooked else self._plan).outputs()
        return made

    def forget(self) -> None:
        """See `Taking`."""
        self._python.forget()
        self._plan.forget()


def gains(taking: Taking) -> bool:
    """Whether compiled code would be worth it."""
    return isinstance(taking, PythonTaking) and taking.tensors >= MANY


def compiled(taking: Taking, native: Any, allocate: Allocate) -> Taking:
    """The same in compiled code, where that gains; see `NativeTaking`."""
    if isinstance(taking, PythonTaking) and gains(taking):
        return NativeTaking(taking, native, allocate)
    return taking


def _blocks(run: Sequence[Memory]) -> int:
    return sum(len(memory.slab.blocks) for memory in run)


def _torchs_functions() -> list[Allocate]:
    """torch's own allocation functions, those of generated code."""
    guards = torch._C._dynamo.guards
    names = ("_empty_strided_cuda", "_empty_strided_cpu")
    return [getattr(guards, name) for name in names if hasattr(guards, name)]
