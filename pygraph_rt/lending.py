"""Intermediates in memory that a backward was given and has done with.

A backward may overwrite what was saved for it alone (AOTAutograd's donated buffers). On the
ordinary path that memory goes back to the allocator piece by piece while the backward runs; a
graph needs all of it until it is launched. So while a graph is captured, what the generated code
allocates is put where such an input was, as soon as the code has let go of it, and needs no room in
the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .outputs import Sizes
from .placeholders import ALIGNMENT, extent

_STRONG = 256

MakeTensor = Callable[[int, int, Sizes, Sizes, torch.dtype], torch.Tensor]


class Span(NamedTuple):
    """Bytes [start, end) of device address space, in the memory of the input that was watched as
    number `owner`. The order of spans is the same in every capture, wherever the inputs are.
    """

    owner: int
    start: int
    end: int


class Lender:
    """Hands out memory of inputs that are dead.

    `make(address, nbytes, size, stride, dtype)` builds a tensor over memory that it does not own.
    """

    def __init__(self, make: MakeTensor) -> None:
        self._make = make
        self._free: list[Span] = []
        self._held: list[tuple[StorageWeakRef, Span]] = []
        self._watched = 0
        self._lent: set[int] = set()

    def watch(self, tensor: torch.Tensor) -> None:
        """Lend the tensor's memory once nobody else holds the tensor. Memory at a weak alignment
        is not lent: kernels are chosen by it.
        """
        start = tensor.data_ptr()
        size = extent(tensor.shape, tensor.stride(), tensor.element_size())
        if start % _STRONG == 0 and size:
            self._hold(tensor, Span(self._watched, start, start + size))
            self._watched += 1

    def take(self, size: Sizes, stride: Sizes, dtype: torch.dtype) -> torch.Tensor | None:
        """A tensor in memory that is free, the smallest piece that is large enough; None when
        there is none. Inputs that something was put into before come first: the others can be
        freed before the graph's last part is launched (see staging.py).
        """
        nbytes = extent(size, stride, dtype.itemsize)
        if not nbytes:
            return None
        self._collect()
        fitting = [s for s in self._free if s.end - s.start >= nbytes]
        if not fitting:
            return None
        found = min(fitting, key=lambda s: (s.owner not in self._lent, s.end - s.start, s))
        self._lent.add(found.owner)
        self._free.remove(found)
        end = found.start + -(-nbytes // ALIGNMENT) * ALIGNMENT
        if end < found.end:
            self._free.append(Span(found.owner, end, found.end))
        tensor = self._make(found.start, nbytes, size, stride, dtype)
        self._hold(tensor, Span(found.owner, found.start, min(end, found.end)))
        return tensor

    def _hold(self, tensor: torch.Tensor, span: Span) -> None:
        self._held.append((StorageWeakRef(tensor.untyped_storage()), span))  # type: ignore[no-untyped-call]

    def _collect(self) -> None:
        dead = [span for reference, span in self._held if reference.expired()]  # type: ignore[no-untyped-call]
        if not dead:
            return
        self._held = [held for held in self._held if not held[0].expired()]  # type: ignore[no-untyped-call]
        self._free = merged([*self._free, *dead])


def merged(spans: Sequence[Span]) -> list[Span]:
    """The same bytes in order, with neighbours in the same input joined."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and result[-1][::2] == span[:2]:
            span = Span(span.owner, result.pop().start, span.end)
        result.append(span)
    return result


def lendable(args: Sequence[Any], donated: frozenset[int]) -> list[int]:
    """The arguments among `donated` that share memory with no other argument."""
    owners: dict[int, int] = {}
    for value in args:
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()._cdata
            owners[storage] = owners.get(storage, 0) + 1
    return [
        i
        for i in sorted(donated)
        if isinstance(args[i], torch.Tensor) and owners[args[i].untyped_storage()._cdata] == 1
    ]
