"""The hot path: tell where everything is on this call, launch, hand out the outputs.

A served call takes memory for the arena and the outputs, notes the address of each block, and
leaves it to the submission to write the words of blocks that moved, update the nodes that hold
them, and launch; nothing is copied.
"""

from __future__ import annotations

import itertools
import math
import threading
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.capture.diff import Block, Patch, PatchPlan
from pygraph_rt.capture.output_plan import (
    Allocate,
    Drawn,
    Fixed,
    Fresh,
    OfInput,
    Output,
    OutputPlan,
    Sizes,
    Undefined,
)
from pygraph_rt.cuda.driver import Driver
from pygraph_rt.cuda.native.memory import Helper
from pygraph_rt.errors import DriverError
from pygraph_rt.inductor.runner_inlining import picker
from pygraph_rt.memory.allocate import PythonTaking, Taking, Wanted, compiled, wanted
from pygraph_rt.memory.arena import most_taken
from pygraph_rt.memory.output_pool import Memory, Sharing
from pygraph_rt.memory.split import Part
from pygraph_rt.replay.disposal import Handles
from pygraph_rt.replay.executable import Executable, Stage
from pygraph_rt.rng.philox import OFFSET, SEED, Draw, Generator

CLASS_MASK = 255
_ALL_BITS = (1 << 64) - 1
_NOTHING = Sharing()
_NEVER = 1 << 62
# Launches until the helper that takes memory is asked for again while it is built.
_LOOK_EVERY = 64


def alignment_class(address: int) -> int:
    """Largest power of two up to 256 that divides an address: library kernels are chosen by it."""
    return min(256, address & -address) if address else 256


class MovingInput(NamedTuple):
    """An input whose address is compared on each call: which argument, its block's place
    among the addresses, its alignment class at capture.
    """

    argument: int
    slot: int
    align: int


class _Step(NamedTuple):
    """A `Part` with its stage: how it takes `memory`, arguments to drop, and places of segments to
    let go of afterwards.
    """

    stage: Stage
    memory: Taking
    dropped: Sequence[int]
    returned: Sequence[int]


class Platform:
    """The few questions to torch that a served call asks; the tests answer them without a GPU.

    `native` is the compiled helper (`pygraph_rt.cuda.native.load`), or None, and `memory` the one
    that follows inputs and takes memory; `generator(device)` torch's default generator for a GPU;
    `state_of` and `watch_state` are those of `pygraph_rt.cuda.global_flags`.
    """

    def __init__(
        self,
        state_of: Callable[[Any], Callable[[], Hashable]],
        capturing: Callable[[], bool],
        device: Callable[[], int],
        stream: Callable[[int], int],
        same_addresses: Callable[[list[Any], list[Any], list[int]], bool],
        reinterpret: Callable[..., torch.Tensor],
        generator: Callable[[int], Generator],
        native: Any = None,
        memory: Helper | None = None,
        watch_state: Callable[[Any, Any], Callable[[], bool]] | None = None,
    ) -> None:
        self.native = native
        self.memory = memory
        self.watch_state = watch_state
        self.generator = generator
        self.state_of = state_of
        self.capturing = capturing
        self.device = device
        self.stream = stream
        self.same_addresses = same_addresses
        self.reinterpret = reinterpret


def same_addresses(tensors: list[Any], addresses: list[Any], indices: list[int]) -> bool:
    """Whether the tensors at `indices` are where `addresses` says (the C++ helper's meaning, in
    Python).
    """
    return all(tensors[i].data_ptr() == addresses[i] for i in indices)


def _unknown() -> bool:
    return False


def _is_view(output: Output) -> bool:
    """Whether an output is a view that has to be made."""
    if isinstance(output, Fresh):
        return not output.whole
    return isinstance(output, OfInput) and not output.same


