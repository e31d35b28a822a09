"""One compiled partition's life: observe, capture, serve, and back to the ordinary path when
anything is in doubt.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch

from pygraph_rt.capture import output_plan, record
from pygraph_rt.cuda.driver import Driver
from pygraph_rt.errors import DriverError, Unprovable
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.options import Options
from pygraph_rt.region.variants import BYTES_PER_NODE, GraphMemory, Patience, Variant, Variants
from pygraph_rt.replay.disposal import Disposal
from pygraph_rt.replay.replay import Platform, Replay, alignment_class
from pygraph_rt.reports.report import Region
from pygraph_rt.rng import philox
from pygraph_rt.select.stats import GRAPH, NO_GRAPH
from pygraph_rt.verify import compare
from pygraph_rt.verify.snapshot import Kept

Function = Callable[[list[Any]], Any]

_FIRST_CALLS = "the first calls of their kind"
_NO_MEMORY = "the process's graphs have all the GPU memory that they may take"
_NO_ROOM_TO_COMPARE = "too little memory for the comparison of its first call"


@dataclass(frozen=True)
class Environment:
    """What partitions share: the driver, torch's answers, and the place where graphs are freed.

    `capturing` is held from a capture's begin until its pools are gone: torch ends the process
    when a pool is given back while another capture is under way. `memory` is what all graphs take.
    """

    driver: Driver
    platform: Platform
    disposal: Disposal
    capturing: threading.Lock = field(default_factory=threading.Lock)
    memory: GraphMemory = field(default_factory=GraphMemory)


class _Trial(NamedTuple):
    """How the call went that a graph was tried out on: its `results`, and whether the graph was
    `accepted`; or `why` the ordinary path has yet to run, and what to undo before that. `short`:
    there was too little memory for it.
    """

    results: Any = None
    accepted: bool = False
    why: str = ""
    kept: Kept | None = None
    short: bool = False


class Watcher(Protocol):
    """Stands before a partition. deciding: whether it is still open if the graph pays."""

    deciding: bool

    def call(self, partition: Any, args: list[Any]) -> Any:
        """Run `partition(args, False)`, and take note of it."""


class Partition:
    """Stands in for one generated partition function: takes its boxed argument list, returns its
    outputs.
    """

    def __init__(
        self,
        function: Function,
        region: Region,
        options: Options,
        environment: Environment,
        signature: Signature,
    ) -> None:
        self._signature = signature
        self._function = function
        self.region = region
        self._options = options
        self._environment = environment
        self._device = signature.device
        self._state = environment.platform.state_of(function)
        self._lock = threading.Lock()
        self._variants = Variants(options.variants)
        self._patience = Patience()
        self._active: Replay | None = None
        self._by_integers: dict[tuple[Any, ...], Replay] = {}
        # Served last: the only one that keeps memory for its next call.
        self._latest: Replay | None = None
        self._declined = False
        # On the ordinary path without another look: declined, or it is the ordinary path's turn.
        self._plain = False
        self._may_capture = True
        self._watcher: Watcher | None = None
        self.key = ""
        self._past_launches = 0
        self._past_patched = 0
        region.refresh = self.refresh
        if options.graphs == "never":
            self._decline("option graphs='never' says so")

    def __call__(self, args: list[Any], watched: bool = True) -> Any:
        """Run the partition; `args` is emptied, as generated code does. `watched` False: without
        the watcher, which calls this.
        """
        if self._watcher is not None and watched:
            return self._watcher.call(self, args)
        replay = self._active
        if replay is not None:
            if replay.integers:
                # Shapes that take turns need not be looked up by all that makes a key.
                replay = self._by_integers.get(replay.pick_integers(args), replay)
                if replay is not self._latest:
                    self._take_turns(replay)
            try:
                results = replay(args)
            except (DriverError, torch.OutOfMemoryError) as error:
                return self._after_failure(error, args, replay)
            if results is not None:
                return results
        if self._plain:
            self.region.ordinary += 1
            return self._function(args)
        return self._unserved(args)

    # -- the slow path

    def _unserved(self, args: list[Any]) -> Any:
        if self._patience.calls > 0:
            self._patience.calls -= 1
            return self._ordinary(args, "no graph came of a look at the calls before it")
        platform = self._environment.platform
        if platform.capturing():
            return self._ordinary(args, "the caller was capturing a graph of its own")
        if platform.device() != self._device:
            # Generated code switches to its own device itself; so do we, then everything is as
            # usual.
            with torch.cuda.device(self._device):
                return self(args, False)
        if not self._lock.acquire(blocking=False):
            return self._ordinary(args, "another thread was preparing its graph")
        try:
            return self._prepare(args)
        finally:
            self._lock.release()

    def _ordinary(self, args: list[Any], why: str) -> Any:
        self.region.misses[why] = self.region.misses.get(why, 0) + 1
        self.region.ordinary += 1
        return self._function(args)

    def _key(self, args: list[Any]) -> Hashable:
        parts: list[Hashable] = [self._state()]
        for i, value in enumerate(args):
            if i in self._signature.numbers:
                parts.append("number")
            elif isinstance(value, torch.Tensor):
                parts.append((value.shape, value.stride(), alignment_class(value.data_ptr())))
            elif value is None or isinstance(value, (int, float, bool)):
                parts.append((type(value), value))
            else:
                raise Unprovable(
                    f"it takes a {type(value).__name__}, whose state a graph cannot follow; keep "
                    "it out of the "
                    "compiled region"
                )
        return tuple(parts)

    def _prepare(self, args: list[Any]) -> Any:
        if any(getattr(args[i], "is_cuda", False) for i in self._signature.numbers):
            return self._ordinary(args, "its seeds came from a graph of the caller's own")
        try:
            record.check_inputs(args, self._device, self._signature.numbers)
            key = self._key(args)
        except Unprovable as error:
            self._decline(str(error))
            return self._ordinary(args, "declined")
        variant = self._variants.find(key)
        if variant.replay is not None:
            self._activate(variant.replay)
            try:
                results = variant.replay(args)
            except (DriverError, torch.OutOfMemoryError) as error:
                return self._after_failure(error, args, variant.replay)
            if results is not None:
                self._patience.renew()
                return results
            return self._ordinary(args, "another stream, or inputs that changed during the call")
        here = threading.get_ident()
        wait = self._wait(variant, here)
        if wait is not None:
            self._patience.lose()
        if wait == "":
            return self._observe(variant, args, here)
        if wait is not None:
            variant.calls += 1
            return self._ordinary(args, wait)
        if not self._may_capture:
            self.region.ordinary += 1
            return self._function(args)
        if not self._environment.capturing.acquire(blocking=False):
            return self._ordinary(args, "another region was being captured")
        try:
            return self._capture(variant, args)
        finally:
            self._environment.capturing.release()

    def _wait(self, variant: Variant, thread: int) -> str | None:
        """Why this call is too early for a capture, "" when it is to be observed, because the next
        one may be captured; None when it is not too early.
        """
        # A shape that comes up once or twice is not worth a graph.
        wanted = max(self._options.observe, 2) if self._signature.dynamic else self._options.observe
        if variant.calls < wanted - 1:
            return _FIRST_CALLS
        if variant.calls < wanted or thread not in variant.threads:
            return ""
        if variant.refused:
            return variant.refused
        if variant.calls < self._variants.wanted():
            if self._variants.full():
                return f"more than {self._options.variants} kinds of calls"
            if self._room() < self._variants.next_bytes():
                return _NO_MEMORY
        return None

    def _room(self) -> int:
        """Bytes that all graphs of the GPU may still take."""
        return self._environment.memory.room(self._device, self._options.graph_memory)

    def _fits(self, replay: Replay) -> bool:
        """Whether there is room for a graph, at most in the place of all others of the region."""
        return replay.nodes * BYTES_PER_NODE <= self._room() + self._variants.bytes()

    def _make_room(self, replay: Replay) -> None:
        """Free the graphs that are served least, until there may be one more and it fits."""
        while self._variants.bytes() and (
            self._variants.full() or self._room() < replay.nodes * BYTES_PER_NODE
        ):
            self._retire_one()

    def _retire_one(self) -> None:
        oldest = self._variants.swap()
        assert oldest.replay is not None
        self._past_launches += oldest.replay.launches
        self._past_patched += oldest.replay.patched
        if self._active is oldest.replay:
            self._active = None
        if self._latest is oldest.replay:
            self._latest = None
        if self._by_integers.get(oldest.replay.integers) is oldest.replay:
            del self._by_integers[oldest.replay.integers]
        self._dispose(oldest.replay)
        oldest.replay = None
        self.region.graphs -= 1

    def _observe(self, variant: Variant, args: list[Any], thread: int) -> Any:
        """One ordinary call, watched: which allocations become outputs, and how many random
        numbers are drawn. Nothing is held that the call lets go of.
        """
        self.region.ordinary += 1
        try:
            trace = output_plan.AllocationTrace(output_plan.allocator_of(self._function))
            code = output_plan.with_allocator(self._function, trace)
            inputs = output_plan.given(args)
        except Exception as error:
            self._decline(record.reason_of(error))
            return self._function(args)
        generator = self._environment.platform.generator(self._device)
        before = generator.get_offset()
        results = code(args)
        try:
            variant.drawn = output_plan.Draws(generator.get_offset() - before, before)
            constants = output_plan.constants_of(self._function)
            signature = self._signature
            variant.plan = output_plan.learn_outputs(
                results,
                inputs,
                constants,
                trace,
                signature.scalars,
                variant.drawn,
                signature.donated,
            )
        except Exception as error:  # the call has been made: its results are what counts
            self._decline(record.reason_of(error))
            return results
        variant.requests = trace.requests
        variant.addresses = {i: value.address for i, value in inputs.items()}
        variant.calls += 1
        variant.threads.add(thread)
        return results

    def _capture(self, variant: Variant, args: list[Any]) -> Any:
        """Capture, try the graph out beside the ordinary path, and serve from the next call on."""
        environment = self._environment
        environment.disposal.drain()
        self.region.note_inputs(args)
        started = time.perf_counter()
        captured: record.Captured | None = None
        try:
            captured = record.capture(
                environment.driver,
                environment.platform,
                self._function,
                args,
                self._signature,
                variant.observed(args),
            )
        except Exception as error:  # whatever it is, this call still has its ordinary path
            self._decline(record.reason_of(error))
        finally:
            self.region.capture_ms += (time.perf_counter() - started) * 1e3
        if captured is None:  # nor is anything held of it by the error
            return self._ordinary(args, "declined")
        return self._try_out(variant, captured, args)

    def _try_out(self, variant: Variant, captured: record.Captured, args: list[Any]) -> Any:
        """The call's results; the graph serves from the next call on, or is gone."""
        trial = _Trial()
        try:
            trial = self._trial(variant, captured, args)
        finally:
            if trial.accepted:
                self._accept(variant, captured.replay)
            else:
                self._dispose(captured.replay)
            captured.recording.close()
        if trial.short:
            # What is left in torch's cache has the comparison's sizes. The program, which has just
            # enough memory, may find no room for its own in it.
            torch.cuda.empty_cache()
        if not trial.why:
            return trial.results
        # Nothing is held of the trial whose memory the ordinary path may need.
        self._environment.disposal.drain()
        if trial.kept is not None:
            trial.kept.put_back(args)
        return self._ordinary(args, trial.why)

    def _trial(self, variant: Variant, captured: record.Captured, args: list[Any]) -> _Trial:
        replay, recording = captured
        assert variant.plan is not None
        given = len(args)
        try:
            if not self._fits(replay):
                variant.refused = _NO_MEMORY
                return _Trial(why=_NO_MEMORY)
            if not self._options.verify:
                results = replay(args)
                if results is None:
                    return _Trial(why="its inputs changed during the call")
                return _Trial(results, accepted=True)
            generator = self._environment.platform.generator(self._device)
            with philox.SameNumbers(generator, variant.drawn.increment) as same:
                verdict = compare.first_call(
                    same.again(output_plan.without_undefined(self._function, variant.plan)),
                    same.again(replay),
                    args,
                    self._signature.written,
                    recording.poisonable(self._device),
                    scratch=self._signature.donated,
                )
            self.region.note = verdict.note
            self.region.ordinary += 1
            return _Trial(verdict.outputs, accepted=True)
        except compare.TooLittleMemory as error:
            self._refuse(variant, str(error))
            if isinstance(error.__cause__, compare.Ran):
                return _Trial(error.__cause__.outputs, short=True)
            return _Trial(why=_NO_ROOM_TO_COMPARE, kept=error.kept, short=True)
        except Exception as error:
            ran = error.__cause__
            if given and not args and not isinstance(ran, compare.Ran):
                raise  # the ordinary path itself failed: that is the caller's error
            self._decline(record.reason_of(error))
            if isinstance(ran, compare.Ran):
                return _Trial(ran.outputs)
            return _Trial(why="declined")

    def _refuse(self, variant: Variant, reason: str) -> None:
        """No graph for this kind of call; those of other kinds stay."""
        if any(v.replay is not None for v in self._variants):
            variant.refused = _NO_ROOM_TO_COMPARE
        else:
            self._decline(reason)

    def _activate(self, replay: Replay) -> None:
        self._active = self._by_integers[replay.integers] = replay
        if replay is not self._latest:
            self._take_turns(replay)

    def _take_turns(self, replay: Replay | None) -> None:
        """Graphs of other shapes than the one that is served keep no memory meanwhile."""
        latest, self._latest = self._latest, replay
        if latest is not None:
            latest.let_go()

    def _accept(self, variant: Variant, replay: Replay) -> None:
        if self._options.verify:
            replay.forget_counts()  # the launch that was tried out served nobody
        self._make_room(replay)
        self._environment.memory.add(self._device, replay)
        variant.replay = replay
        self._patience.renew()
        self._activate(replay)
        region = self.region
        deciding = self._watcher is not None and self._watcher.deciding
        region.state = "deciding" if deciding else "serving"
        region.graphs += 1
        region.nodes, region.words, region.launches = replay.nodes, replay.words, replay.parts
        region.arena_bytes = max(region.arena_bytes, replay.arena_bytes)

    # -- taking turns with the ordinary path

    def watch(self, watcher: Watcher | None, may_capture: bool) -> None:
        """Send calls through `watcher` (None: nobody); `may_capture`: whether a graph may be
        made.
        """
        self._watcher = watcher
        self._may_capture = may_capture

    def use(self, graphs: bool) -> None:
        """Serve calls with graphs, or run them on the ordinary path for now."""
        self._plain = self._declined or not graphs
        self._active = None  # found again by the next call's key
        self._take_turns(None)

    def serve(self) -> None:
        """Serve calls with graphs from now on. What libraries hold for the ordinary calls since the
        capture goes, unless another graph is being captured.
        """
        self.use(True)
        self.region.state = "serving"
        if self._environment.capturing.acquire(blocking=False):
            try:
                record.forget_workspaces()
            finally:
                self._environment.capturing.release()

    def leave(self, reason: str) -> None:
        """Free the graphs and take the ordinary path until `use` says otherwise."""
        with self._lock:  # not in the middle of another thread's capture
            self._plain = True
            self._release()
        self.region.decline(reason)
        self._environment.disposal.drain()

    @property
    def device(self) -> int:
        """Index of its GPU."""
        return self._device

    def settled(self) -> str | None:
        """ "graph" or "no graph"; None while it has not been captured."""
        if self._declined:
            return NO_GRAPH
        served = any(v.replay is not None for v in self._variants)
        return GRAPH if served else None

    # -- leaving

    def _after_failure(self, error: Exception, args: list[Any], replay: Replay) -> Any:
        """A served call that could not be launched runs on the ordinary path; nothing was launched
        or written. If it could be launched in part only, the error is the caller's, as it would be
        on the ordinary path.
        """
        begun = bool(replay.arguments and not args)
        if not begun:  # the memory that it had taken by then, and what it keeps for later calls
            replay.let_go()
            traceback.clear_frames(error.__traceback__)
        if not isinstance(error, torch.OutOfMemoryError):
            self._decline(f"the CUDA driver refused it ({error})")
        if begun:
            raise error
        if isinstance(error, torch.OutOfMemoryError):
            return self._ordinary(args, "too little memory for the arena")
        return self._ordinary(args, "declined")

    def _decline(self, reason: str) -> None:
        self._declined = self._plain = True
        self._release()
        self.region.decline(reason)

    def _dispose(self, replay: Replay) -> None:
        for handles in replay.detach():
            self._environment.disposal.add(handles)

    def _release(self) -> None:
        self._by_integers.clear()
        self._active = self._latest = None
        self.refresh()
        self._past_launches, self._past_patched = self.region.served, self.region.patched
        for variant in self._variants:
            if variant.replay is not None:
                self._dispose(variant.replay)
                variant.replay = None
        self._variants.clear()

    @property
    def replay(self) -> Replay | None:
        """A graph in use, if there is any."""
        return self._active

    def close(self) -> None:
        """Free the graphs; the partition keeps working on the ordinary path."""
        self._declined = self._plain = True
        self._watcher = None
        self._release()
        self.region.state = "released"
        self._environment.disposal.drain()

    def refresh(self) -> None:
        """Bring the region's counters up to date; they are kept where they cost nothing on a
        served call.
        """
        replays = [v.replay for v in self._variants if v.replay is not None]
        self.region.served = self._past_launches + sum(r.launches for r in replays)
        self.region.patched = self._past_patched + sum(r.patched for r in replays)
        self.region.graph_bytes = self._variants.bytes()

    def __del__(self) -> None:
        for variant in self._variants:
            if variant.replay is not None:
                self._dispose(variant.replay)
