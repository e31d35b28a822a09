"""One served call: resolve the address of every block, patch, launch, build the outputs.

Nothing is copied. Memory is allocated for each call, and noted among the `addresses`, one for each
block; what moved is patched.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.errors import DriverError
from pygraph_rt.inductor.runner_inlining import picker
from pygraph_rt.interrupts import RLock, release
from pygraph_rt.memory.allocate import Allocator, Needs, PythonAllocator, compiled, needs_of
from pygraph_rt.memory.slabs import SlabMemory
from pygraph_rt.plan.graph import Patch
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Allocate
from pygraph_rt.plan.replay_plan import ReplayPlan
from pygraph_rt.replay.conditions import Conditions
from pygraph_rt.replay.disposal import Handles
from pygraph_rt.replay.executable import REINSTANTIATE_AT, Executable, ExecutableGraph
from pygraph_rt.replay.inputs import Input, InputAddresses
from pygraph_rt.replay.platform import Platform
from pygraph_rt.replay.results import Results
from pygraph_rt.rng.generator import Draw
from pygraph_rt.rng.philox import OFFSET, SEED

_ALL_BITS = (1 << 64) - 1
_NEVER = 1 << 62
# Launches until the helper that allocates is asked for again while it is built.
_LOOK_EVERY = 64


class Code(NamedTuple):
    """The generated `function` that was captured, whose kernels have to stay loaded, and its
    allocation function.
    """

    function: Any
    allocate: Allocate


class _SubGraphLaunch(NamedTuple):
    """What a sub-graph does on a call: allocate, launch, drop arguments, free segments (their
    places among the addresses).
    """

    graph: ExecutableGraph
    memory: Allocator
    dropped: Sequence[int]
    freed: Sequence[int]


class _Random(NamedTuple):
    """Where a call's random numbers go: its draw, and the places of seed and offset."""

    draw: Draw
    seed: int | None
    offset: int | None


