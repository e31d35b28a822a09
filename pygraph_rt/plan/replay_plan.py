"""All that a replay does on a call, as one frozen value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pygraph_rt.plan.graph import PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Dims, OutputPlan
from pygraph_rt.plan.slabs import SlabPlan

MIB = 1 << 20


class TensorInput(NamedTuple):
    """A GPU tensor among the arguments: its position, its alignment class at the capture, and
    whether it `stays`: it has not moved since the observed call.
    """

    argument: int
    alignment: int
    stays: bool


class Shape(NamedTuple):
    """An argument whose size and strides are compared on each call."""

    argument: int
    size: Dims
    stride: Dims


@dataclass(frozen=True)
class InputPlan:
    """What a call's arguments must be. `values` are (position, value) of those that are no tensors;
    `numbers` positions of CPU scalars that hold a seed or an offset.
    """

    tensors: tuple[TensorInput, ...]
    values: tuple[tuple[int, Any], ...] = ()
    shapes: tuple[Shape, ...] = ()
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
    """What to patch, allocate, launch and return on a call; `str` prints it."""

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

    def __str__(self) -> str:
        return "\n".join(
            [
                *_describe_graph(self),
                *_describe_inputs(self.inputs),
                *_describe_outputs(self.outputs),
                *_describe_memory(self),
                *_describe_launch(self.launch),
            ]
        )


def _describe_graph(plan: ReplayPlan) -> list[str]:
    patches = plan.patches
    words = Counter(patch.block.kind for patch in patches.patches)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(words.items()))
    lines = [
        f"graph: {patches.nodes} nodes, {patches.patched_nodes()} of them patched; "
        f"{len(patches.patches)} words ({kinds or 'none'})"
    ]
    lines += [
        f"  nodes {part.nodes.start} to {part.nodes.stop - 1}: allocate "
        f"{len(part.segments)} segments and outputs {list(part.outputs)}; then drop arguments "
        f"{list(part.dropped)}, free {len(part.freed)} segments"
        for part in plan.sub_graphs
    ]
    return lines


def _describe_inputs(inputs: InputPlan) -> list[str]:
    stay = sum(tensor.stays for tensor in inputs.tensors)
    lines = [f"inputs: {len(inputs.tensors)} tensors, {stay} of which did not move"]
    if inputs.values:
        lines.append(f"  values: {', '.join(f'{i}: {value!r}' for i, value in inputs.values)}")
    if inputs.shapes:
        lines.append(f"  shapes compared: {[shape.argument for shape in inputs.shapes]}")
    if inputs.numbers:
        lines.append(f"  seeds and offsets: {list(inputs.numbers)}")
    return lines


def _describe_outputs(outputs: OutputPlan) -> list[str]:
    kinds = Counter(type(output).__name__ for output in outputs.outputs)
    made = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    nbytes = sum(storage.nbytes for storage in outputs.storages)
    return [f"outputs: {made or 'none'}; {len(outputs.storages)} storages, {nbytes} bytes"]


def _describe_memory(plan: ReplayPlan) -> list[str]:
    memory = plan.memory
    shared = sum(len(group.storages) for group in memory.slabs.groups)
    return [
        f"memory: {len(memory.segments)} segments, at most {plan.most_allocated() / MIB:.1f} MiB "
        f"at a time; {shared} outputs may share memory, {len(memory.slabs.retained)} segments are "
        "retained"
    ]


def _describe_launch(launch: LaunchPlan) -> list[str]:
    where = f"launch: on GPU {launch.device}"
    if launch.only_stream is not None:
        where += f", on stream {launch.only_stream:#x} only"
    drawn = f"{launch.increment} a thread" if launch.increment else "none"
    return [where, f"random numbers: {drawn}"]
