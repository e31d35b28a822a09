"""The hot path: tell where everything is on this call, launch, hand out the outputs.

A served call takes memory for the arena and the outputs, notes the address of each block, and
leaves it to the submission to write the words of blocks that moved, update the nodes that hold
them, and launch; nothing is copied.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, MutableSequence, Sequence
from typing import Any, NamedTuple, NoReturn

import torch

from .disposal import Handles
from .driver import Driver
from .errors import DriverError
from .outputs import Allocate, Drawn, Fixed, Fresh, OfInput, OutputPlan, Undefined
from .parameters import Block, PatchPlan
from .philox import OFFSET, SEED, Draw, Generator
from .submission import make_submission
from .templates import NodeTemplates

CLASS_MASK = 255
_ALL_BITS = (1 << 64) - 1
_FIRST_WINDOW = 2
_WINDOW_GROWTH = 4
_WORTH_SETTLING = 4


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


class Platform:
    """The few questions to torch that a served call asks; the tests answer them without a GPU.

    `native` is the compiled helper (`pygraph_rt.native.load`), or None; `generator(device)` torch's
    default generator for a GPU.
    """

    def __init__(
        self,
        state: Callable[[], Hashable],
        capturing: Callable[[], bool],
        device: Callable[[], int],
        stream: Callable[[int], int],
        same_addresses: Callable[[list[Any], list[Any], list[int]], bool],
        reinterpret: Callable[..., torch.Tensor],
        generator: Callable[[int], Generator],
        native: Any = None,
    ) -> None:
        self.native = native
        self.generator = generator
        self.state = state
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


class Replay:
    """One captured graph, ready to be launched with other addresses.

    Calling it returns the outputs, or None when this call is not one it may serve (other
    integers, other global switches, a weaker alignment, another device current, a capture of the
    user's under way): the arguments are untouched then. Raises DriverError when the driver
    refuses; the graph must not be used again after that. `only_stream`, when set, is the one
    stream that the graph may be launched on. `integers` are the values of the arguments that are
    no tensors.
    """

    def __init__(
        self,
        driver: Driver,
        platform: Platform,
        executable: int,
        graph: int,
        templates: NodeTemplates,
        plan: PatchPlan,
        outputs: OutputPlan,
        chunks: dict[Block, int],
        inputs: dict[int, tuple[int, bool]],
        scalars: Sequence[tuple[int, Any]],
        allocate: Allocate,
        shapes: Sequence[tuple[int, Any, Any]],
        device: int,
        keep: Any,
        discard: Callable[[Handles], None],
        draw: Draw | None = None,
        numbers: Sequence[int] = (),
    ) -> None:
        """`inputs` maps an argument's index to (alignment class at capture, whether it stayed put
        so far); `scalars` are the other arguments' (index, value); `shapes` the (index, size,
        strides) of tensors that have to be compared on each call; `keep` is whatever the kernels
        need to stay loaded; `discard` takes handles that the GPU may still be using; `draw` takes a
        launch's random numbers; `numbers` are arguments that hold one, on the CPU.
        """
        self._driver = driver
        self._platform = platform
        self._executable = executable
        self._graph = graph
        self._templates = templates
        self._outputs = outputs
        self._scalars = list(scalars)
        self.integers = tuple(value for _, value in scalars)
        self._allocate = allocate
        self._shapes = list(shapes)
        self._device = device
        self._keep = keep
        self._state = platform.state()
        self.only_stream: int | None = None
        self._lock = threading.Lock()
        self.nodes = plan.nodes
        self.words = len(plan.patches)
        self.arena_bytes = sum(chunks.values())
        self.launches = 0
        groups = plan.by_block()
        self._submission = make_submission(driver, templates, groups, executable, platform.native)
        slots = {block: slot for slot, block in enumerate(groups)}
        self._chunks = [(slots[block], (size,)) for block, size in chunks.items()]
        self._fresh = [
            (slots.get(Block("output", i)), s.size, s.stride, s.dtype)
            for i, s in enumerate(outputs.storages)
        ]
        self._discard = discard
        self._draw = draw
        self._random = (slots.get(SEED), slots.get(OFFSET))
        self._numbers = [
            (i, slots[block]) for i in numbers if (block := Block("number", i)) in slots
        ]
        self._returned = [o for o in outputs.outputs if isinstance(o, Drawn)]
        # Nodes updated since the executable was made, before and in the current window of launches.
        self._loose: set[int] = set()
        self._window_start = 0
        self._settle_at = _FIRST_WINDOW
        self._window = _FIRST_WINDOW
        self._prepare_inputs(inputs, slots)

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
            self._still_addresses[index] = address
            self._submission.addresses[item.slot] = address
        moving = {m.argument for m in self._moving}
        self._still = [i for i in self._still if i not in moving]
        return True

    def __call__(self, args: list[Any]) -> tuple[Any, ...] | None:
        """Serve one call; see the class. `args` is emptied when the call was served."""
        platform = self._platform
        if (
            platform.capturing()
            or platform.device() != self._device
            or platform.state() != self._state
        ):
            return None
        for index, value in self._scalars:
            if args[index] != value:
                return None
        for index, size, stride in self._shapes:
            if args[index].shape != size or args[index].stride() != stride:
                return None
        with self._lock:
            return self._serve(args, platform)

    def _serve(self, args: list[Any], platform: Platform) -> tuple[Any, ...] | None:
        stream = platform.stream(self._device)
        if not self._executable or (self.only_stream is not None and stream != self.only_stream):
            return None
        if (
            self._still
            and not platform.same_addresses(args, self._still_addresses, self._still)
            and not self._follow_still(args)
        ):
            return None
        addresses = self._submission.addresses
        for index, slot, align in self._moving:
            address = args[index].data_ptr()
            if address != addresses[slot]:
                if (address & CLASS_MASK or align != 256) and alignment_class(address) != align:
                    return None
                addresses[slot] = address
        # Held until the launch is queued: from then on the memory may be reused in stream order.
        arena = []
        allocate = self._allocate
        for slot, size in self._chunks:
            chunk = allocate(size, (1,), torch.uint8)
            arena.append(chunk)
            addresses[slot] = chunk.data_ptr()
        made = []
        for place, shape, stride, dtype in self._fresh:
            tensor = allocate(shape, stride, dtype)
            made.append(tensor)
            if place is not None:
                addresses[place] = tensor.data_ptr()
        for index, slot in self._numbers:
            addresses[slot] = args[index].item() & _ALL_BITS
        drawn = self._take(addresses) if self._draw is not None else (0, 0)
        code = self._submission.launch(stream)
        if code:
            self._raise(code)
        self.launches += 1
        results = self._results(args, made, drawn)
        args.clear()
        if self.launches >= self._settle_at:
            self._settle_nodes()
        return results

    def _take(self, addresses: MutableSequence[int]) -> tuple[int, int]:
        """Draw for this launch: (seed, offset)."""
        assert self._draw is not None
        drawn = self._draw.take()
        for slot, number in zip(self._random, drawn, strict=True):
            if slot is not None:
                addresses[slot] = number
        return drawn

    def _raise(self, code: int) -> NoReturn:
        if self._draw is not None:
            self._draw.give_back()
        error = self._driver.describe(code)
        node = self._submission.failed
        if node is None:
            raise DriverError(f"cuGraphLaunch failed with {error}")
        raise DriverError(f"{self._templates.describe(node)} could not be updated: {error}")

    @property
    def patched(self) -> int:
        """Node updates so far."""
        return self._submission.patched

    @patched.setter
    def patched(self, value: int) -> None:
        self._submission.patched = value

    def _settle_nodes(self) -> None:
        """Make a new executable when many nodes hold addresses that no longer change.

        An executable made at the addresses of the capture runs each kernel about a third of a
        microsecond slower than one made at the addresses in use (H200, driver 580). Windows of
        launches grow, so that this happens a few times at most.
        """
        touched = self._submission.touched_since(self._window_start)
        rested = self._loose - touched
        if self.launches == _FIRST_WINDOW:
            rested = touched  # the first executable was made at addresses of the capture
        self._loose |= touched
        self._window_start = self._submission.mark()
        self._window *= _WINDOW_GROWTH
        self._settle_at = self.launches + self._window
        if len(rested) < _WORTH_SETTLING:
            return
        try:
            for node in self._loose:
                self._templates.store(node, self._driver)
            executable = self._driver.instantiate(self._graph)
        except DriverError:  # the executable in use stays right, only slower
            self._settle_at = 1 << 62
            return
        self._discard((self._executable, 0, None))
        self._executable = executable
        self._loose.clear()
        self._submission.bind(executable)

    def _results(
        self, args: list[Any], made: list[torch.Tensor], drawn: tuple[int, int]
    ) -> tuple[Any, ...]:
        reinterpret = self._platform.reinterpret
        results: list[Any] = []
        host = self._host_numbers(drawn) if self._returned else None
        for spec in self._outputs.outputs:
            if type(spec) is Fresh:
                tensor = made[spec.storage]
                if not spec.whole:
                    tensor = reinterpret(tensor, spec.size, spec.stride, spec.offset)
                results.append(tensor)
            elif type(spec) is OfInput:
                source = args[spec.index]
                if not spec.same:
                    source = reinterpret(source, spec.size, spec.stride, spec.offset)
                results.append(source)
            elif type(spec) is Fixed or type(spec) is Undefined:
                results.append(spec.value)
            elif host is not None:
                results.append(next(host))
        return tuple(results)

    def _host_numbers(self, drawn: tuple[int, int]) -> Iterator[torch.Tensor]:
        """The CPU scalars among the outputs, in order; they share one piece of memory."""
        seed, offset = drawn
        seed = seed - (1 << 64) if seed >> 63 else seed
        values = [seed if spec.seed else offset + spec.addend for spec in self._returned]
        whole = torch.tensor(values, dtype=torch.int64)
        for i in range(len(values)):
            yield self._platform.reinterpret(whole, (), (), i)

    @property
    def closed(self) -> bool:
        """Whether the graph's handles are gone."""
        return not self._executable

    def detach(self) -> tuple[int, int, Any] | None:
        """Take the handles out, so that no call can launch them again: (executable, graph, what
        they need).
        """
        with self._lock:
            if not self._executable:
                return None
            handles = (self._executable, self._graph, (self._keep, self._templates))
            self._executable = self._graph = 0
            self._keep = None
            return handles
