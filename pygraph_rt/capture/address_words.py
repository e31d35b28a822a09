"""From the raw parameters of two captures to a patch plan. Pure: bytes and integers in, data out.

The same code is captured twice while nothing of it is executed. Every tensor it is given, and
every output it is told to fill, sits at an address range of its own, in each capture another one;
what it allocates itself comes from two memory pools. A 64-bit word that lies in the range of one
block in the first capture and in the range of the same block, at the same offset, in the second
is a pointer to that block: two independent coincidences are not to be expected. Words are looked
at in steps of 4 bytes, because some packed kernel parameters hold pointers at 4-byte alignment.
Every other word must not be an address of device memory, or the region is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise

from pygraph_rt.errors import Disagreement, Unprovable
from pygraph_rt.plan.graph import STEP, WORD, Capture, Node, Patch, PatchPlan
from pygraph_rt.plan.memory_blocks import AddressMap, Block

Owner = Callable[[int], "str | None"]

LOWER_HALF = (1 << 32) - 1
SMALL = 1 << 24
"""Padding in a parameter structure holds whatever was on the stack, such as the upper half of a
pointer: beside a number below this, it looks like an address just above a multiple of 4 GiB.
"""


def _same_topology(first: Capture, second: Capture) -> None:
    if len(first.nodes) != len(second.nodes):
        raise Unprovable(
            f"two captures of the same code recorded {len(first.nodes)} and {len(second.nodes)} "
            "nodes; "
            "code that launches different work each time cannot be replayed, keep it out of the "
            "compiled region"
        )
    for a, b in zip(first.nodes, second.nodes, strict=True):
        if a.kind != b.kind or a.identity != b.identity:
            raise Unprovable(
                f"two captures of the same code launched different kernels ({a.name} and "
                f"{b.name}); the choice seems to depend on addresses; keep that operator out of "
                "the compiled region"
            )
        if [len(f) for f in a.fields] != [len(f) for f in b.fields]:
            raise Unprovable(
                f"the parameters of {a.name} changed size between two captures; keep that operator "
                "out of the compiled region"
            )
    if first.edges != second.edges:
        raise Unprovable(
            "two captures of the same code ordered their kernels differently; keep what chooses "
            "the order out of the compiled region"
        )


def _unexplained(
    node: Node, address: int, where: str, kind: type[Unprovable] = Unprovable
) -> Unprovable:
    return kind(
        f"{node.kind} {node.name} uses {where} at {address:#x} that is neither an input, an "
        "output, a constant "
        "nor memory it allocated itself; an operator that keeps state of its own looks like this: "
        "pass that state as an argument"
    )


class _Words:
    """What each pair of words, one of each capture, is: looked up once for each pair."""

    def __init__(
        self,
        maps: tuple[AddressMap, AddressMap],
        statics: AddressMap,
        owner: Owner,
        nowhere: Callable[[int], bool],
    ) -> None:
        self._maps, self._statics = maps, statics
        self._owner, self._nowhere = owner, nowhere
        self._known: dict[tuple[int, int], tuple[Block, int] | None] = {}

    def pointer(self, node: Node, pair: tuple[int, int]) -> tuple[Block, int] | None:
        """The block and offset, None for a number; raises Unprovable for any other address."""
        if pair not in self._known:
            found = _pointer(*pair, self._maps)
            if found is None:
                self._check_not_memory(node, *pair)
            self._known[pair] = found
        return self._known[pair]

    def _check_not_memory(self, node: Node, a: int, b: int) -> None:
        """Raise Unprovable when a word that is no known pointer may be an address."""
        if a == b:
            if self._statics.find(a) is not None:
                return
            # Nothing given to one capture is known to the other, so a word that did not move cannot
            # point to it: it is a number that looks like an address. Memory from a pool may have
            # been kept by a library, so that is asked.
            for blocks in self._maps:
                found = blocks.find(a)
                if found is not None and found[0].kind != "pool":
                    return
            foreign = self._owner(a)
            if foreign is not None:
                raise _unexplained(node, a, foreign)
            return
        padding = _is_padding(a, b, self._maps)
        for word, other in ((a, b), (b, a)):
            if not padding and self._is_given(word):
                where = f"memory that the two captures ({a:#x}, {b:#x}) do not agree on"
                raise _unexplained(node, word, where, Disagreement)
            foreign = self._owner(word)
            # A pointer is one in both captures.
            if foreign is not None and (self._is_given(other) or not self._nowhere(other)):
                raise _unexplained(node, word, foreign, Disagreement)

    def _is_given(self, word: int) -> bool:
        """Whether a word is an address of what one of the captures was given, or allocated."""
        return any(blocks.find(word) is not None for blocks in self._maps)


def _words_of(data: bytes) -> list[int]:
    """The words of WORD bytes that begin at each multiple of STEP."""
    halves = struct.unpack_from(f"<{len(data) // STEP}I", data)
    return [low | high << 32 for low, high in pairwise(halves)]


def _field_patches(
    index: int, field: int, node: Node, fields: tuple[bytes, bytes], words: _Words
) -> list[Patch]:
    pairs = list(zip(*map(_words_of, fields), strict=True))
    patches: list[Patch] = []
    place = 0
    while place < len(pairs):
        found = words.pointer(node, pairs[place])
        if found is not None:
            patches.append(Patch(index, field, place * STEP, *found))
        place += 1 if found is None else WORD // STEP
    return patches


def _pointer(a: int, b: int, maps: tuple[AddressMap, AddressMap]) -> tuple[Block, int] | None:
    """The block and offset that both words agree on.

    Pool memory needs no equal offset: the second pool may be laid out differently, and only the
    first capture's layout is ever used.
    """
    left, right = maps[0].find(a), maps[1].find(b)
    if left is None or right is None:
        return None
    if left == right or (left[0].kind == "pool" and right[0].kind == "pool"):
        return left
    return None


def _is_padding(a: int, b: int, maps: tuple[AddressMap, AddressMap]) -> bool:
    """Whether two words are a small number beside padding, which holds the upper half of a host
    pointer, or padding with two of them: the same number, or the same upper half, in both captures,
    and at most pool memory at these addresses, which the driver may have put next to the host's.
    All else is at addresses that were made up.
    """
    numbers = a & LOWER_HALF, b & LOWER_HALF
    same = numbers[0] == numbers[1] or a >> 32 == b >> 32
    found = [blocks.find(word) for blocks in maps for word in (a, b)]
    pools = all(f is None or f[0].kind == "pool" for f in found)
    return same and max(numbers) < SMALL and pools


def patch_plan(
    first: Capture,
    second: Capture,
    statics: AddressMap,
    owner: Owner,
    nowhere: Callable[[int], bool] = lambda word: False,
) -> PatchPlan:
    """Which words of `first` follow which block.

    `statics` are addresses that never move while the plan is in use (constants of the generated
    module). `owner(word)` describes the memory that a word may be an address of ("device
    memory"), or is None for a number. `nowhere(word)`: whether it is surely no address that a GPU
    reads, nor what a pointer to nothing is. Raises Unprovable when the captures differ in more than
    addresses, or when an address cannot be explained; Disagreement when it is not the same in both.
    """
    _same_topology(first, second)
    words = _Words((first.blocks, second.blocks), statics, owner, nowhere)
    patches: list[Patch] = []
    for index, (a, b) in enumerate(zip(first.nodes, second.nodes, strict=True)):
        for field, fields in enumerate(zip(a.fields, b.fields, strict=True)):
            patches += _field_patches(index, field, a, fields, words)
    return PatchPlan(tuple(patches), len(first.nodes))
