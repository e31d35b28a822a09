"""The random numbers of one capture: read out of its nodes, taken out of its nodes, checked.

See philox.py for what is done and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.errors import Unprovable
from pygraph_rt.plan.graph import Capture
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Drawn, OutputPlan
from pygraph_rt.rng import philox

# In the names of the kernels of memory-efficient attention's backward.
_ATTENTION_BACKWARD = "fmha_cutlassB"


class Random(NamedTuple):
    """What a capture draws: its probe, and every generator state in its kernels."""

    probe: philox.Probe
    states: tuple[philox.State, ...]


def draw_into(target: torch.Tensor) -> None:
    """The probe."""
    target.uniform_()


def stand_ins(numbers: Sequence[int]) -> dict[int, torch.Tensor]:
    """CPU scalars to capture with in place of the arguments `numbers`; their value is no real
    one, so that code which reads it is found out by the comparison.
    """
    return {
        i: torch.tensor(-0x0123_4567_89AB_CDEF - i, dtype=torch.int64, device="cpu")
        for i in numbers
    }


def read(
    driver: Driver, capture: Capture, target: int, numbers: Mapping[int, Block]
) -> tuple[Capture, Random]:
    """Take the probe out of a capture, and make its kernels take numbers instead of pointers to
    the generator's state. `target` is where the probe writes to, `numbers` the addresses of the
    `stand_ins`.
    """
    index = philox.find_probe(capture.nodes, target)
    probe = philox.read_probe(capture.nodes[index], lambda w: driver.memory_kind(w) == "device")
    capture = capture.without(index)
    states = philox.find_states(capture.nodes, probe, numbers)
    _check_handed_on(capture, probe)
    nodes = list(capture.nodes)
    changed = frozenset(s.node for s in states)
    for i in changed:
        own = [s for s in states if s.node == i]
        fields, raw = philox.as_numbers(nodes[i].fields, own, probe.size), nodes[i].raw
        raw = raw._replace(params=replace(raw.params, fields=fields))
        nodes[i] = nodes[i]._replace(fields=fields, raw=raw)
    return replace(capture, nodes=tuple(nodes), changed=changed), Random(probe, states)


def _check_handed_on(capture: Capture, probe: philox.Probe) -> None:
    """Raise Unprovable when an attention's backward takes a state from GPU memory that its forward
    has filled in the same graph: a forward that gets numbers fills nothing.
    """
    for node in capture.nodes:
        if _ATTENTION_BACKWARD in node.name and any(
            philox.points_to_state(data, probe.size, lambda w: capture.blocks.find(w) is not None)
            for data in node.fields
        ):
            raise Unprovable(
                "it runs an attention with dropout and its backward in one graph (activation "
                "checkpointing); keep the attention out of the checkpoint, or use no dropout in it"
            )


def check(first: Random | None, second: Random | None, drawn: int) -> None:
    """Raise Unprovable unless both captures draw what the ordinary call drew."""
    if first is None or second is None:
        return
    if first.states != second.states or {first.probe.drawn, second.probe.drawn} != {drawn}:
        raise Unprovable(
            f"two captures and the ordinary path drew different amounts of random numbers "
            f"({first.probe.drawn}, {second.probe.drawn} and {drawn} a thread); keep what draws "
            "them out of the compiled region"
        )


def check_outputs(plan: OutputPlan, random: Random | None) -> None:
    """Raise Unprovable unless a kernel draws from every offset that is handed on."""
    known = {s.intragraph for s in random.states} if random else set()
    if any(isinstance(o, Drawn) and not o.seed and o.addend not in known for o in plan.outputs):
        raise Unprovable(
            "it returns an offset of random numbers that none of its kernels draws from; please "
            "report this"
        )