class Replay:
    """One captured graph, ready to be launched with other addresses.

    Calling it returns the outputs, or None when this call is not one it may serve (other
    integers, other global switches, a weaker alignment, another device current, a capture of the
    user's under way): the arguments are untouched then. Raises DriverError when the driver
    refuses, and OutOfMemoryError; after the former the graph must not be used again. When `args`
    is empty then, a part of the work was already launched (see memory/split.py). `only_stream`,
    when set, is the one stream that the graph may be launched on. `integers` are the values of the
    arguments that are no tensors, which `pick_integers` takes out of a call's; `arguments` how many
    there are in all; `closed`: the graph's handles are gone.
    """

    def __init__(
        self,
        driver: Driver,
        platform: Platform,
        executables: Sequence[Executable],
        parts: Sequence[Part],
        plan: PatchPlan,
        outputs: OutputPlan,
        chunks: dict[Block, int],
        inputs: dict[int, tuple[int, bool]],
        scalars: Sequence[tuple[int, Any]],
        allocate: Allocate,
        shapes: Sequence[tuple[int, Any, Any]],
        device: int,
        keep: Any,
        draw: Draw | None = None,
        numbers: Sequence[int] = (),
        sharing: Sharing = _NOTHING,
    ) -> None:
        """`executables` run the `parts` of the graph, one each; `inputs` maps an argument's index
        to (alignment class at capture, whether it stayed put so far); `scalars` are the other
        arguments' (index, value); `shapes` the (index, size, strides) of tensors that have to be
        compared on each call; `keep` is the function that was captured, whose kernels have to stay
        loaded; `draw` takes a launch's random numbers; `numbers` are arguments that hold one, on
        the CPU; `sharing` says which outputs share memory.
        """
        self._platform = platform
        self._outputs = outputs
        self._scalars = list(scalars)
        # 0.0 and -0.0 are equal.
        self._zeros = [
            (i, math.copysign(1.0, v)) for i, v in scalars if v == 0.0 and type(v) is float
        ]
        self.integers = tuple(value for _, value in scalars)
        self.pick_integers = picker([index for index, _ in scalars])
        self._allocate = allocate
        self._shapes = list(shapes)
        self._device = device
        self._keep = keep
        self._read_state = platform.state_of(keep)
        self._state = self._read_state()
        # Whether the state is known to be that one, at less cost than to read it.
        self._same_state: Callable[[], bool] = _unknown
        self.only_stream: int | None = None
        self._lock = threading.Lock()
        self.nodes = plan.nodes
        self.words = len(plan.patches)
        self.parts = len(parts)
        self.arena_bytes = most_taken(parts, {**chunks, **dict.fromkeys(sharing.kept, 0)})
        self.arguments = len(inputs) + len(scalars)
        self.launches = 0
        self.closed = False
        needs = [wanted(part, outputs.storages, sharing) for part in parts]
        blocks = itertools.chain.from_iterable(need.blocks for need in needs)
        groups: dict[Block, tuple[Patch, ...]] = dict.fromkeys(blocks, ())
        groups.update(plan.by_block())
        self._addresses = array("Q", [0] * len(groups))
        self._stages = [
            Stage(driver, e, p.nodes, groups, self._addresses, platform.native)
            for e, p in zip(executables, parts, strict=True)
        ]
        self._uncounted = 0
        self._follow: Callable[[list[Any], array[int]], bool] = self._follow_in_python
        self._make_views: Callable[..., list[torch.Tensor]] = self._views_in_python
        slots = {block: slot for slot, block in enumerate(groups)}
        takings = [self._taking(need, chunks, slots) for need in needs]
        tensors = sum(taking.tensors for taking in takings)
        self._steps = [
            _Step(stage, taking, part.dropped, [slots[block] for block in part.returned])
            for stage, taking, part in zip(self._stages, takings, parts, strict=True)
        ]
        self._draw = draw
        self._random = (slots.get(SEED), slots.get(OFFSET))
        self._numbers = [
            (i, slots[block]) for i in numbers if (block := Block("number", i)) in slots
        ]
        self._returned = [o for o in outputs.outputs if isinstance(o, Drawn)]
        self._prepare_inputs(inputs, slots)
        inside = [k for need in needs for slab in need.slabs for k in slab.storages]
        self._shares = bool(inside)
        self._prepare_results([*(k for need in needs for k in need.own), *inside])
        self._look_for_helper(len(self._all) + 4 * tensors)
        self._settle_at = min(self._stages[0].settle_at, self._look_at)

    def _taking(
        self, need: Wanted, chunks: Mapping[Block, int], slots: Mapping[Block, int]
    ) -> PythonTaking:
        reinterpret = self._platform.reinterpret
        return PythonTaking(
            [self._outputs.storages[k] for k in need.own],
            [chunks[block] for block in need.segments],
            [Memory(slab, self._allocate, reinterpret) for slab in need.slabs],
            self._addresses,
            slots[need.blocks[0]] if need.blocks else 0,
        )

    def _look_for_helper(self, work: int = 0) -> None:
        """Follow inputs, take memory and compare switches in compiled code, once there is a
        helper; `work` is what it would do on each call.
        """
        helper = self._platform.memory
        self._look_at = _NEVER
        if helper is None:
            return
        native = helper.ask(work)
        if native is not None:
            self._steps = [
                step._replace(memory=compiled(step.memory, native, self._allocate))
                for step in self._steps
            ]
            self._make_views = native.Views(tuple(self._views))
            self._follow = native.Inputs(tuple(map(tuple, self._all.values())))
            self._watch_state(native)
        elif helper.open:
            self._look_at = self.launches + _LOOK_EVERY

    def _watch_state(self, native: Any) -> None:
        if self._platform.watch_state is not None:
            same = self._platform.watch_state(self._keep, native)
            # Read again, because it may have changed meanwhile.
            if self._read_state() == self._state:
                self._same_state = same

    def _prepare_inputs(self, inputs: dict[int, tuple[int, bool]], slots: dict[Block, int]) -> None:
        self._all: dict[int, MovingInput] = {}
        still: list[int] = []
        for index, (align, stays) in inputs.items():
            slot = slots.get(Block("input", index))
            if slot is None:
                continue
            self._all[index] = MovingInput(index, slot, align)
            if stays:
                still.append(index)
        room = max(inputs, default=-1) + 1
        self._still_addresses: list[Any] = [0] * room
        self._still = still
        self._moving = [m for i, m in self._all.items() if i not in set(still)]
        self._moving_arguments = [m.argument for m in self._moving]
        self._known: list[int | None] = [None] * len(self._moving)

    def _follow_in_python(self, args: list[Any], _: array[int]) -> bool:
        """Write the addresses of inputs that moved; False where one is aligned in another way than
        at capture.
        """
        if (
            self._still
            and not self._platform.same_addresses(args, self._still_addresses, self._still)
            and not self._follow_still(args)
        ):
            return False
        now: list[Any] = [args[i].data_ptr() for i in self._moving_arguments]
        return now == self._known or self._follow_moving(now)

    def _follow_still(self, args: list[Any]) -> bool:
        """Follow inputs that had stayed put until now; those that move from here on are compared
        one by one.
        """
        changed = [
            (index, address)
            for index in self._still
            if (address := args[index].data_ptr()) != self._still_addresses[index]
        ]
        if any(alignment_class(address) != self._all[i].align for i, address in changed):
            return False
        for index, address in changed:
            item = self._all[index]
            if self._still_addresses[index]:
                self._moving.append(item)
                self._moving_arguments.append(index)
                self._known.append(address)
            self._still_addresses[index] = address
            self._addresses[item.slot] = address
        moving = set(self._moving_arguments)
        self._still = [i for i in self._still if i not in moving]
        return True

    def _follow_moving(self, now: list[Any]) -> bool:
        """Follow the inputs that are not where they were on the last call; False where one is
        aligned in another way than at capture.
        """
        known = self._known
        for i, address in enumerate(now):
            if address != known[i]:
                _, slot, align = self._moving[i]
                if (address & CLASS_MASK or align != 256) and alignment_class(address) != align:
                    self._known = [None] * len(known)  # some addresses are new already
                    return False
                self._addresses[slot] = address
        self._known = now
        return True

    def __call__(self, args: list[Any]) -> tuple[Any, ...] | None:
        """Serve one call; see the class. `args` is emptied when the call was served."""
        platform = self._platform
        if (
            platform.capturing()
            or platform.device() != self._device
            or not (self._same_state() or self._read_state() == self._state)
        ):
            return None
        for index, value in self._scalars:
            if args[index] != value:
                return None
        for index, sign in self._zeros:
            if math.copysign(1.0, args[index]) != sign:
                return None
        for index, size, stride in self._shapes:
            if args[index].shape != size or args[index].stride() != stride:
                return None
        with self._lock:
            return self._serve(args, platform)

    def _serve(self, args: list[Any], platform: Platform) -> tuple[Any, ...] | None:
        stream = platform.stream(self._device)
        if self.closed or (self.only_stream is not None and stream != self.only_stream):
            return None
        addresses = self._addresses
        if not self._follow(args, addresses):
            return None
        for index, slot in self._numbers:
            addresses[slot] = args[index].item() & _ALL_BITS
        made, drawn = self._launch(args, stream)
        self.launches += 1
        if self._shares:
            for step in self._steps:
                made += step.memory.outputs()
        results = self._results(args, made, drawn)
        args.clear()
        if self.launches >= self._settle_at:
            self._settle()
        return results

    def _launch(self, args: list[Any], stream: int) -> tuple[list[Any], tuple[int, int]]:
        """Take memory, and launch: (outputs' memory in the order of making, without those in slabs,
        (seed, offset)).
        """
        addresses, allocate = self._addresses, self._allocate
        # Held until what uses it is queued: from then on the memory may be reused in stream order.
        arena: dict[int, torch.Tensor] = {}
        made: list[Any] = []
        drawn: tuple[int, int] | None = None
        begun = False
        try:
            for stage, memory, dropped, returned in self._steps:
                own, segments = memory.take(stream, allocate)
                made += own
                arena.update(enumerate(segments, memory.segments))
                del own, segments  # what is held now is in two places that are cleared
                if drawn is None:
                    drawn = self._take(addresses) if self._draw is not None else (0, 0)
                if code := stage.launch(stream):
                    raise DriverError(stage.describe(code))
                begun = True
                for index in dropped:
                    args[index] = None
                for slot in returned:
                    del arena[slot]
        except (DriverError, torch.OutOfMemoryError):
            # The error holds this frame, and the ordinary path may run while it is handled.
            made.clear()
            arena.clear()
            self._forget_memory()
            if begun:
                args.clear()
            elif drawn is not None and self._draw is not None:
                self._draw.give_back()
            raise
        assert drawn is not None
        return made, drawn

    def _take(self, addresses: array[int]) -> tuple[int, int]:
        """Draw for this launch: (seed, offset)."""
        assert self._draw is not None
        drawn = self._draw.take()
        for slot, number in zip(self._random, drawn, strict=True):
            if slot is not None:
                addresses[slot] = number
        return drawn

    def _settle(self) -> None:
        for stage in self._stages:
            if self.launches >= stage.settle_at:
                stage.settle(self.launches)
        if self.launches >= self._look_at:
            self._look_for_helper()
        self._settle_at = min(self._look_at, *(stage.settle_at for stage in self._stages))

    @property
    def patched(self) -> int:
        """Node updates so far."""
        return sum(stage.submission.patched for stage in self._stages) - self._uncounted

    def forget_counts(self) -> None:
        """Count launches and node updates from here on."""
        self.launches, self._uncounted = 0, self._uncounted + self.patched

    def _prepare_results(self, order: Sequence[int]) -> None:
        """Say where each output is in a list of the outputs' memory in the `order` of making,
        constants, views, CPU scalars and arguments.
        """
        outputs, storages = self._outputs.outputs, len(self._outputs.storages)
        made = {number: place for place, number in enumerate(order)}
        self._constants = [o.value for o in outputs if isinstance(o, (Fixed, Undefined))]
        # Of memory (0) or of an argument (1): which one, and the view of it.
        self._views: list[tuple[int, int, Sizes, Sizes, int]] = []
        views = [o for o in outputs if _is_view(o)]
        first_view = storages + len(self._constants)
        first_drawn = first_view + len(views)
        first_argument = first_drawn + len(self._returned)
        constants, drawn = itertools.count(storages), itertools.count(first_drawn)
        places = []
        for spec in outputs:
            if isinstance(spec, (Fixed, Undefined)):
                places.append(next(constants))
            elif isinstance(spec, Drawn):
                places.append(next(drawn))
            elif _is_view(spec):
                places.append(first_view + len(self._views))
                index = made[spec.storage] if isinstance(spec, Fresh) else spec.index
                kind = int(isinstance(spec, OfInput))
                self._views.append((kind, index, spec.size, spec.stride, spec.offset))
            else:
                places.append(
                    made[spec.storage] if isinstance(spec, Fresh) else first_argument + spec.index
                )
        self._pick = picker(places)

    def _views_in_python(self, *sources: list[Any]) -> list[torch.Tensor]:
        reinterpret = self._platform.reinterpret
        return [reinterpret(sources[kind][i], *view) for kind, i, *view in self._views]

    def _results(
        self, args: list[Any], made: list[torch.Tensor], drawn: tuple[int, int]
    ) -> tuple[Any, ...]:
        pool = [*made, *self._constants, *self._make_views(made, args)]
        if self._returned:
            pool.extend(self._host_numbers(drawn))
        pool.extend(args)
        return self._pick(pool)

    def _host_numbers(self, drawn: tuple[int, int]) -> Iterator[torch.Tensor]:
        """The CPU scalars among the outputs, in order; they share one piece of memory."""
        seed, offset = drawn
        seed = seed - (1 << 64) if seed >> 63 else seed
        values = [seed if spec.seed else offset + spec.addend for spec in self._returned]
        whole = torch.tensor(values, dtype=torch.int64)
        for i in range(len(values)):
            yield self._platform.reinterpret(whole, (), (), i)

    def _forget_memory(self) -> None:
        for step in self._steps:
            step.memory.forget()

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
            keep, self._keep = self._keep, None
            return [stage.detach(keep) for stage in self._stages]
