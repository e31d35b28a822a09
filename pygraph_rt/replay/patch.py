"""Patch an executable graph's nodes to its blocks' addresses, and launch it.

There are two ways that do the same: `PythonPatcher` through ctypes, one driver call at a time, and
`NativePatcher`, where all of it is one call into compiled code (cuda/native/launch.c) at a third of
the time for each patched node.

Before `launch(stream)` the caller puts each block's address into `addresses`, integers in the order
of the blocks. `launch` updates the nodes of blocks that moved since the last launch, launches, and
returns the driver's error code; after an error the graph must not be launched again, and `failed`
is the node that the driver refused to update, if that was it. An exception at any moment leaves
what the next launch makes good. `patched` counts node updates.

Several executables of one graph may take turns: each is a target, which `use` chooses in one step.
`current` is the one in use, `target` makes one of an executable that was instantiated with what the
parameters hold, `forget_others` drops all but the one in use.
"""

from __future__ import annotations

import ctypes
import itertools
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.cuda.structures import fields
from pygraph_rt.plan.graph import Patch
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.replay.node_params import NodeTemplates

Updates = Mapping[int, Callable[[], int]]
"""By node, what puts its parameters into an executable graph: returns the driver's error code."""


class Words:
    """The words of one block in the parameters of its nodes."""

    def __init__(self, patches: Sequence[Patch], templates: NodeTemplates) -> None:
        self.nodes = frozenset(p.node for p in patches)
        places = [templates.offset(p.node, p.field, p.offset) for p in patches]
        words = [ctypes.c_uint64.from_address(templates.address + place) for place in places]
        self._words = [(word, p.addend) for word, p in zip(words, patches, strict=True)]

    def write(self, base: int) -> None:
        """Write every word for the block's new address."""
        for word, addend in self._words:
            word.value = base + addend


class _PythonTarget:
    """An executable graph, and what puts parameters into its nodes. written: the addresses that
    they hold; None while nobody knows.
    """

    def __init__(self, executable: int, written: array[int] | None, updates: Updates) -> None:
        self.executable = executable
        self.written = written
        self.updates = updates


class PythonPatcher:
    """One driver call after the other, through ctypes.

    Kept true, also by an exception at any moment: parameters hold the addresses in `_held`; while
    it is None, nobody knows what they hold.
    """

    def __init__(
        self,
        driver: Driver,
        templates: NodeTemplates,
        groups: Mapping[Block, Sequence[Patch]],
        addresses: array[int],
        executable: int,
    ) -> None:
        self._driver = driver
        self._templates = templates
        self._words = [Words(group, templates) for group in groups.values()]
        self.addresses = addresses
        self._held: array[int] | None = array("Q", [0] * len(self._words))
        self.failed: int | None = None
        self.patched = 0
        updates = templates.updates(driver, executable)
        self._target = _PythonTarget(executable, array("Q", self._held), updates)

    def current(self) -> Any:
        """See above."""
        return self._target

    def target(self, executable: int) -> Any:
        """See above."""
        updates = self._templates.updates(self._driver, executable)
        return _PythonTarget(executable, self._held, updates)

    def use(self, target: Any) -> None:
        """See above."""
        self._target = target

    def forget_others(self) -> None:
        """See above."""

    def launch(self, stream: int) -> int:
        """See above."""
        self.failed = None
        target = self._target
        if not self.addresses == target.written == self._held:
            before, target.written = target.written, None
            wanted = array("Q", self.addresses)
            dirty = self._write(wanted, before)
            for node in dirty:
                if code := target.updates[node]():
                    self.failed = node
                    return code
            target.written = wanted
            self.patched += len(dirty)
        return self._driver.launch(target.executable, stream)

    def _write(self, wanted: array[int], before: array[int] | None) -> set[int]:
        """Write the words of blocks whose addresses the parameters do not hold. Returns the nodes
        of blocks that are not where a target's nodes had them `before`.
        """
        held, self._held = self._held, None
        nobody_knows: Any = itertools.repeat(None)
        known = held or nobody_knows, before or nobody_knows
        dirty: set[int] = set()
        for words, now, there, then in zip(self._words, wanted, *known, strict=False):
            if now != there:
                words.write(now)
            if now != then:
                dirty |= words.nodes
        self._held = wanted
        return dirty


