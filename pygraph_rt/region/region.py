"""One compiled partition: observe, capture, serve, fall back to compiled code when in doubt."""

from __future__ import annotations

import sys
import threading
import time
import traceback
import weakref
from functools import partial
from itertools import starmap
from typing import Any

import torch

from pygraph_rt.capture import checks
from pygraph_rt.capture.observe import Observed
from pygraph_rt.errors import DriverError, GraphRequired, Unprovable
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.options import Options
from pygraph_rt.region import maker, reasons
from pygraph_rt.region.limits import BYTES_PER_NODE
from pygraph_rt.region.maker import Function, GraphMaker
from pygraph_rt.region.states import Event, Life, State
from pygraph_rt.region.variants import Serving, Variant, Variants, key_of
from pygraph_rt.replay import build
from pygraph_rt.replay.build import Built
from pygraph_rt.replay.replay import Replay
from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.reports.report import Region, Watcher
from pygraph_rt.verify.compare import FirstCall

# Kinds of calls that may be refused, where shapes are dynamic, before the region is.
_MOST_REFUSED = 3


class Partition:
    """Stands in for one generated partition function: takes its boxed argument list, returns its
    outputs.
    """

    def __init__(
        self,
        function: Function,
        region: Region,
        options: Options,
        graph_maker: GraphMaker,
        signature: Signature,
    ) -> None:
        self.region = region
        self.key = ""
        self._function = function
        self._options = options
        self._maker = graph_maker
        self._signature = signature
        self._life = Life()
        self._made: list[Built] = []
        self._read_state = graph_maker.platform.state_of(function)
        self._variants = Variants(options.variants)
        self._serving = Serving()
        region.refresher = weakref.WeakMethod(self.refresh)
        if options.graphs == "never":
            self._end(Event.RETIRE, "option graphs='never' says so")

    @property
    def device(self) -> int:
        """Index of its GPU."""
        return self._signature.device

    @property
    def replay(self) -> Replay | None:
        """A graph in use, if there is any."""
        return self._serving.current

    def __call__(self, args: list[Any]) -> Any:
        """Run the partition; `args` is emptied, as generated code does. Its watcher is told by who
        calls this (`runner_inlining.region_call`).
        """
        replay = self._serving.current
        if replay is not None:
            if self._serving.integers_of is not None:
                replay = self._serving.pick(replay, args)
            try:
                results = replay(args)
            except (DriverError, torch.OutOfMemoryError) as error:
                return self._after_failure(error, args, replay)
            if results is not None:
                return results
        if self._life.closed:
            return self._compiled(args)
        return self._without_graph(args)

    # -- calls without graph

    def _compiled(self, args: list[Any]) -> Any:
        """Run compiled code. Raises GraphRequired where graphs are required and refused."""
        if self._options.required and self._life.state is State.RETIRED:
            raise GraphRequired(self.region.reason)
        self.region.unserved += 1
        return self._function(args)

    def _fallback(self, args: list[Any], why: str) -> Any:
        """Run compiled code, and count why, unless the region's own reason says it from now on.
        Raises GraphRequired as `_compiled`, and for any reason that is not one of the warm-up.
        """
        if not self._life.closed:
            if why not in reasons.WARM_UP:
                self._raise_if_required(why)
            self.region.misses[why] = self.region.misses.get(why, 0) + 1
        return self._compiled(args)

    def _raise_if_required(self, why: str) -> None:
        if self._options.required:
            raise GraphRequired(self.region.sentence(why))

    def _without_graph(self, args: list[Any]) -> Any:
        platform, device, back_off = self._maker.platform, self.device, self._variants.back_off
        if platform.device() != device and not platform.capturing():
            # Generated code switches to its own GPU; so do we, then everything is as usual.
            with torch.cuda.device(device):
                return self(args)
        if back_off.calls > 0:
            back_off.calls -= 1
            return self._fallback(args, reasons.NO_LOOK)
        if platform.capturing():
            return self._fallback(args, reasons.OWN_CAPTURE)
        busy = partial(self._fallback, args, reasons.ANOTHER_THREAD)
        return self._life.preparing.run(partial(self._prepare, args), busy)

    def _prepare(self, args: list[Any]) -> Any:
        """Look what kind of call it is: serve it, observe it, or make a graph of it."""
        signature = self._signature
        if any(getattr(args[i], "is_cuda", False) for i in signature.numbers - signature.unread):
            return self._fallback(args, reasons.SEEDS)
        refused = ""
        try:
            checks.check_inputs(args, signature.device, signature.numbers)
            key = key_of(args, self._read_state(), signature.numbers)
        except Unprovable as error:
            key = refused = str(error)
        with self._life.lock:
            variant = self._variants.find(key)
            replay = variant.replay
            if replay is not None and not self._life.closed:
                self._serving.activate(replay)
        if refused:
            self._refuse(variant, refused)
            return self._fallback(args, refused)
        if replay is None:
            return self._try_capture(variant, args)
        try:
            results = replay(args)
        except (DriverError, torch.OutOfMemoryError) as error:
            return self._after_failure(error, args, replay)
        if results is None:
            return self._fallback(args, reasons.OTHER_STREAM)
        self._variants.back_off.renew()
        return results

    def _try_capture(self, variant: Variant, args: list[Any]) -> Any:
        """Observe a call, or make a graph of it, where it is not too early for that."""
        here = threading.get_ident()
        wait = self._wait(variant, here)
        if wait is None:
            if not self._life.may_capture:
                return self._compiled(args)
            busy = partial(self._fallback, args, reasons.ANOTHER_CAPTURE)
            return self._maker.capturing.run(partial(self._capture, variant, args), busy)
        if not self._options.required:
            self._variants.back_off.lose()
        if not wait:
            return self._observe(variant, args, here)
        variant.calls += 1
        return self._fallback(args, wait)

    def _wait(self, variant: Variant, thread: int) -> str | None:
        """Why this call is too early for a capture, "" when it is to be observed, because the next
        one may be captured; None when it is not too early.
        """
        if variant.refused:
            return variant.refused
        # A shape that comes up once or twice is not worth a graph.
        wanted = max(self._options.observe, 2) if self._signature.dynamic else self._options.observe
        if variant.calls < wanted - 1:
            return reasons.FIRST_CALLS
        if variant.calls < wanted or thread not in variant.threads:
            return ""
        if variant.calls < self._variants.wanted():
            if self._variants.full():
                return f"there are more than {self._options.variants} kinds of calls"
            if self._room() < self._variants.next_bytes():
                return reasons.NO_MEMORY
        return None

    def _observe(self, variant: Variant, args: list[Any], thread: int) -> Any:
        self.region.unserved += 1
        generator = self._maker.platform.generator(self.device)
        results, variant.observed, refused = maker.observe(
            self._function, args, self._signature, generator
        )
        if refused:
            self._refuse(variant, refused)
            self._raise_if_required(refused)
        variant.calls += 1
        variant.threads.add(thread)
        return results

    # -- making a graph

    def _capture(self, variant: Variant, args: list[Any]) -> Any:
        """Capture, compare the graph's first call, and serve from the next call on."""
        first = FirstCall()
        try:
            self._discard()
            with self._life.lock:
                going_on = self._apply(Event.BEGIN)
            if going_on:
                first = self._make(variant, args)
        finally:
            self._discard()
        self.region.note = first.note or self.region.note
        self.region.unserved += first.made and bool(first.note or not first.accepted)
        self._maker.finish(first, args)
        if first.refused:
            self._refuse(variant, first.refused, for_memory=first.short)
            if not first.made:
                return self._fallback(args, first.refused)
            self._raise_if_required(first.refused)
        return first.results if first.made else self._compiled(args)

    def _make(self, variant: Variant, args: list[Any]) -> FirstCall:
        """Capture this call, and make it beside the graph's first one."""
        self._maker.disposal.drain()
        self.region.note_inputs(args)
        started = time.perf_counter()
        driver, platform = self._maker.driver, self._maker.platform
        observed = variant.observed
        assert observed is not None
        given = (driver, platform, self._function, args, self._signature, observed)
        try:
            # In one step: an interrupt finds what was captured in the list.
            self._made.extend(starmap(build.capture_and_build, [given]))
        except Exception as error:  # whatever it is, this call still has its compiled code
            short = isinstance(error, torch.OutOfMemoryError)
            return FirstCall(refused=checks.reason_of(error), short=short)
        finally:
            self.region.capture_ms += (time.perf_counter() - started) * 1e3
        with self._life.lock:
            going_on = self._apply(Event.CAPTURED)
        if not going_on:
            return FirstCall()
        first = self._compare(observed, self._made[0], args)
        if first.accepted:
            self._accept(variant, self._made[0].replay)
        return first

    def _discard(self) -> None:
        """Give back what a capture held, and the graph where no variant has got it. After an
        interrupt it goes on where it was.
        """
        while self._made:
            captured = self._made[-1]
            if self._variants.of(captured.replay) is None:
                self._dispose([captured.replay])
            captured.recording.close()
            self._made.pop()
        with self._life.lock:
            if self._life.state in (State.CAPTURE, State.VERIFY):
                self._apply(Event.RESUME if self._variants.replays() else Event.ABANDON)

    def _compare(self, observed: Observed, captured: Built, args: list[Any]) -> FirstCall:
        if not self._fits(captured.replay):
            return FirstCall(refused=reasons.NO_MEMORY)
        if not self._options.verify:
            results = captured.replay(args)  # None: its inputs changed during the call
            return FirstCall(results, made=results is not None, accepted=results is not None)
        started = time.perf_counter()
        try:
            given = (self._function, self._signature, observed, captured, args)
            return self._maker.compare_first(*given)
        finally:
            self.region.compare_ms += (time.perf_counter() - started) * 1e3

    def _accept(self, variant: Variant, replay: Replay) -> None:
        """Let a graph serve, unless the region's life has ended meanwhile."""
        if self._options.verify:
            replay.forget_counts()  # the launch that was compared served nobody
        freed: list[Replay] = []
        with self._life.lock:
            if self._apply(Event.ACCEPT):
                freed = self._make_room(replay)
                self._maker.memory.add(self.device, replay)
                half = self._options.graph_memory / 2  # the rest is for other graphs
                replay.may_grow(partial(self._maker.memory.nodes, self.device, half))
                variant.replay = replay
                self._variants.back_off.renew()
                if not self._life.closed:
                    self._serving.activate(replay)
                self.region.graphs = len(self._variants.replays())
                maker.describe(replay, self.region)
        self._dispose(freed)

    def _room(self) -> int:
        """Bytes that all graphs of the GPU may still take."""
        return self._maker.memory.room(self.device, self._options.graph_memory)

    def _fits(self, replay: Replay) -> bool:
        """Whether there is room for a graph, at most in the place of all others of the region."""
        return replay.nodes * BYTES_PER_NODE <= self._room() + self._variants.bytes()

    def _make_room(self, replay: Replay) -> list[Replay]:
        """Take out the graphs that are served least, until there may be one more and it fits."""
        freed: list[Replay] = []
        needed = replay.nodes * BYTES_PER_NODE
        while self._variants.bytes() and (
            self._variants.full()
            or self._room() + sum(r.held_nodes for r in freed) * BYTES_PER_NODE < needed
        ):
            oldest = self._variants.swap()
            freed += self._take_out(oldest)
        return freed

    # -- refusals

    def _refuse(self, variant: Variant, reason: str, for_memory: bool = False) -> None:
        """No graph for this kind of call; those of other kinds stay. Where all calls are of one
        kind, or several kinds were refused and none has a graph, the region is refused.
        """
        with self._life.lock:
            variant.refused = reason
            freed = self._take_out(variant)
            others = bool(self._variants.replays())
            if freed and not others:
                self._apply(Event.FREED)
            kinds = sum(bool(v.refused) for v in self._variants)
        self._dispose(freed)
        one_kind = not self._signature.dynamic
        many = kinds >= _MOST_REFUSED and not for_memory
        if not others and (one_kind or many):
            self._end(Event.RETIRE, reason)

    def _after_failure(self, error: Exception, args: list[Any], replay: Replay) -> Any:
        """A served call that could not be launched runs compiled code; nothing was launched or
        written. If it could be launched in part only, the error is the caller's, as it would be
        without graphs.
        """
        given = replay.plan.inputs
        begun = not args and bool(given.tensors or given.values)
        if not begun:  # the memory that it had taken by then, and what it keeps for later calls
            replay.let_go()
            traceback.clear_frames(error.__traceback__)
        out_of_memory = isinstance(error, torch.OutOfMemoryError)
        reason = checks.reason_of(error)
        variant = self._variants.of(replay)
        if not out_of_memory and variant is not None:
            self._refuse(variant, reason)
        if begun:
            raise error
        return self._fallback(args, reasons.NO_ROOM if out_of_memory else reason)

    # -- selection (see select/groups.py)

    def watch(self, watcher: Watcher | None, may_capture: bool) -> None:
        """Send calls through `watcher` (None: nobody); `may_capture`: whether a graph may be
        made.
        """
        with self._life.lock:
            self.region.watcher = watcher if self._life.state is not State.RELEASED else None
            self._life.may_capture = may_capture
            self._show()

    def use(self, graphs: bool) -> None:
        """Serve calls with graphs from now on, or run compiled code for now."""
        with self._life.lock:
            self._life.pause(not graphs)
            if graphs:
                if self._life.state is State.DISMISSED:
                    self.region.reason = ""
                self._apply(Event.REOPEN)
            self._show()
            self._serving.pause()  # found again by the next call's key

    def leave(self, reason: str) -> None:
        """Free the graphs and run compiled code until `use` says otherwise."""
        self._end(Event.DISMISS, reason)
        self._maker.disposal.drain()

    def settled(self) -> str | None:
        """ "graph" or "no graph"; None while it has not been captured."""
        if self._life.state in (State.RETIRED, State.RELEASED):
            return NO_GRAPH
        return GRAPH if self._variants.replays() else None

    # -- the end

    def close(self) -> None:
        """Free the graphs; the partition goes on with compiled code. A capture that another thread
        has begun is thrown away by that thread.
        """
        self._end(Event.RELEASE, "")
        self._life.preparing.run(self._discard, lambda: None)
        self._maker.disposal.drain()

    def _end(self, event: Event, reason: str) -> None:
        """Take all graphs out, and let calls run compiled code."""
        with self._life.lock:
            if not self._apply(event):
                return
            if reason:
                self.region.decline(reason, self._life.state.value)
            else:
                self.region.watcher = None
            freed = [r for v in self._variants for r in self._take_out(v)]
            self._variants.clear()
            self._serving.pause()
        self._dispose(freed)

    def _apply(self, event: Event) -> bool:
        """Change the state, and what is shown of it; the caller holds the lock."""
        moved = self._life.apply(event)
        self._show()
        return moved

    def _show(self) -> None:
        self.region.bypassed = self._life.closed and not self._options.required
        watcher = self.region.watcher
        deciding = watcher is not None and watcher.deciding
        serving = self._life.state is State.SERVE
        self.region.state = "deciding" if serving and deciding else self._life.state.value

    def _take_out(self, variant: Variant) -> list[Replay]:
        """A variant's graph, which serves no longer; the caller holds the lock and disposes it."""
        replay, variant.replay = variant.replay, None
        if replay is None:
            return []
        self._serving.forget(replay)
        self.region.graphs -= 1
        return [replay]

    def _dispose(self, replays: list[Replay]) -> None:
        for replay in replays:
            for handles in replay.detach():
                self._maker.disposal.add(handles)

    def refresh(self) -> None:
        """Bring the region's counters up to date; they are kept where they cost nothing on a
        served call.
        """
        region, replays = self.region, self._variants.replays()
        region.served, region.patched = self._serving.counts(replays)
        region.graph_bytes = self._variants.bytes()

    def __del__(self) -> None:
        """A model that is freed takes its graphs with it."""
        if sys.is_finalizing() or not hasattr(self, "_variants"):
            return
        self._dispose(self._variants.replays())
        self._maker.disposal.drain()
