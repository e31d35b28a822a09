"""Which memory a region returns, how each of its outputs is made of it, and which share memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pygraph_rt.plan.memory_blocks import Block, extent

if TYPE_CHECKING:
    import torch

# What a small output holds: the seed or the offset that an attention drew with, for its backward,
# or nothing that was ever written.
Scalar = Literal["seed", "offset", "nothing"]
Dims = tuple[int, ...]
"""A tensor's size or strides, in elements."""
Layout = tuple[Dims, Dims, "torch.dtype"]
"""Size, strides and dtype of a tensor."""
Allocate = Callable[[Dims, Dims, "torch.dtype"], "torch.Tensor"]


@dataclass(frozen=True)
class Storage:
    """Memory behind one or more outputs. `allocation` is the ordinal of the allocation in the
    generated code, or None for memory that a library call returned.
    """

    size: Dims
    stride: Dims
    dtype: torch.dtype
    nbytes: int
    allocation: int | None


@dataclass(frozen=True)
class Fresh:
    """An output in new memory: a view of storage number `storage`, or all of it when `whole`."""

    storage: int
    size: Dims
    stride: Dims
    offset: int
    whole: bool


@dataclass(frozen=True)
class OfInput:
    """An output: input `index`, or (not `same`) a view of it `offset` elements further on."""

    index: int
    same: bool
    size: Dims
    stride: Dims
    offset: int


@dataclass(frozen=True)
class Fixed:
    """An output that is the same object on every call: None, a number, a constant of the module."""

    value: Any


@dataclass(frozen=True)
class Drawn:
    """An output: the seed that a call drew with, or the offset, `addend` past the generator's, as a
    CPU scalar.
    """

    seed: bool
    addend: int


@dataclass(frozen=True)
class Undefined:
    """An output that nothing fills or reads; `value` stands in for it."""

    value: torch.Tensor


Output = Fresh | OfInput | Fixed | Drawn | Undefined


@dataclass(frozen=True)
class OutputPlan:
    """How to make a region's outputs, in order."""

    storages: tuple[Storage, ...]
    outputs: tuple[Output, ...]

    def nbytes(self) -> int:
        """Bytes of all memory that is returned."""
        return sum(storage.nbytes for storage in self.storages)

    def fresh(self) -> frozenset[int]:
        """Numbers of the outputs in memory that the call has made."""
        return frozenset(i for i, output in enumerate(self.outputs) if isinstance(output, Fresh))

    def direct(self) -> OutputPlan:
        """The same plan, where memory that is returned once, and in full, is asked for in the
        output's own shape, so that no view of it has to be made.
        """
        users = [o.storage for o in self.outputs if isinstance(o, Fresh)]
        storages, outputs = list(self.storages), list(self.outputs)
        for i, output in enumerate(outputs):
            if not isinstance(output, Fresh) or output.offset or users.count(output.storage) > 1:
                continue
            storage = storages[output.storage]
            if extent(output.size, output.stride, storage.dtype.itemsize) == storage.nbytes:
                storages[output.storage] = replace(storage, size=output.size, stride=output.stride)
                outputs[i] = replace(output, whole=True)
        return OutputPlan(tuple(storages), tuple(outputs))


class SlabGroup(NamedTuple):
    """Storages that share memory: their numbers, how many bytes one slab has at `most`, whether
    they are `saved` activations, and whether the next call may `reuse` their memory.
    """

    storages: frozenset[int]
    most: int
    saved: bool = False
    reuse: bool = False


class Slab(NamedTuple):
    """One allocation that several outputs are views of: its `memory`, the numbers of the
    `storages` in it, where each of the `blocks` begins (bytes), the views that are their outputs
    (size, strides, elements), and the blocks that the graph knows it by: its storages, or a segment
    of the arena. The rest is as in `SlabGroup`.
    """

    memory: Layout
    storages: tuple[int, ...]
    offsets: tuple[int, ...]
    views: tuple[tuple[Dims, Dims, int], ...]
    blocks: tuple[Block, ...]
    saved: bool = False
    reuse: bool = False

    @property
    def nbytes(self) -> int:
        """The size of its memory."""
        (elements,), _, dtype = self.memory
        return int(elements) * dtype.itemsize


class SlabPlan(NamedTuple):
    """Which outputs share memory: groups that slabs are made of, and the `retained` segments of
    the arena, in which results of library calls stay. `kept` segments of the arena have no results:
    the next call uses their memory again.
    """

    groups: tuple[SlabGroup, ...] = ()
    retained: Mapping[Block, Slab] = MappingProxyType({})
    kept: Mapping[Block, Slab] = MappingProxyType({})
