"""The hot path: patch what moved, launch, hand out the outputs.

Everything that can be worked out beforehand is: each block knows its words and the nodes that
hold them, each node its ready-made driver call. A served call compares addresses, writes the
words of blocks that moved, re-submits the nodes that hold them, and launches; nothing is copied.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Hashable, Sequence
from itertools import starmap
from typing import Any

import numpy as np
import torch

from .disposal import Handles
from .driver import Driver
from .errors import DriverError
from .outputs import Allocate, Fixed, Fresh, OfInput, OutputPlan
from .parameters import Block, Patch, PatchPlan
from .templates import NodeTemplates

CLASS_MASK = 255
_FIRST_WINDOW = 2
_WINDOW_GROWTH = 4
_WORTH_SETTLING = 4
_FEW = 8


def alignment_class(address: int) -> int:
    """Largest power of two up to 256 that divides an address: library kernels are chosen by it."""
    return min(256, address & -address) if address else 256


class Follower:
    """The words of one block. `move` writes them for a new address; `nodes` have to be
    re-submitted then.
    """

    __slots__ = ("_addends", "_cells", "_halves", "_sums", "_where", "_words", "base", "nodes")

    def __init__(self, patches: Sequence[Patch], templates: NodeTemplates) -> None:
        self.base = 0
        self.nodes = frozenset(p.node for p in patches)
        places = [templates.offset(p.node, p.field, p.offset) for p in patches]
        addends = [p.addend for p in patches]
        self._cells: list[tuple[Any, int]] | None = None
        if len(patches) <= _FEW:
            self._cells = [
                (ctypes.c_uint64.from_address(templates.address + place), addend)
                for place, addend in zip(places, addends, strict=True)
            ]
            return
        # Words sit at 4-byte alignment, so each is written as two 32-bit halves, low half first.
        halves = np.asarray(places, dtype=np.int64) // 4
        self._where = np.stack([halves, halves + 1], axis=1).reshape(-1)
        self._addends = np.asarray(addends, dtype=np.int64)
        self._sums = np.empty_like(self._addends)
        self._halves = self._sums.view(np.uint32)
        self._words = templates.words

    def move(self, base: int) -> None:
        """Write every word of the block for its new address."""
        self.base = base
        if self._cells is not None:
            for cell, addend in self._cells:
                cell.value = base + addend
            return
        np.add(self._addends, base, out=self._sums)
        self._words[self._where] = self._halves


class MovingInput:
    """An input whose address is compared on each call."""

    __slots__ = ("align", "follower", "index")

    def __init__(self, index: int, align: int, follower: Follower) -> None:
        self.index = index
        self.align = align
        self.follower = follower


class Platform:
    """The few questions to torch that a served call asks; the tests answer them without a GPU."""

    def __init__(
        self,
        state: Callable[[], Hashable],
        capturing: Callable[[], bool],
        device: Callable[[], int],
        stream: Callable[[int], int],
        same_addresses: Callable[[list[Any], list[Any], list[int]], bool],
        reinterpret: Callable[..., torch.Tensor],
        random_offset: Callable[[int], int],
    ) -> None:
        self.random_offset = random_offset
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
    stream that the graph may be launched on.
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
    ) -> None:
        """`inputs` maps an argument's index to (alignment class at capture, whether it stayed put
        so far); `scalars` are the other arguments' (index, value); `shapes` the (index, size,
        strides) of tensors that have to be compared on each call; `keep` is whatever the kernels
        need to stay loaded; `discard` takes handles that the GPU may still be using.
        """
        self._driver = driver
        self._platform = platform
        self._executable = executable
        self._graph = graph
        self._templates = templates
        self._outputs = outputs
        self._scalars = list(scalars)
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
        self.patched = 0
        groups = plan.by_block()
        followers = {block: Follower(group, templates) for block, group in groups.items()}
        self._chunks = [(followers[block], (size,)) for block, size in chunks.items()]
        self._fresh = [
            (followers.get(Block("output", i)), s.size, s.stride, s.dtype)
            for i, s in enumerate(outputs.storages)
        ]
        self._discard = discard
        self._bind()
        self._dirty: set[int] = set()
        # Nodes updated since the executable was made, before and in the current window of launches.
        self._loose: set[int] = set()
        self._touched: set[int] = set()
        self._settle_at = _FIRST_WINDOW
        self._window = _FIRST_WINDOW
        self._prepare_inputs(inputs, followers)

    def _bind(self) -> None:
        """Make each node's ready-made driver call for the executable in use."""
        self._kernels = self._templates.kernel_arguments(self._executable)
        self._others = self._templates.other_submissions(self._driver, self._executable)

    def _prepare_inputs(
        self, inputs: dict[int, tuple[int, bool]], followers: dict[Block, Follower]
    ) -> None:
        self._all: dict[int, MovingInput] = {}
        still: list[int] = []
        for index, (align, stays) in inputs.items():
            follower = followers.get(Block("input", index))
            if follower is None:
                continue
            self._all[index] = MovingInput(index, align, follower)
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
            item.follower.move(address)
            self._dirty |= item.follower.nodes
        moving = {m.index for m in self._moving}
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
        # What was written but not yet submitted stays in `_dirty` when this call ends early.
        dirty = self._dirty
        if (
            self._still
            and not platform.same_addresses(args, self._still_addresses, self._still)
            and not self._follow_still(args)
        ):
            return None
        for item in self._moving:
            address = args[item.index].data_ptr()
            follower = item.follower
            if address != follower.base:
                if (address & CLASS_MASK or item.align != 256) and alignment_class(
                    address
                ) != item.align:
                    return None
                follower.move(address)
                dirty |= follower.nodes
        allocate = self._allocate
        arena = []
        for follower, size in self._chunks:
            chunk = allocate(size, (1,), torch.uint8)
            arena.append(chunk)
            address = chunk.data_ptr()
            if address != follower.base:
                follower.move(address)
                dirty |= follower.nodes
        made = []
        for written, shape, stride, dtype in self._fresh:
            tensor = allocate(shape, stride, dtype)
            made.append(tensor)
            if written is not None:
                address = tensor.data_ptr()
                if address != written.base:
                    written.move(address)
                    dirty |= written.nodes
        if dirty:
            self._resubmit(dirty)
        code = self._driver.launch(self._executable, stream)
        if code:
            raise DriverError(f"cuGraphLaunch failed with {self._driver.describe(code)}")
        self.launches += 1
        results = self._results(args, made)
        args.clear()
        if self.launches >= self._settle_at:
            self._settle_nodes()
        return results

    def _resubmit(self, dirty: set[int]) -> None:
        kernels: Any = dirty
        if self._others:
            kernels = dirty - self._others.keys()
            for node in dirty & self._others.keys():
                self._check(self._others[node](), node)
        arguments = map(self._kernels.__getitem__, kernels)
        if any(starmap(self._driver.exec_set_kernel, arguments)):
            for node in kernels:  # once more, to say which one it was
                self._check(self._driver.exec_set_kernel(*self._kernels[node]), node)
        self.patched += len(dirty)
        self._touched |= dirty
        dirty.clear()

    def _check(self, code: int, node: int) -> None:
        if code:
            raise DriverError(
                f"{self._templates.describe(node)} could not be updated: "
                f"{self._driver.describe(code)}"
            )

    def _settle_nodes(self) -> None:
        """Make a new executable when many nodes hold addresses that no longer change.

        An executable made at the addresses of the capture runs each kernel about a third of a
        microsecond slower than one made at the addresses in use (H200, driver 580). Windows of
        launches grow, so that this happens a few times at most.
        """
        rested = self._loose - self._touched
        if self.launches == _FIRST_WINDOW:
            rested = self._touched  # the first executable was made at addresses of the capture
        self._loose |= self._touched
        self._touched = set()
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
        self._bind()

    def _results(self, args: list[Any], made: list[torch.Tensor]) -> tuple[Any, ...]:
        reinterpret = self._platform.reinterpret
        results: list[Any] = []
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
            elif type(spec) is Fixed:
                results.append(spec.value)
        return tuple(results)

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
            self._kernels, self._others = {}, {}
            return handles
