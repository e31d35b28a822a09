"""Outputs that share memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Dims, Layout


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

    @property
    def is_segment(self) -> bool:
        """Whether it is a segment of the arena, which results of library calls stay in."""
        return self.blocks[0].kind == "pool"


class SlabPlan(NamedTuple):
    """Which outputs share memory: groups that slabs are made of, and the `retained` segments of
    the arena, in which results of library calls stay.
    """

    groups: tuple[SlabGroup, ...] = ()
    retained: Mapping[Block, Slab] = MappingProxyType({})
