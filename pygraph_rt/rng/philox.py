"""Random numbers under a graph: the same ones as without it.

A kernel that draws random numbers takes a `PhiloxCudaState` (ATen/cuda/PhiloxCudaState.h). On the
ordinary path it holds the generator's seed and offset as numbers; under capture it holds pointers
to where torch keeps them on the GPU, and a flag. A replay needs no pointers: it puts the numbers
of its own call back into the parameters, clears the flag, and moves torch's default generator on
by what the region draws. Parameters belong to one launch, so streams cannot race.

Memory-efficient attention hands its seed and offset on to its backward, as CPU tensors of one
number each on the ordinary path, and under capture as GPU memory that its kernel fills when the
flag is set. Here they stay CPU tensors: the forward returns the numbers it was launched with, the
backward takes them from there.

What torch's pointers are is asked for, not guessed: a *probe*, one kernel that draws into memory
of the runtime's own, is captured after the region's own work, read, and taken out again. It also
tells how far the region moves the generator on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pygraph_rt.errors import Unprovable
from pygraph_rt.plan.graph import STEP, WORD, Node, Patch
from pygraph_rt.plan.memory_blocks import Block

SEED, OFFSET = Block("random", 0), Block("random", 1)
TARGET = Block("random", 2)
PROBE_ELEMENTS = 4

# Size of PhiloxCudaState in bytes: (bytes of the offset within the graph, where the flag is). The
# former is 32 bits wide up to torch 2.12 and 64 bits from then on.
_LAYOUTS = {24: (4, 20), 32: (8, 24)}
_INTRAGRAPH = 2 * WORD


class Probe(NamedTuple):
    """What one capture's probe said: the two addresses, the size of the state in bytes, and by
    how much the work before it moves the generator on.
    """

    seed: int
    offset: int
    size: int
    drawn: int


class State(NamedTuple):
    """A PhiloxCudaState: at byte `place` of field `field` of node `node`; it holds the numbers that
    `seed` and `offset` stand for, with `intragraph` added to the latter.
    """

    node: int
    field: int
    place: int
    seed: Block
    offset: Block
    intragraph: int


def _word(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + WORD], "little")


def _read(data: bytes, place: int, size: int) -> tuple[int, int] | None:
    """(offset within the graph, flag) of a state, or None when it does not fit there."""
    width, flag = _LAYOUTS[size]
    if place + size > len(data):
        return None
    start = place + _INTRAGRAPH
    return int.from_bytes(data[start : start + width], "little"), data[place + flag]


def read_probe(node: Node, is_device: Callable[[int], bool]) -> Probe:
    """Read a probe's state. `is_device(word)`: whether a word is the address of GPU memory.

    Raises Unprovable when the kernel does not look as expected.
    """
    found = []
    for data in node.fields:
        if len(data) not in _LAYOUTS:
            continue
        state = _read(data, 0, len(data))
        seed, offset = _word(data, 0), _word(data, WORD)
        if state and state[1] == 1 and seed != offset and is_device(seed) and is_device(offset):
            found.append(Probe(seed, offset, len(data), state[0]))
    if len(found) != 1:
        raise Unprovable(
            "it draws random numbers, and this torch passes its generator's state to kernels in a "
            "way that pygraph does not know; in evaluation, call .eval() on the model"
        )
    return found[0]


def find_probe(nodes: Sequence[Node], address: int) -> int:
    """Index of the one node that has `address` among its parameters."""
    word = address.to_bytes(WORD, "little")
    found = [i for i, node in enumerate(nodes) if any(word in data for data in node.fields)]
    if len(found) != 1:
        raise Unprovable(
            f"{len(found)} kernels write what one kernel for random numbers should have written; "
            "please report this"
        )
    return found[0]


def find_states(
    nodes: Sequence[Node], probe: Probe, numbers: Mapping[int, Block]
) -> tuple[State, ...]:
    """Every state among the nodes' parameters: of the default generator, or one that a forward
    handed on in CPU tensors, whose addresses are in `numbers`.

    Raises Unprovable for any other use of the generator's memory.
    """
    states: list[State] = []
    addresses = [word.to_bytes(WORD, "little") for word in (probe.seed, probe.offset, *numbers)]
    for index, node in enumerate(nodes):
        for field, data in enumerate(node.fields):
            if any(address in data for address in addresses):
                states += _states_in_field(index, field, node, data, probe, numbers)
    return tuple(states)


def _states_in_field(
    index: int,
    field: int,
    node: Node,
    data: bytes,
    probe: Probe,
    numbers: Mapping[int, Block],
) -> Iterator[State]:
    place = 0
    while place + WORD <= len(data):
        first, second = _word(data, place), _word(data, place + WORD)
        known = _read(data, place, probe.size)
        captured = known is not None and known[1] == 1
        if known and captured and (first, second) == (probe.seed, probe.offset):
            yield State(index, field, place, SEED, OFFSET, known[0])
            place += probe.size
        elif known and captured and first in numbers and second in numbers:
            yield State(index, field, place, numbers[first], numbers[second], known[0])
            place += probe.size
        elif first in (probe.seed, probe.offset):
            raise Unprovable(
                f"{node.kind} {node.name} uses the state of the random number generator in a way "
                "that pygraph does not know; keep that operator out of the compiled region"
            )
        else:
            place += STEP


def points_to_state(data: bytes, size: int, is_memory: Callable[[int], bool]) -> bool:
    """Whether parameters hold a state under capture that is kept in memory that `is_memory`
    knows, as a forward hands it on to its backward: nothing is added to the offset.
    """
    for place in range(0, len(data) - size + 1, STEP):
        both = is_memory(_word(data, place)) and is_memory(_word(data, place + WORD))
        if both and _read(data, place, size) == (0, 1):
            return True
    return False


def as_numbers(fields: Sequence[bytes], states: Sequence[State], size: int) -> tuple[bytes, ...]:
    """A node's fields with its states as the ordinary path would pass them, for seed 0 and a
    generator at offset 0.
    """
    made = [bytearray(data) for data in fields]
    width, flag = _LAYOUTS[size]
    for state in states:
        data, place = made[state.field], state.place
        data[place : place + WORD] = bytes(WORD)
        data[place + WORD : place + _INTRAGRAPH] = state.intragraph.to_bytes(WORD, "little")
        start = place + _INTRAGRAPH
        data[start : start + width] = bytes(width)
        data[place + flag] = 0
    return tuple(bytes(data) for data in made)


def patches(states: Sequence[State]) -> list[Patch]:
    """The words to write on each call: a block's address stands for its number."""
    found: list[Patch] = []
    for state in states:
        found.append(Patch(state.node, state.field, state.place, state.seed, 0))
        where = state.place + WORD
        found.append(Patch(state.node, state.field, where, state.offset, state.intragraph))
    return found
