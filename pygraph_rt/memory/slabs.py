"""Slabs: small outputs of training steps share memory.

A step may save hundreds of small tensors for its backward and make hundreds of small gradients. To
allocate memory for each of them, and to free it, costs the host more than the launch of a graph.
The smallest that are saved share a few slabs, whose memory the next step reuses. Larger ones share
with their neighbours, which the backward lets go of at about the same time. Gradients are the
caller's, who may keep a few of them: small ones share small slabs, new ones in each step. What
libraries return stays together where they put it (see library_outputs.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import torch

from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.plan.graph import SubGraph
from pygraph_rt.plan.memory_blocks import Block, aligned, extent
from pygraph_rt.plan.outputs import Allocate, Fresh, OutputPlan, Slab, SlabGroup, SlabPlan, Storage

# Of the bytes of all that a forward returns: saved activations may be let go of one by one, those
# that share memory cannot. The smallest of them are reused in the next step.
_SHARE, _PIECES = 16, 64
# torch keeps blocks of up to 1 MiB in segments of their own. Larger pieces, above all those that
# are reused, would stay in the middle of what the next large block needs.
_MOST = 1 << 20
_OTHER = _MOST // 2
# (largest gradient, largest slab of such ones)
_GRADIENTS = ((4 << 10, 32 << 10), (32 << 10, 128 << 10))
_ALIGNMENT = 256
# Bytes of the arena's small segments that a graph keeps: so many, or this part of a call's memory.
_KEPT, _KEPT_SHARE = 64 << 10, 32


def slab_plan(
    plan: OutputPlan, signature: Signature, retained: Mapping[Block, Slab] = MappingProxyType({})
) -> SlabPlan:
    """Which outputs of a region share memory. What is in `retained` segments is in no slab."""
    found = gradients(plan) if signature.gradients else saved(plan, signature.saved)
    inside = {n for slab in retained.values() for n in slab.storages}
    return SlabPlan(tuple(g._replace(storages=g.storages - inside) for g in found), retained)


def kept_segments(
    sub_graphs: Sequence[SubGraph], segments: Mapping[Block, int], others: int
) -> dict[Block, Slab]:
    """The smallest segments of the arena (bytes of each) that a graph of one launch has beside
    `others`, bytes of other memory of a call. They are kept from call to call: what a program
    allocates between two calls would take their place, and nodes would have to be patched.
    """
    if len(sub_graphs) > 1:
        return {}
    room = min(_MOST, max(_KEPT, (sum(segments.values()) + others) // _KEPT_SHARE))
    found: dict[Block, Slab] = {}
    for block, nbytes in sorted(segments.items(), key=lambda item: item[1]):
        room -= nbytes
        if room < 0:
            break
        memory = ((nbytes,), (1,), torch.uint8)
        found[block] = Slab(memory, (), (0,), (), (block,), reuse=True)
    return found


def saved(plan: OutputPlan, positions: Collection[int]) -> list[SlabGroup]:
    """For a forward, whose outputs at these positions only its backward sees: those from the
    smallest up, as long as together they are a small part of all outputs, and others.
    """
    found = sorted(_whole(plan, positions))
    total = sum(storage.nbytes for storage in plan.storages)
    room = total // _SHARE
    sums = accumulate(aligned(nbytes, _ALIGNMENT) for nbytes, _ in found)
    small = frozenset(n for (_, n), end in zip(found, sums, strict=True) if end <= room)
    others = frozenset(n for nbytes, n in found if nbytes <= _OTHER) - small
    return [
        SlabGroup(small, min(room, _MOST), saved=True, reuse=True),
        SlabGroup(others, min(total // _PIECES, _MOST), saved=True),
    ]


def gradients(plan: OutputPlan) -> list[SlabGroup]:
    """For a backward: whoever keeps one of its outputs keeps a small piece of memory at most."""
    everything = [*_whole(plan, range(len(plan.outputs)))]
    least, groups = 0, []
    for most, piece in _GRADIENTS:
        found = frozenset(n for nbytes, n in everything if least < nbytes <= most)
        groups.append(SlabGroup(found, piece))
        least = most
    return groups


def _whole(plan: OutputPlan, positions: Collection[int]) -> Iterator[tuple[int, int]]:
    """(bytes, number) of the storages of which such an output is all there is."""
    for i, output in enumerate(plan.outputs):
        if i in positions and isinstance(output, Fresh) and output.whole:
            nbytes = plan.storages[output.storage].nbytes
            if nbytes:
                yield nbytes, output.storage


def slabs(
    storages: Sequence[Storage], numbers: Sequence[int], groups: Sequence[SlabGroup]
) -> list[Slab]:
    """Slabs for those of these storages that share memory: two or more of one dtype in each."""
    return [slab for group in groups for slab in _slabs(storages, numbers, group)]


def _slabs(storages: Sequence[Storage], numbers: Sequence[int], group: SlabGroup) -> Iterator[Slab]:
    groups: dict[torch.dtype, list[list[int]]] = {}
    ends: dict[torch.dtype, int] = {}
    for number in numbers:
        if number not in group.storages:
            continue
        dtype, nbytes = storages[number].dtype, aligned(storages[number].nbytes, _ALIGNMENT)
        if dtype not in groups or ends[dtype] + nbytes > group.most:
            groups.setdefault(dtype, []).append([])
            ends[dtype] = 0
        groups[dtype][-1].append(number)
        ends[dtype] += nbytes
    for dtype, found in groups.items():
        for members in found:
            if len(members) > 1:
                yield _slab(dtype, [storages[n] for n in members], members, group)


def _slab(
    dtype: torch.dtype, storages: Sequence[Storage], numbers: Sequence[int], group: SlabGroup
) -> Slab:
    *starts, end = accumulate((aligned(s.nbytes, _ALIGNMENT) for s in storages), initial=0)
    views = tuple(
        (storage.size, storage.stride, start // dtype.itemsize)
        for storage, start in zip(storages, starts, strict=True)
    )
    memory = ((end // dtype.itemsize,), (1,), dtype)
    blocks = tuple(Block("output", n) for n in numbers)
    return Slab(memory, tuple(numbers), tuple(starts), views, blocks, group.saved, group.reuse)


class SlabMemory:
    """A slab's memory and its outputs, call by call.

    A slab whose memory is reused hands out what it did on an earlier call, if use counts show no
    outside owner by then: no tensor of it, and no view. Saved activations are seen by nothing but
    the backward, which runs on the stream of its forward; so what it still has queued comes before
    what is written next. A call whose saved tensors go through hooks gets memory for each of them,
    and what is in a segment of the arena is moved there: a hook may keep one tensor of many, or
    save it with its memory.
    """

    def __init__(self, slab: Slab, empty: Allocate, reinterpret: Callable[..., Any]) -> None:
        self.slab = slab
        # Of the arena, which results of library calls stay in.
        self._is_segment = slab.blocks[0].kind == "pool"
        self._empty = empty
        self._reinterpret = reinterpret
        self._base: torch.Tensor | None = None
        self._apart: list[torch.Tensor] = []
        self._stream = 0
        self._addresses: list[int] = []
        self._outputs: list[torch.Tensor] = []
        self._storage: torch.UntypedStorage | None = None
        self._owners: tuple[Any, ...] = ()

    def allocate(self, stream: int) -> list[int]:
        """Addresses of the blocks in this call."""
        through_hooks = self.slab.saved and hooked()
        if self.slab.reuse:
            kept = self._storage is not None and stream == self._stream
            if kept and not through_hooks and self._count() == self._owners:
                return self._addresses
            self.forget()
            self._stream = stream
        # No variable holds memory: of an error that is handled, this frame would be a part.
        if through_hooks and not self._is_segment:
            dtype = self.slab.memory[2]
            self._apart = [self._empty(size, stride, dtype) for size, stride, _ in self.slab.views]
            return [own.data_ptr() for own in self._apart]
        self._base = self._empty(*self.slab.memory)
        first = self._base.data_ptr()
        self._addresses = [first + offset for offset in self.slab.offsets]
        if through_hooks:
            dtype, spans = self._base.dtype, [extent(*view[:2], 1) for view in self.slab.views]
            self._apart = [self._empty((n,), (1,), dtype) for n in spans]
        return self._addresses

    def outputs(self) -> list[torch.Tensor]:
        """The outputs in it; after `allocate`, once its addresses are in use."""
        if self._base is None:
            made, self._apart = self._apart or self._outputs, []
            return made
        base, self._base = self._base, None
        if self._apart:
            return self._moved(base)
        made = [self._reinterpret(base, *view) for view in self.slab.views]
        if self.slab.reuse:
            self._storage = base.untyped_storage()
            del base
            self._outputs = made
            self._owners = self._count()
        return made

    def forget(self) -> None:
        """Let go of the memory; whoever has outputs of it keeps them."""
        self._outputs, self._apart, self._base, self._storage = [], [], None, None

    def _moved(self, base: torch.Tensor) -> list[torch.Tensor]:
        """The outputs, copied into memory of their own."""
        apart, self._apart = self._apart, []
        made = []
        for own, (size, stride, start) in zip(apart, self.slab.views, strict=True):
            own.copy_(self._reinterpret(base, (own.numel(),), (1,), start))
            made.append(self._reinterpret(own, size, stride, 0))
        return made

    def _count(self) -> tuple[Any, ...]:
        """How many have the memory, and each of the outputs, in Python and in C++."""
        assert self._storage is not None
        tensor: Any = torch.Tensor
        references, outputs = sys.getrefcount, self._outputs
        return (
            references(self._storage),
            torch._C._storage_Use_Count(self._storage._cdata),
            [*map(references, outputs)],
            [*map(tensor._use_count, outputs)],
        )


def hooked() -> bool:
    """Whether saved tensors go through hooks now."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