class _Target(ctypes.Structure):
    """`struct target` of launch.c."""

    _fields_ = fields(ctypes.c_void_p, "executable written")


class _Table(ctypes.Structure):
    """`struct table` of launch.c; names, order and meaning are its own."""

    _fields_ = [
        *fields(
            ctypes.c_void_p,
            "set_kernel set_copy set_fill launch context target memory wanted held blocks "
            "places addends block_nodes handles parameters kinds stamps queue",
        ),
        *fields(ctypes.c_uint64, "block_count round patched"),
        ("failed", ctypes.c_int64),
    ]


class NativePatcher:
    """All of it as one call into compiled code, which no Python exception can interrupt."""

    def __init__(
        self,
        driver: Driver,
        templates: NodeTemplates,
        groups: Mapping[Block, Sequence[Patch]],
        addresses: array[int],
        executable: int,
        native: Callable[[int, int], int],
    ) -> None:
        """`native` is what `pygraph_rt.cuda.native.load` returns."""
        self._native = native
        self._numbers = list(templates.nodes())
        self._table = table = _Table()
        self._arrays: list[Any] = [templates]
        self._lay_out(templates, groups)
        self.addresses = addresses
        table.wanted = self.addresses.buffer_info()[0]
        self._held = np.zeros(len(groups), np.uint64)
        table.held = int(self._held.ctypes.data)
        table.stamps = self._keep([0] * len(self._numbers), np.uint64)
        table.queue = self._keep([0] * len(self._numbers), np.uint32)
        table.block_count = len(groups)
        table.failed = -1
        table.context = templates.context
        table.set_kernel, table.set_copy, table.set_fill, table.launch = driver.entry_points()
        self._address = ctypes.addressof(table)
        self._targets: dict[int, tuple[_Target, Any]] = {}  # by address, with their arrays
        self.use(self._made(executable, np.zeros(len(groups), np.uint64)))

    def _keep(self, values: Sequence[int], dtype: Any) -> int:
        """Address of an array that lives as long as the table."""
        made = np.asarray(values, dtype=dtype)
        self._arrays.append(made)
        return int(made.ctypes.data)

    def _lay_out(self, templates: NodeTemplates, groups: Mapping[Block, Sequence[Patch]]) -> None:
        table = self._table
        dense = {number: i for i, number in enumerate(self._numbers)}
        updates = [templates.update(number) for number in self._numbers]
        table.kinds = self._keep([kind for kind, _, _ in updates], np.uint32)
        table.handles = self._keep([handle for _, handle, _ in updates], np.uint64)
        table.parameters = self._keep([where for _, _, where in updates], np.uint64)
        table.memory = templates.address
        patches = list(itertools.chain.from_iterable(groups.values()))
        places = [templates.offset(p.node, p.field, p.offset) for p in patches]
        table.places = self._keep(places, np.uint32)
        table.addends = self._keep([p.addend for p in patches], np.int64)
        blocks: list[int] = []
        nodes: list[int] = []
        end_word = 0
        for group in groups.values():
            members = sorted({dense[p.node] for p in group})
            blocks += [end_word, end_word + len(group), len(nodes), len(nodes) + len(members)]
            nodes += members
            end_word += len(group)
        table.blocks = self._keep(blocks, np.uint32)
        table.block_nodes = self._keep(nodes, np.uint32)

    def _made(self, executable: int, written: Any) -> _Target:
        target = _Target(executable, written.ctypes.data)
        self._targets[ctypes.addressof(target)] = target, written
        return target

    def current(self) -> Any:
        """See above."""
        return self._targets[self._table.target][0]

    def target(self, executable: int) -> Any:
        """See above."""
        return self._made(executable, self._held.copy())

    def use(self, target: Any) -> None:
        """See above."""
        self._table.target = ctypes.addressof(target)

    def forget_others(self) -> None:
        """See above."""
        here = self._table.target
        self._targets = {here: self._targets[here]}

    def launch(self, stream: int) -> int:
        """See above."""
        return self._native(self._address, stream)

    @property
    def failed(self) -> int | None:
        """See above."""
        number: int = self._table.failed
        return None if number < 0 else self._numbers[number]

    @property
    def patched(self) -> int:
        """See above."""
        return int(self._table.patched)

    @patched.setter
    def patched(self, value: int) -> None:
        self._table.patched = value


Patcher = PythonPatcher | NativePatcher
