"""Double capture: from a region's code and one call's arguments to a `ReplayPlan`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.capture import address_words, checks, generated
from pygraph_rt.capture.observe import Observed
from pygraph_rt.capture.operators import Operators
from pygraph_rt.capture.record import Job, Recording, record
from pygraph_rt.capture.unknown_words import UnknownWords
from pygraph_rt.cuda import global_flags
from pygraph_rt.cuda.driver import Driver
from pygraph_rt.errors import Disagreement, Unprovable
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.memory import layout, library_outputs, pool, split
from pygraph_rt.memory.slabs import kept_segments, slab_plan
from pygraph_rt.plan.graph import PatchPlan
from pygraph_rt.plan.memory_blocks import AddressMap, Block, Range, alignment_class
from pygraph_rt.plan.outputs import OfInput, Slab
from pygraph_rt.plan.replay_plan import (
    InputPlan,
    LaunchPlan,
    MemoryPlan,
    ReplayPlan,
    TensorInput,
    TensorLayout,
)
from pygraph_rt.rng import philox, probe

# When what padding holds looks like an address; see Disagreement.
_MORE_TRIES = 2


class Captured(NamedTuple):
    """A plan, and the recording whose graph it is for, to be closed once the replay was compared:
    what a replay uses of the capture's addresses by mistake has to show.
    """

    plan: ReplayPlan
    recording: Recording


def capture(
    driver: Driver,
    function: Callable[..., Any],
    args: Sequence[Any],
    signature: Signature,
    observed: Observed,
    stream: int,
    operators: Operators,
) -> Captured:
    """Capture `function` twice for these arguments and plan its replay.

    `observed` comes from an ordinary call; `stream` is the caller's current one; `operators`
    watches what is called. Raises Unprovable when the region cannot be proven right, and whatever
    the code raises under capture.
    """
    global_flags.check(function)
    checks.check_allocator()
    checks.check_pool(signature.device)
    inputs = checks.check_inputs(args, signature.device, signature.numbers)
    retainable = library_outputs.candidates(observed.plan, signature.saved)
    job = Job(driver, function, args, inputs, signature, observed, retainable, operators)
    for _ in range(_MORE_TRIES):
        with contextlib.suppress(Disagreement):
            return _capture(job, stream)
    return _capture(job, stream)


def _capture(job: Job, stream: int) -> Captured:
    recordings: list[Recording] = []
    try:
        job = _record_twice(job, recordings)
        first, second = recordings
        if not first.capture.nodes:
            raise Unprovable("it launches no GPU work")
        kept = job.operators.may_keep_memory
        unknown = UnknownWords(pool.snapshot(), job.driver.memory_kind, kept)
        patches = _patches(job, first, second, unknown)
        only_stream = stream if unknown.library else None
        plan = _plan(job, patches, first, only_stream)
        second.close()
        return Captured(plan, first)
    except BaseException:
        for recording in recordings:
            recording.close()
        raise


def _record_twice(job: Job, recordings: list[Recording]) -> Job:
    """Add two captures that agree on retained segments to `recordings`, one by one, so that whoever
    has the list can close them. Returns the job that was captured.
    """
    recordings.append(record(job, reverse=False))
    recordings.append(record(job, reverse=True))
    if library_outputs.agree(*(recording.retained for recording in recordings)):
        return job
    while recordings:
        recordings.pop().close()
    return _record_twice(job._replace(retainable=frozenset()), recordings)


def _patches(job: Job, first: Recording, second: Recording, unknown: UnknownWords) -> PatchPlan:
    """The words of the first capture that a served call has to write."""
    probe.check(first.random, second.random, job.observed.drawn.increment)
    probe.check_outputs(job.observed.plan, first.random)
    constants = generated.constants_of(job.function)
    plan = address_words.patch_plan(
        first.capture, second.capture, _statics(constants), unknown.owner, unknown.nowhere
    )
    if first.random is None:
        return plan
    words = (*plan.patches, *philox.patches(first.random.states))
    return PatchPlan(words, plan.nodes)


def _statics(constants: Sequence[torch.Tensor]) -> AddressMap:
    """Address ranges of the module's constants, merged where they overlap."""
    spans = sorted(
        (t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()) for t in constants
    )
    merged: list[Range] = []
    for base, size in spans:
        if merged and base <= merged[-1].base + merged[-1].size:
            last = merged.pop()
            size = max(last.base + last.size, base + size) - last.base
            base = last.base
        merged.append(Range(base, size, Block("constant", 0)))
    return AddressMap(merged)


def _plan(
    job: Job, patches: PatchPlan, recording: Recording, only_stream: int | None
) -> ReplayPlan:
    outputs = job.observed.plan.direct()
    retained = library_outputs.slabs(recording.retained, recording.segments, outputs.storages)
    segments = layout.segment_sizes(recording.segments, patches.patches, retained)
    sizes = _call_bytes(job, segments, retained)
    live = split.live_intervals(patches, recording.capture.edges, sizes)
    placed = layout.place(patches, split.sub_graphs(live), live.scratch, segments)
    slabs = slab_plan(outputs, job.signature, retained)
    free = {block: n for block, n in placed.segments.items() if block not in retained}
    kept = kept_segments(placed.sub_graphs, free, sum(s.nbytes for s in outputs.storages))
    return ReplayPlan(
        placed.plan,
        tuple(placed.sub_graphs),
        _inputs(job),
        outputs,
        MemoryPlan(placed.segments, slabs._replace(kept=kept)),
        LaunchPlan(job.signature.device, only_stream, job.observed.drawn.increment),
    )


def _inputs(job: Job) -> InputPlan:
    args, addresses = job.args, job.observed.addresses
    return InputPlan(
        tuple(
            TensorInput(
                i,
                alignment_class(t.data_ptr()),
                t.data_ptr() == addresses.get(i),
                TensorLayout(t.shape, t.stride(), t.dtype, t.device),
            )
            for i, t in enumerate(args)
            if isinstance(t, torch.Tensor) and i not in job.signature.numbers
        ),
        tuple((i, a) for i, a in enumerate(args) if not isinstance(a, torch.Tensor)),
        tuple(sorted(job.signature.numbers)),
    )


def _call_bytes(
    job: Job, segments: Mapping[Block, int], retained: Mapping[Block, Slab]
) -> split.CallBytes:
    """What a call has in memory. Arguments that somebody else holds, or that are returned, are not
    let go of early.
    """
    plan = job.observed.plan
    returned = {o.index for o in plan.outputs if isinstance(o, OfInput)}
    own = own_arguments(job.args, (job.signature.released & job.inputs.keys()) - returned)
    dropped = {i: job.inputs[i].untyped_storage().nbytes() for i, *_ in own}
    together = {i for group in own for i in group}
    others = [t.untyped_storage() for i, t in job.inputs.items() if i not in together]
    inside = {n for slab in retained.values() for n in slab.storages}
    return split.CallBytes(
        segments,
        [0 if n in inside else s.nbytes for n, s in enumerate(plan.storages)],
        dropped,
        {Block("scratch", n): nbytes for n, nbytes in job.scratch().items()},
        sum({s.data_ptr(): s.nbytes() for s in others}.values()),
        frozenset(retained),
        {i: tuple(beside) for i, *beside in own},
    )


def own_arguments(args: Sequence[Any], released: Collection[int]) -> list[list[int]]:
    """The arguments among `released` that share memory with no other argument, those that share
    memory with each other together.
    """
    owners: dict[int, list[int]] = {}
    for i, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            owners.setdefault(generated.storage_id(value), []).append(i)
    return [group for group in owners.values() if all(i in released for i in group)]
