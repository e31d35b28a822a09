"""The random numbers of one capture: read out of its nodes, taken out of its nodes, checked.

See philox.py for what is done and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from . import parameters, philox
from .driver import Driver, KernelNode
from .errors import Unprovable
from .graph_nodes import without
from .outputs import Drawn, HostNumber, Output, OutputPlan, Undefined
from .parameters import WORD, Block, Node
from .placeholders import Placeholders
from .templates import RawNode

# In the names of the kernels of memory-efficient attention's backward.
_ATTENTION_BACKWARD = "fmha_cutlassB"


class Random(NamedTuple):
    """What a capture draws: its probe, the probe's node in torch's graph, and every generator
    state in its kernels.
    """

    probe: philox.Probe
    node: int
    states: tuple[philox.State, ...]


class Draws(NamedTuple):
    """The default generator around an observed call: by how much the call moved it on, and what
    its seed and offset were before.
    """

    increment: int = 0
    seed: int = 0
    offset: int = 0


def ambiguous(plan: OutputPlan, drawn: Draws) -> bool:
    """Whether a CPU scalar among the outputs could be the seed as well as an offset."""
    scalars = any(isinstance(o, HostNumber) for o in plan.outputs)
    return scalars and drawn.offset <= drawn.seed < drawn.offset + drawn.increment


def probe_target(places: Placeholders) -> torch.Tensor:
    """Where a capture's probe writes to."""
    return places.tensor(philox.TARGET, (philox.PROBE_ELEMENTS,), (1,), torch.float32)


def draw_into(target: torch.Tensor) -> None:
    """The probe."""
    target.uniform_()


def stand_ins(numbers: Sequence[int]) -> dict[int, torch.Tensor]:
    """CPU scalars to capture with in place of the arguments `numbers`; their value is no real
    one, so that code which reads it is found out by the comparison.
    """
    return {i: torch.tensor(-0x0123_4567_89AB_CDEF - i, dtype=torch.int64) for i in numbers}


def read(
    driver: Driver,
    raw: list[RawNode],
    capture: parameters.Capture,
    target: int,
    fakes: Mapping[int, torch.Tensor],
) -> tuple[list[RawNode], parameters.Capture, Random]:
    """Take the probe out of a capture, and make its kernels take numbers instead of pointers to
    the generator's state. `target` is where the probe writes to, `fakes` are the `stand_ins`.
    """
    index = philox.find_probe(capture.nodes, target)
    probe = philox.read_probe(capture.nodes[index], lambda w: driver.memory_kind(w) == "device")
    handle = raw[index].handle
    raw, capture = without(raw, capture, index)
    numbers = {t.data_ptr(): Block("number", i) for i, t in fakes.items()}
    states = philox.find_states(capture.nodes, probe, numbers)
    _check_handed_on(capture, probe)
    nodes = list(capture.nodes)
    for i in {s.node for s in states}:
        own = [s for s in states if s.node == i]
        fields = philox.as_numbers(nodes[i].fields, own, probe.size)
        params = raw[i].params
        assert isinstance(params, KernelNode)  # a copy has no room for a state
        raw[i] = RawNode(raw[i].handle, replace(params, fields=fields))
        nodes[i] = nodes[i]._replace(fields=fields)
    capture = parameters.Capture(tuple(nodes), capture.edges, capture.blocks)
    return raw, capture, Random(probe, handle, states)


def _check_handed_on(capture: parameters.Capture, probe: philox.Probe) -> None:
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
    """Raise Unprovable unless both captures draw what the ordinary path drew."""
    if first is None or second is None:
        return
    if first.states != second.states or {first.probe.drawn, second.probe.drawn} != {drawn}:
        raise Unprovable(
            f"two captures and the ordinary path drew different amounts of random numbers "
            f"({first.probe.drawn}, {second.probe.drawn} and {drawn} a thread); keep what draws "
            "them out of the compiled region"
        )


def explain_outputs(
    plan: OutputPlan,
    addresses: Mapping[int, int],
    nodes: Sequence[Node],
    random: Random | None,
    drawn: Draws,
) -> OutputPlan:
    """The plan with every CPU scalar explained: the seed or offset of a kernel's state, or
    nothing. `addresses` says where a capture returned each one; `drawn` is what the observed call
    drew.

    Raises Unprovable for a scalar that is something else.
    """
    if not addresses:
        return plan
    explained: list[Output] = []
    for i, spec in enumerate(plan.outputs):
        if isinstance(spec, HostNumber):
            spec = _explain(spec, addresses[i], nodes, random, drawn)
        explained.append(spec)
    return replace(plan, outputs=tuple(explained))


def _explain(
    spec: HostNumber,
    address: int,
    nodes: Sequence[Node],
    random: Random | None,
    drawn: Draws,
) -> Output:
    word = address.to_bytes(WORD, "little")
    users = [i for i, node in enumerate(nodes) if any(word in data for data in node.fields)]
    if not users:
        return Undefined(torch.zeros((), dtype=torch.int64))
    states = [s for s in random.states if s.node in users] if random else []
    if len(users) == 1 and len(states) == 1:
        addend = states[0].intragraph
        found = [
            Drawn(is_seed, addend)
            for is_seed, value in ((True, drawn.seed), (False, drawn.offset + addend))
            if value == spec.value % (1 << 64)
        ]
        if len(found) == 1:
            return found[0]
    raise Unprovable(
        "it returns a CPU scalar that is a GPU tensor under capture, and neither the seed nor the "
        "offset of random numbers; return it outside of the compiled region"
    )


def scalar_address(value: Any) -> int:
    """Where a capture returned what the ordinary path returns as a CPU scalar; 0: on the CPU."""
    return int(value.data_ptr()) if value.device.type != "cpu" and value.dim() == 0 else 0
