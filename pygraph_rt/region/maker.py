"""Making one graph: capture a call, compare the graph's first call, keep it or take it back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from pygraph_rt.capture import checks, generated
from pygraph_rt.capture import observe as observe_call
from pygraph_rt.capture.capture import own_arguments
from pygraph_rt.capture.observe import Observed
from pygraph_rt.cuda.driver import Driver
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.inductor.reused_inputs import overwritten
from pygraph_rt.region.limits import GraphMemory
from pygraph_rt.region.states import Claim
from pygraph_rt.replay.build import Built
from pygraph_rt.replay.disposal import Disposal
from pygraph_rt.replay.platform import Platform
from pygraph_rt.replay.replay import Replay
from pygraph_rt.reports.report import Region
from pygraph_rt.rng.generator import SameNumbers, check_untouched, offsets
from pygraph_rt.verify import compare
from pygraph_rt.verify.compare import FirstCall
from pygraph_rt.verify.snapshot import Aside, few_bytes, free_below_peak

Function = Callable[[list[Any]], Any]

# Memory that matters: so many bytes, or one in so many of what torch has.
_LEAST, _SHARE = 16 << 20, 32


@dataclass(eq=False)
class GraphMaker:
    """Captures and compares, for all regions of the process.

    capturing: held from a capture's begin until its pools are gone, because torch ends the process
    when a pool is given back while another capture is under way. memory: what all graphs take.
    disposal: where graphs are freed.
    """

    driver: Driver
    platform: Platform
    disposal: Disposal
    memory: GraphMemory = field(default_factory=GraphMemory)
    capturing: Claim = field(default_factory=Claim)

    def compare_first(
        self,
        function: Function,
        signature: Signature,
        observed: Observed,
        captured: Built,
        args: list[Any],
    ) -> FirstCall:
        """Make a call with compiled code, and the graph on copies. Raises the code's own error."""
        generator, donated = self.platform.generator(signature.device), signature.donated
        # What else was saved for a backward stays as it is while it is held.
        scratch = overwritten(function, donated)
        before = torch.cuda.memory_reserved(signature.device)
        arena = captured.replay.plan.most_allocated()
        # While these are held, compiled code does not free them, as it would otherwise.
        needed = arena + observed.plan.nbytes() - free_below_peak(signature.device)
        written = signature.written - donated | scratch
        more = largest(args, donated, written, needed)
        own = () if captured.may_keep_memory else observed.plan.fresh()
        with SameNumbers(generator, observed.drawn.increment) as same:
            compared = partial(
                compare.first_call,
                same.again(observe_call.without_undefined(function, observed.plan)),
                same.again(captured.replay),
                args,
                written | more,
                captured.recording.poisonable(signature.device),
                scratch | more,
            )
            expected = Aside(own, arena, not generated.adds_in_any_order(function))
            first = compare.in_two_ways(compared, same.undo, args, expected, Aside(own, arena))
            if first.kept is not None:
                same.undo()
        grown = torch.cuda.memory_reserved(signature.device) - before
        return first._replace(grown=grown > max(_LEAST, before // _SHARE))

    def finish(self, first: FirstCall, args: list[Any]) -> None:
        """Give back what the comparison has held, before the program's next allocation."""
        if first.short or first.grown:
            # What is left in torch's cache has the comparison's sizes. The program may find no room
            # for its own in it. torch refuses while another thread captures a graph of its own.
            with contextlib.suppress(RuntimeError):
                torch.cuda.empty_cache()
        if first.made:
            return
        # Nothing is held of the comparison whose memory the compiled code may need.
        self.disposal.drain()
        first.put_back(args)


def largest(
    args: list[Any], positions: frozenset[int], copied: frozenset[int], nbytes: int
) -> frozenset[int]:
    """The arguments at some positions with the largest memory that no other argument has, as many
    as have `nbytes`; beside those that are `copied`. None where the CPU has too little memory.
    """
    groups = own_arguments(args, positions - copied)
    sizes = [args[group[0]].untyped_storage().nbytes() for group in groups]
    found = set[int]()
    for size, group in sorted(zip(sizes, groups, strict=True), reverse=True):
        if nbytes <= 0:
            break
        found.update(group)
        nbytes -= size
    return frozenset(found) if few_bytes(args[i] for i in found | copied) else frozenset()


def observe(
    function: Function, args: list[Any], signature: Signature, generator: Any
) -> tuple[Any, Observed | None, str]:
    """Run compiled code once, watched: which allocations become outputs, and how many random
    numbers are drawn. Nothing is held that the call lets go of. Returns the results, what was seen,
    and why no graph is possible (empty: it is).
    """
    try:
        trace = generated.AllocationTrace(generated.allocator_of(function))
        code = generated.with_allocator(function, trace)
        inputs = observe_call.weak_inputs(args)
    except Exception as error:
        return function(args), None, checks.reason_of(error)
    before, given = generator.get_offset(), offsets(args)
    results = code(args)
    try:
        check_untouched(given)
        drawn = observe_call.Draws(generator.get_offset() - before, before)
        constants = generated.constants_of(function)
        plan = observe_call.learn_outputs(results, inputs, constants, trace, signature, drawn)
    except Exception as error:  # the call has been made: its results are what counts
        return results, None, checks.reason_of(error)
    addresses = {i: value.address for i, value in inputs.items()}
    return results, Observed(plan, trace.requests, drawn, addresses), ""


def describe(replay: Replay, region: Region) -> None:
    """Report the graph that was made last."""
    plan = replay.plan
    region.nodes, region.words = replay.nodes, len(plan.patches.patches)
    region.launches = len(plan.sub_graphs)
    region.arena_bytes = max(region.arena_bytes, plan.most_allocated())
