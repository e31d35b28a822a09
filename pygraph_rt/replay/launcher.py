"""The sub-graphs of a replay: allocate, patch and launch them, one after the other."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.errors import DriverError
from pygraph_rt.memory.allocate import Allocator, Needs, PythonAllocator, compiled, needs_of
from pygraph_rt.memory.slabs import SlabMemory
from pygraph_rt.plan.outputs import Allocate
from pygraph_rt.plan.replay_plan import ReplayPlan
from pygraph_rt.replay.disposal import Handles
from pygraph_rt.replay.executable import Executable, ExecutableGraph
from pygraph_rt.replay.platform import Platform
from pygraph_rt.rng.generator import Draw
from pygraph_rt.rng.philox import OFFSET, SEED


class Code(NamedTuple):
    """The generated `function` that was captured, whose kernels have to stay loaded, and its
    allocation function.
    """

    function: Any
    allocate: Allocate


class SubGraphLaunch(NamedTuple):
    """What a sub-graph of so many nodes does on a call: allocate, launch, drop arguments, free
    segments (their places among the addresses).
    """

    graph: ExecutableGraph
    memory: Allocator
    dropped: Sequence[int]
    freed: Sequence[int]
    nodes: int


class _Random(NamedTuple):
    """Where a call's random numbers go: its draw, and the places of seed and offset."""

    draw: Draw
    seed: int | None
    offset: int | None


class Launcher:
    """Launches a graph. addresses: where each block is on this call, in the order of `slots`.
    order: the numbers of storages, as `launch` returns their memory.
    """

    def __init__(
        self,
        plan: ReplayPlan,
        executables: Sequence[Executable],
        code: Code,
        driver: Driver,
        platform: Platform,
    ) -> None:
        """`executables` run the plan's sub-graphs, one each."""
        self.code: Code | None = code
        self.allocate = code.allocate
        storages = plan.outputs.storages
        needs = [needs_of(part, storages, plan.memory.slabs) for part in plan.sub_graphs]
        groups = {block: () for need in needs for block in need.blocks} | plan.patches.by_block()
        self.addresses = array("Q", [0] * len(groups))
        self.slots = {block: slot for slot, block in enumerate(groups)}
        self.sub_graphs: list[SubGraphLaunch] = []
        for part, need, executable in zip(plan.sub_graphs, needs, executables, strict=True):
            own = {b: [p for p in group if p.node in part.nodes] for b, group in groups.items()}
            native = platform.native.launch
            graph = ExecutableGraph(driver, executable, own, self.addresses, native)
            memory = self._allocator(plan, need, platform)
            freed = [self.slots[block] for block in part.freed]
            self.sub_graphs.append(
                SubGraphLaunch(graph, memory, part.dropped, freed, len(part.nodes))
            )
        inside = [k for need in needs for slab in need.slabs for k in slab.storages]
        self._shares = any(need.slabs for need in needs)
        self.order = [*(k for need in needs for k in need.own), *inside]
        self._random = self._draws(plan, platform)
        self._streams = set[int]()  # of launches
        self.room: Callable[[], int] = int  # for how many more nodes there is memory

    def _allocator(self, plan: ReplayPlan, need: Needs, platform: Platform) -> PythonAllocator:
        return PythonAllocator(
            [plan.outputs.storages[k] for k in need.own],
            [plan.memory.segments[block] for block in need.segments],
            [SlabMemory(slab, self.allocate, platform.reinterpret) for slab in need.slabs],
            self.addresses,
            self.slots[need.blocks[0]] if need.blocks else 0,
        )

    def _draws(self, plan: ReplayPlan, platform: Platform) -> _Random | None:
        increment = plan.launch.increment
        if not increment:
            return None
        draw = Draw(platform.generator(plan.launch.device), increment)
        return _Random(draw, self.slots.get(SEED), self.slots.get(OFFSET))

    @property
    def tensors(self) -> int:
        """How many tensors a call makes in Python, or looks at."""
        memories = [launch.memory for launch in self.sub_graphs]
        return sum(memory.tensors for memory in memories if isinstance(memory, PythonAllocator))

    def turn_to(self, native: Any) -> None:
        """Allocate in compiled code from now on."""
        self.sub_graphs = [
            launch._replace(memory=compiled(launch.memory, native, self.allocate))
            for launch in self.sub_graphs
        ]

    def launch(self, args: list[Any], stream: int) -> tuple[list[Any], tuple[int, int]]:
        """Allocate, and launch: (outputs' memory in `order`, (seed, offset)). Raises DriverError,
        and what allocating raises; `args` is empty then if a part was launched.
        """
        addresses, allocate = self.addresses, self.allocate
        # Held until what uses it is queued: from then on the memory may be reused in stream order.
        arena: dict[int, torch.Tensor] = {}
        made: list[Any] = []
        drawn: tuple[int, int] | None = None
        begun = False
        try:
            for graph, memory, dropped, freed, _ in self.sub_graphs:
                own, segments = memory.allocate(stream, allocate)
                made += own
                arena.update(enumerate(segments, memory.first_segment))
                del own, segments  # what is held now is in two places that are cleared
                if drawn is None:
                    drawn = (0, 0) if self._random is None else self._draw(addresses)
                self._streams.add(stream)
                if code := graph.launch(stream):
                    raise DriverError(graph.describe(code))
                begun = True
                for index in dropped:
                    args[index] = None
                for slot in freed:
                    del arena[slot]
            if self._shares:
                for launch in self.sub_graphs:
                    made += launch.memory.outputs()
        except BaseException:
            # The error holds this frame, and compiled code may run while it is handled.
            made.clear()
            arena.clear()
            if begun:
                args.clear()
            elif drawn is not None and self._random is not None:
                self._random.draw.give_back()
            raise
        assert drawn is not None
        return made, drawn

    def _draw(self, addresses: array[int]) -> tuple[int, int]:
        """Draw for this launch: (seed, offset)."""
        assert self._random is not None
        draw, seed_slot, offset_slot = self._random
        seed, offset = draw.draw()
        if seed_slot is not None:
            addresses[seed_slot] = seed
        if offset_slot is not None:
            addresses[offset_slot] = offset
        return seed, offset

    def reinstantiate(self) -> None:
        """Instantiate the graphs again, at the addresses in use."""
        for launch in self.sub_graphs:
            launch.graph.reinstantiate()

    def look_for_weight_sets(self, launches: int) -> None:
        """Find out whether executables for several sets of weights are faster."""
        for launch in self.sub_graphs:
            launch.graph.look_for_weight_sets(launches, partial(self._room_for, launch.nodes))

    def _room_for(self, nodes: int) -> int:
        """For how many more executables of so many nodes there is memory."""
        return self.room() // max(1, nodes)

    @property
    def held_nodes(self) -> int:
        """Nodes of all executables."""
        return sum(launch.graph.executables * launch.nodes for launch in self.sub_graphs)

    def forget_memory(self) -> None:
        """Keep no memory for the next call."""
        for launch in self.sub_graphs:
            launch.memory.forget()

    def detach(self) -> list[Handles]:
        """Take the handles out, in the order in which they may be freed."""
        self.forget_memory()
        code, self.code = self.code, None
        found = []
        for launch in self.sub_graphs:
            executables, graph, templates = launch.graph.detach()
            need = (code, templates)
            found.append(Handles(tuple(executables), graph, need, frozenset(self._streams)))
        return found