class Replay:
    """One captured graph, ready to be launched at other addresses.

    Calling it returns the outputs, or None when this call is not one it may serve (other values,
    other global switches, another alignment, another device current, a capture of the user's under
    way): the arguments are untouched then. Raises DriverError when the driver refuses, and
    OutOfMemoryError; after the former the graph must not be used again. When `args` is empty then,
    a part of the work was already launched (see memory/split.py). After any other exception, at any
    moment, the next call is right.

    `conditions` are what a call has to meet. `integers` are the values of the arguments that are no
    tensors, which `pick_integers` takes out of a call's; `closed`: the graph's handles are gone.
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
        self.plan = plan
        self.integers = tuple(value for _, value in plan.inputs.values)
        self.pick_integers = picker([index for index, _ in plan.inputs.values])
        self.launches = 0
        self.closed = False
        self._platform = platform
        self.conditions = Conditions(plan, code.function, platform)
        self._code: Code | None = code
        self._allocate = code.allocate
        self._device = plan.launch.device
        self._lock: Any = RLock()
        self._only_stream = plan.launch.only_stream
        self._last_stream: int | None = None
        needs = [needs_of(p, plan.outputs.storages, plan.memory.slabs) for p in plan.sub_graphs]
        self._addresses, slots = self._prepare_launches(needs, executables, driver)
        self._random = self._prepare_random(slots)
        self._prepare_inputs(slots)
        inside = [k for need in needs for slab in need.slabs for k in slab.storages]
        self._shares = bool(inside)
        order = [*(k for need in needs for k in need.own), *inside]
        self._results = Results(plan.outputs, order, platform.reinterpret)
        self._upkeep_at = self._look_at = _NEVER
        self._ask_for_helper(len(self._inputs) + 4 * self._tensors())
        self._upkeep_at = min(REINSTANTIATE_AT, self._look_at)

    # -- preparing

    def _prepare_launches(
        self, needs: Sequence[Needs], executables: Sequence[Executable], driver: Driver
    ) -> tuple[array[int], dict[Block, int]]:
        """The addresses of all blocks, and the place of each one."""
        plan, native = self.plan, self._platform.native.launch
        blocks = itertools.chain.from_iterable(need.blocks for need in needs)
        groups: dict[Block, tuple[Patch, ...]] = dict.fromkeys(blocks, ())
        groups.update(plan.patches.by_block())
        addresses = array("Q", [0] * len(groups))
        slots = {block: slot for slot, block in enumerate(groups)}
        self._sub_graphs: list[_SubGraphLaunch] = []
        for part, need, executable in zip(plan.sub_graphs, needs, executables, strict=True):
            own = {b: [p for p in group if p.node in part.nodes] for b, group in groups.items()}
            graph = ExecutableGraph(driver, executable, own, addresses, native)
            memory = self._allocator(need, addresses, slots)
            freed = [slots[block] for block in part.freed]
            self._sub_graphs.append(_SubGraphLaunch(graph, memory, part.dropped, freed))
        return addresses, slots

    def _allocator(
        self, need: Needs, addresses: array[int], slots: Mapping[Block, int]
    ) -> PythonAllocator:
        reinterpret = self._platform.reinterpret
        return PythonAllocator(
            [self.plan.outputs.storages[k] for k in need.own],
            [self.plan.memory.segments[block] for block in need.segments],
            [SlabMemory(slab, self._allocate, reinterpret) for slab in need.slabs],
            addresses,
            slots[need.blocks[0]] if need.blocks else 0,
        )

    def _prepare_random(self, slots: Mapping[Block, int]) -> _Random | None:
        increment = self.plan.launch.increment
        if not increment:
            return None
        draw = Draw(self._platform.generator(self._device), increment)
        return _Random(draw, slots.get(SEED), slots.get(OFFSET))

    def _prepare_inputs(self, slots: Mapping[Block, int]) -> None:
        inputs = self.plan.inputs
        self._numbers = [
            (i, slots[block]) for i in inputs.numbers if (block := Block("number", i)) in slots
        ]
        self._inputs = [
            Input(item.argument, slots[block], item.alignment)
            for item in inputs.tensors
            if (block := Block("input", item.argument)) in slots
        ]
        stays = [item.argument for item in inputs.tensors if item.stays]
        followed = InputAddresses(self._inputs, stays, self._addresses, self._platform)
        self._follow: Callable[[list[Any], array[int]], bool] = followed.follow

    # -- the compiled helper

    def _tensors(self) -> int:
        memories = [launch.memory for launch in self._sub_graphs]
        return sum(memory.tensors for memory in memories if isinstance(memory, PythonAllocator))

    def _ask_for_helper(self, work: int = 0) -> None:
        """Follow inputs, allocate and compare switches in compiled code, once there is a helper;
        `work` is what it would do on each call.
        """
        helper = self._platform.native.memory
        self._look_at = _NEVER
        if helper is None:
            return
        native = helper.ask(work)
        if native is not None:
            self._sub_graphs = [
                launch._replace(memory=compiled(launch.memory, native, self._allocate))
                for launch in self._sub_graphs
            ]
            self._results.make_views = native.Views(tuple(self._results.views))
            self._follow = native.Inputs(tuple(map(tuple, self._inputs)))
            if self._code is not None:
                self.conditions.watch(self._code.function, native)
        elif helper.open:
            self._look_at = self.launches + _LOOK_EVERY

    # -- a call

    def __call__(self, args: list[Any]) -> tuple[Any, ...] | None:
        """Serve one call; see the class. `args` is emptied when the call was served."""
        if not self.conditions.hold(args):
            return None
        lock = self._lock
        if lock._is_owned():  # a signal handler, or a finalizer, in the middle of a call
            return None
        try:
            with lock:
                return self._serve(args)
        except BaseException:
            release(lock)
            raise

    def _serve(self, args: list[Any]) -> tuple[Any, ...] | None:
        stream = self._platform.stream(self._device)
        if self.closed or (self._only_stream is not None and stream != self._only_stream):
            return None
        addresses = self._addresses
        if not self._follow(args, addresses):
            return None
        for index, slot in self._numbers:
            addresses[slot] = args[index].item() & _ALL_BITS
        try:
            made, drawn = self._launch(args, stream)
            self.launches += 1
            if self._shares:
                for launch in self._sub_graphs:
                    made += launch.memory.outputs()
            results = self._results.make(args, made, drawn)
        except BaseException:
            self._forget_memory()
            raise
        args.clear()
        if self.launches >= self._upkeep_at:
            self._upkeep()
        return results

    def _launch(self, args: list[Any], stream: int) -> tuple[list[Any], tuple[int, int]]:
        """Allocate, and launch: (outputs' memory in the order of making, without those in slabs,
        (seed, offset)).
        """
        addresses, allocate = self._addresses, self._allocate
        # Held until what uses it is queued: from then on the memory may be reused in stream order.
        arena: dict[int, torch.Tensor] = {}
        made: list[Any] = []
        drawn: tuple[int, int] | None = None
        begun = False
        try:
            for graph, memory, dropped, freed in self._sub_graphs:
                own, segments = memory.allocate(stream, allocate)
                made += own
                arena.update(enumerate(segments, memory.first_segment))
                del own, segments  # what is held now is in two places that are cleared
                if drawn is None:
                    drawn = (0, 0) if self._random is None else self._draw(addresses)
                self._last_stream = stream
                if code := graph.launch(stream):
                    raise DriverError(graph.describe(code))
                begun = True
                for index in dropped:
                    args[index] = None
                for slot in freed:
                    del arena[slot]
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

    def _upkeep(self) -> None:
        """What is done after some launches: instantiate again, look for the helper."""
        if self.launches == REINSTANTIATE_AT:
            for launch in self._sub_graphs:
                launch.graph.reinstantiate()
        if self.launches >= self._look_at:
            self._ask_for_helper()
        first = REINSTANTIATE_AT if self.launches < REINSTANTIATE_AT else _NEVER
        self._upkeep_at = min(first, self._look_at)

    # -- what others ask

    @property
    def nodes(self) -> int:
        """Nodes of the captured graph."""
        return self.plan.patches.nodes

    @property
    def arguments(self) -> int:
        """How many arguments a call has."""
        return len(self.plan.inputs.tensors) + len(self.plan.inputs.values)

    @property
    def patched(self) -> int:
        """Node updates so far."""
        return sum(launch.graph.patcher.patched for launch in self._sub_graphs)

    def forget_counts(self) -> None:
        """Count launches and node updates from here on."""
        self.launches = 0
        for launch in self._sub_graphs:
            launch.graph.patcher.patched = 0

    def _forget_memory(self) -> None:
        for launch in self._sub_graphs:
            launch.memory.forget()

    def let_go(self) -> None:
        """Keep no memory for the next call."""
        with self._lock:
            self._forget_memory()

    def detach(self) -> list[Handles]:
        """Take the handles out, so that no call can launch them again; in the order in which they
        may be freed.
        """
        with self._lock:
            if self.closed:
                return []
            self.closed = True
            self._forget_memory()
            code, self._code = self._code, None
            found = []
            for launch in self._sub_graphs:
                executables, graph, templates = launch.graph.detach()
                need = (code, templates)
                found.append(Handles(tuple(executables), graph, need, self._last_stream))
            return found
