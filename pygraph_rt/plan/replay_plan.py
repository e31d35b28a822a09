"""All that a replay does on a call, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pygraph_rt.plan.graph import PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Dims, OutputPlan, SlabPlan

if TYPE_CHECKING:
    import torch


class TensorLayout(NamedTuple):
    """How a tensor's elements lie in its memory, what they are, and where that is."""

    size: Dims
    stride: Dims
    dtype: torch.dtype
    device: torch.device

    def fits(self, value: torch.Tensor) -> bool:
        """Whether a tensor has this layout, and its elements are what its memory holds, not their
        conjugates or negatives. Strides along a single element say nothing.
        """
        found = (value.shape, value.dtype, value.device)
        if found != (self.size, self.dtype, self.device) or value.is_conj() or value.is_neg():
            return False
        steps = zip(self.size, value.stride(), self.stride, strict=True)
        return all(n == 1 or one == other for n, one, other in steps)


class TensorInput(NamedTuple):
    """A GPU tensor among the arguments: its position, its alignment class and layout at the
    capture, and whether it `stays`: it has not moved since the observed call.
    """

    argument: int
    alignment: int
    stays: bool
    layout: TensorLayout


@dataclass(frozen=True)
class InputPlan:
    """What a call's arguments must be. `values` are (position, value) of those that are no tensors;
    `numbers` positions of CPU scalars that hold a seed or an offset.
    """

    tensors: tuple[TensorInput, ...]
    values: tuple[tuple[int, Any], ...] = ()
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class MemoryPlan:
    """The arena's segments, in bytes, and which outputs share memory."""

    segments: Mapping[Block, int]
    slabs: SlabPlan = field(default_factory=SlabPlan)


@dataclass(frozen=True)
class LaunchPlan:
    """Where a graph runs: a GPU's index, and, when set, the one stream it may be launched on.
    `increment` is how far a launch moves torch's generator on; 0 when nothing is drawn.
    """

    device: int
    only_stream: int | None = None
    increment: int = 0


def most_allocated(sub_graphs: Sequence[SubGraph], sizes: Mapping[Block, int]) -> int:
    """The most bytes of segments of these sizes that sub-graphs have at a time."""
    most = held = 0
    for part in sub_graphs:
        held += sum(sizes[block] for block in part.segments)
        most = max(most, held)
        held -= sum(sizes[block] for block in part.freed)
    return most


@dataclass(frozen=True)
class ReplayPlan:
    """What to patch, allocate, launch and return on a call."""

    patches: PatchPlan
    sub_graphs: tuple[SubGraph, ...]
    inputs: InputPlan
    outputs: OutputPlan
    memory: MemoryPlan
    launch: LaunchPlan

    def most_allocated(self) -> int:
        """The most bytes of the arena that a call has at a time; retained segments are outputs."""
        retained = dict.fromkeys(self.memory.slabs.retained, 0)
        return most_allocated(self.sub_graphs, {**self.memory.segments, **retained})
