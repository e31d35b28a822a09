"""Small results of training steps share memory.

A step may save hundreds of small tensors for its backward and make hundreds of small gradients. To
take memory for each of them, and to release it, costs the host more than the launch of a graph. The
smallest that are saved share a few pieces of memory, which serve again in the next step. Larger
ones share with their neighbours, which the backward lets go of at about the same time. Gradients
are the caller's, who may keep a few of them: small ones share small pieces, new ones in each step.
What libraries return stays together where they put it (see memory/library_outputs.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from pygraph_rt.capture.diff import Block
from pygraph_rt.capture.output_plan import Allocate, Fresh, OutputPlan, Sizes, Storage
from pygraph_rt.capture.placeholders import extent
from pygraph_rt.inductor.partition_info import Signature

# Of the bytes of all that a forward returns: saved activations may be let go of one by one, those
# that share memory cannot. The smallest of them serve again in the next step.
_SHARE, _PIECES = 16, 64
# torch keeps blocks of up to 1 MiB in segments of their own. Larger pieces, above all those that
# serve again, would stay in the middle of what the next large block needs.
_MOST = 1 << 20
_OTHER = _MOST // 2
# (largest gradient, largest piece that such ones share)
_GRADIENTS = ((4 << 10, 32 << 10), (32 << 10, 128 << 10))
_ALIGNMENT = 256


class Family(NamedTuple):
    """Storages that share memory: their numbers, how many bytes one slab has at `most`, whether
    they are `saved` activations, and whether their memory serves `again`.
    """

    storages: frozenset[int]
    most: int
    saved: bool = False
    again: bool = False


class Slab(NamedTuple):
    """`memory` to ask for (size, strides, dtype), the numbers of the `storages` in it, where each
    of the `blocks` begins (bytes), the views that are their outputs (size, strides, elements), and
    the blocks that the graph knows it by: its storages, or a segment of the arena. The rest is as
    in `Family`.
    """

    memory: tuple[Sizes, Sizes, torch.dtype]
    storages: tuple[int, ...]
    offsets: tuple[int, ...]
    views: tuple[tuple[Sizes, Sizes, int], ...]
    blocks: tuple[Block, ...]
    saved: bool = False
    again: bool = False

    @property
    def nbytes(self) -> int:
        """The size of its memory."""
        (elements,), _, dtype = self.memory
        return int(elements) * dtype.itemsize

    @property
    def segment(self) -> bool:
        """Whether it is a segment of the arena, which results of library calls stay in."""
        return self.blocks[0].kind == "pool"


class Sharing(NamedTuple):
    """The families of outputs that share memory, and the segments of the arena that are `kept` for
    what is in them.
    """

    families: tuple[Family, ...] = ()
    kept: Mapping[Block, Slab] = MappingProxyType({})


def sharing(
    plan: OutputPlan, signature: Signature, kept: Mapping[Block, Slab] = MappingProxyType({})
) -> Sharing:
    """Which outputs of a partition share memory. What is in segments that are `kept` shares no
    other.
    """
    found = gradients(plan) if signature.backward else saved(plan, signature.saved)
    inside = {n for slab in kept.values() for n in slab.storages}
    return Sharing(tuple(f._replace(storages=f.storages - inside) for f in found), kept)


def saved(plan: OutputPlan, positions: Collection[int]) -> list[Family]:
    """For a forward, whose outputs at these positions only its backward sees: those from the
    smallest up, as long as together they are a small part of all outputs, and others.
    """
    found = sorted(_whole(plan, positions))
    total = sum(storage.nbytes for storage in plan.storages)
    room = total // _SHARE
    sums = accumulate(_padded(nbytes) for nbytes, _ in found)
    small = frozenset(n for (_, n), end in zip(found, sums, strict=True) if end <= room)
    families = [Family(small, min(room, _MOST), saved=True, again=True)]
    if knows_hooks():
        others = frozenset(n for nbytes, n in found if nbytes <= _OTHER) - small
        families.append(Family(others, min(total // _PIECES, _MOST), saved=True))
    return families


def gradients(plan: OutputPlan) -> list[Family]:
    """For a backward: whoever keeps one of its outputs keeps a small piece of memory at most."""
    everything = [*_whole(plan, range(len(plan.outputs)))]
    least, families = 0, []
    for most, piece in _GRADIENTS:
        found = frozenset(n for nbytes, n in everything if least < nbytes <= most)
        families.append(Family(found, piece))
        least = most
    return families


def _whole(plan: OutputPlan, positions: Collection[int]) -> Iterator[tuple[int, int]]:
    """(bytes, number) of the storages of which such an output is all there is."""
    for i, output in enumerate(plan.outputs):
        if i in positions and isinstance(output, Fresh) and output.whole:
            nbytes = plan.storages[output.storage].nbytes
            if nbytes:
                yield nbytes, output.storage


def slabs(
    storages: Sequence[Storage], numbers: Sequence[int], families: Sequence[Family]
) -> list[Slab]:
    """Slabs for those of these storages that share memory: two or more of one dtype in each."""
    return [slab for family in families for slab in _slabs(storages, numbers, family)]


def _slabs(storages: Sequence[Storage], numbers: Sequence[int], family: Family) -> Iterator[Slab]:
    groups: dict[torch.dtype, list[list[int]]] = {}
    ends: dict[torch.dtype, int] = {}
    for number in numbers:
        if number not in family.storages:
            continue
        dtype, nbytes = storages[number].dtype, _padded(storages[number].nbytes)
        if dtype not in groups or ends[dtype] + nbytes > family.most:
            groups.setdefault(dtype, []).append([])
            ends[dtype] = 0
        groups[dtype][-1].append(number)
        ends[dtype] += nbytes
    for dtype, found in groups.items():
        for group in found:
            if len(group) > 1:
                yield _slab(dtype, [storages[n] for n in group], group, family)


def _slab(
    dtype: torch.dtype, storages: Sequence[Storage], numbers: Sequence[int], family: Family
) -> Slab:
    *starts, end = accumulate((_padded(s.nbytes) for s in storages), initial=0)
    views = tuple(
        (storage.size, storage.stride, start // dtype.itemsize)
        for storage, start in zip(storages, starts, strict=True)
    )
    memory = ((end // dtype.itemsize,), (1,), dtype)
    blocks = tuple(Block("output", n) for n in numbers)
    return Slab(memory, tuple(numbers), tuple(starts), views, blocks, family.saved, family.again)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


class Memory:
    """A slab's memory and its outputs, call by call.

    Of a slab that serves `again`, a call hands out what an earlier one did, when nobody else has
    any of it by then: no tensor of it, and no view. Saved activations are seen by nothing but the
    backward, which runs on the stream of its forward; so what it still has queued comes before
    what is written next. A call whose saved tensors go through hooks gets memory for each of them,
    and what is in a segment of the arena is moved there: a hook may keep one tensor of many, or
    save it with its memory.
    """

    def __init__(self, slab: Slab, allocate: Allocate, reinterpret: Callable[..., Any]) -> None:
        self.slab = slab
        self._segment = slab.segment
        self._allocate = allocate
        self._reinterpret = reinterpret
        self.again = slab.again and _COUNTS is not None
        self._base: torch.Tensor | None = None
        self._apart: list[torch.Tensor] = []
        self._stream = 0
        self._addresses: list[int] = []
        self._outputs: list[torch.Tensor] = []
        self._storage: torch.UntypedStorage | None = None
        self._owners: tuple[Any, ...] = ()

    def take(self, stream: int) -> list[int]:
        """Where the blocks are in this call."""
        through_hooks = self.slab.saved and hooked()
        if self.again:
            if self._outputs and stream == self._stream and not through_hooks and self._is_free():
                return self._addresses
            self.forget()
            self._stream = stream
        # No variable holds memory: of an error that is handled, this frame would be a part.
        if through_hooks and not self._segment:
            dtype = self.slab.memory[2]
            self._apart = [
                self._allocate(size, stride, dtype) for size, stride, _ in self.slab.views
            ]
            return [own.data_ptr() for own in self._apart]
        self._base = self._allocate(*self.slab.memory)
        first = self._base.data_ptr()
        self._addresses = [first + offset for offset in self.slab.offsets]
        if through_hooks:
            dtype = self._base.dtype
            self._apart = [self._allocate((n,), (1,), dtype) for n in self._elements()]
        return self._addresses

    def outputs(self) -> list[torch.Tensor]:
        """The outputs in it; after `take`, once its addresses are in use."""
        if self._base is None:
            made, self._apart = self._apart or self._outputs, []
            return made
        base, self._base = self._base, None
        if self._apart:
            return self._moved(base)
        made = [self._reinterpret(base, *view) for view in self.slab.views]
        if self.again:
            self._storage = base.untyped_storage()
            del base
            self._outputs = made
            self._owners = self._count()
        return made

    def forget(self) -> None:
        """Let go of the memory; whoever has outputs of it keeps them."""
        self._outputs, self._apart, self._base, self._storage = [], [], None, None

    def _elements(self) -> list[int]:
        """How many elements each output spans."""
        return [extent(size, stride, 1) for size, stride, _ in self.slab.views]

    def _moved(self, base: torch.Tensor) -> list[torch.Tensor]:
        """The outputs, copied into memory of their own."""
        apart, self._apart = self._apart, []
        made = []
        for own, (size, stride, start) in zip(apart, self.slab.views, strict=True):
            own.copy_(self._reinterpret(base, (own.numel(),), (1,), start))
            made.append(self._reinterpret(own, size, stride, 0))
        return made

    def _is_free(self) -> bool:
        return self._count() == self._owners

    def _count(self) -> tuple[Any, ...]:
        """How many have the memory, and each of the outputs, in Python and in C++."""
        assert _COUNTS is not None
        assert self._storage is not None
        uses, owners = _COUNTS
        references, outputs = sys.getrefcount, self._outputs
        return (
            references(self._storage),
            owners(self._storage._cdata),
            [*map(references, outputs)],
            [*map(uses, outputs)],
        )


def knows_hooks() -> bool:
    """Whether this torch tells that saved tensors go through hooks."""
    return _COUNTS is not None


def hooked() -> bool:
    """Whether saved tensors go through hooks now, as far as torch tells."""
    return _COUNTS is not None and _saved_tensor_hooks() is not None


def _counts() -> tuple[Callable[[torch.Tensor], int], Callable[[int], int]] | None:
    """torch's counts of a tensor's and of a storage's owners; None where it has no such names."""
    uses = getattr(torch.Tensor, "_use_count", None)
    owners = getattr(torch._C, "_storage_Use_Count", None)
    hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return None if uses is None or owners is None or hooks is None else (uses, owners)


def _saved_tensor_hooks() -> Any:
    return torch._C._autograd._top_saved_tensors_default_hooks(False)


_COUNTS = _counts()
