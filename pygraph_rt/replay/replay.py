"""One served call: resolve the address of every block, patch, launch, build the outputs.

Nothing is copied. Memory is allocated for each call, and noted among the `addresses`, one for each
block; what moved is patched.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.cuda.native.memory import Helper
from pygraph_rt.interrupts import RLock, release
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.replay_plan import ReplayPlan
from pygraph_rt.replay.conditions import Conditions
from pygraph_rt.replay.disposal import Handles
from pygraph_rt.replay.executable import REINSTANTIATE_AT, Executable
from pygraph_rt.replay.inputs import Input, InputAddresses
from pygraph_rt.replay.launcher import Code, Launcher
from pygraph_rt.replay.platform import Platform
from pygraph_rt.replay.results import Results
from pygraph_rt.replay.weight_sets import LOOK_AT

_ALL_BITS = (1 << 64) - 1
_NEVER = 1 << 62
# Launches until the helper that allocates is asked for again while it is built.
_LOOK_EVERY = 64


class _Where(NamedTuple):
    """Where a call runs, and its arguments go: the stream that is current on the `device`, the only
    one that may be it, the addresses, and (argument, place among the addresses) of numbers.
    """

    stream: Callable[[int], int]
    device: int
    only_stream: int | None
    addresses: array[int]
    numbers: Sequence[tuple[int, int]]


class Replay:
    """One captured graph, ready to be launched at other addresses.

    Calling it returns the outputs, or None when this call is not one it may serve (other values,
    shapes or strides, other global switches, another alignment, another device current, a capture
    of the user's under way): the arguments are untouched then. Raises DriverError when the driver
    refuses, and OutOfMemoryError; after the former the graph must not be used again. When `args` is
    empty then, a part of the work was already launched (see memory/split.py). After any other
    exception, at any moment, the next call is right.

    `conditions` are what a call has to meet; `closed`: the graph's handles are gone.
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
        self.launches = 0
        self.closed = False
        self._lock: Any = RLock()
        self._launcher = launcher = Launcher(plan, executables, code, driver, platform)
        slots, addresses = launcher.slots, launcher.addresses
        numbers = [(i, slots[b]) for i in plan.inputs.numbers if (b := Block("number", i)) in slots]
        launch = plan.launch
        self._where = _Where(platform.stream, launch.device, launch.only_stream, addresses, numbers)
        self._inputs = [
            Input(item.argument, slots[block], item.alignment, item.layout)
            for item in plan.inputs.tensors
            if (block := Block("input", item.argument)) in slots
        ]
        arguments = {item.argument for item in self._inputs}
        self.conditions = Conditions(plan, code.function, platform, arguments)
        stays = [item.argument for item in plan.inputs.tensors if item.stays]
        followed = InputAddresses(self._inputs, stays, addresses, platform)
        self._follow: Callable[[list[Any], array[int]], bool] = followed.follow
        self._results = Results(plan.outputs, launcher.order, platform.reinterpret)
        self._helper: Helper | None = platform.native.memory
        self._upkeep_at = 0
        self._ask_for_helper(len(self._inputs) + 4 * launcher.tensors)

    def _ask_for_helper(self, work: int = 0) -> None:
        """Follow inputs and allocate in compiled code, once there is a helper; `work` is what it
        would do on each call.
        """
        helper = self._helper
        native = helper.ask(work) if helper is not None else None
        if native is not None:
            self._launcher.turn_to(native)
            self._results.make_views = native.Views(tuple(self._results.views))
            self._follow = native.Inputs(tuple(map(tuple, self._inputs)))
        again = _NEVER
        if native is None and helper is not None and helper.open:
            again = self.launches + _LOOK_EVERY
        else:
            self._helper = None
        self._upkeep_at = min(n for n in (*REINSTANTIATE_AT, LOOK_AT, again) if n > self.launches)

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
        current_stream, device, only_stream, addresses, numbers = self._where
        stream = current_stream(device)
        if self.closed or (only_stream is not None and stream != only_stream):
            return None
        if not self._follow(args, addresses):
            return None
        for index, slot in numbers:
            addresses[slot] = args[index].item() & _ALL_BITS
        try:
            made, drawn = self._launcher.launch(args, stream)
            self.launches += 1
            results = self._results.make(args, made, drawn)
        except BaseException:
            self._launcher.forget_memory()
            raise
        args.clear()
        if self.launches >= self._upkeep_at:
            self._keep_up()
        return results

    def _keep_up(self) -> None:
        """What is due after so many launches."""
        if self.launches in REINSTANTIATE_AT:
            self._launcher.reinstantiate()
        if self.launches == LOOK_AT:
            self._launcher.look_for_weight_sets(self.launches)
        self._ask_for_helper()

    # -- what others ask

    @property
    def nodes(self) -> int:
        """Nodes of the captured graph."""
        return self.plan.patches.nodes

    @property
    def held_nodes(self) -> int:
        """Nodes of all its executable graphs."""
        return self._launcher.held_nodes

    @property
    def patched(self) -> int:
        """Node updates so far."""
        return sum(launch.graph.patcher.patched for launch in self._launcher.sub_graphs)

    def may_grow(self, room: Callable[[], int]) -> None:
        """It may have more executables: `room` says for how many nodes there is memory."""
        self._launcher.room = room

    def forget_counts(self) -> None:
        """Count launches and node updates from here on."""
        self.launches = 0
        for launch in self._launcher.sub_graphs:
            launch.graph.patcher.patched = 0

    def let_go(self) -> None:
        """Keep no memory for the next call."""
        with self._lock:
            self._launcher.forget_memory()

    def detach(self) -> list[Handles]:
        """Take the handles out, so that no call can launch them again; in the order in which they
        may be freed.
        """
        with self._lock:
            if self.closed:
                return []
            self.closed = True
            return self._launcher.detach()
