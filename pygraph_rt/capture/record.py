"""Double capture: from a partition and one call's arguments to a `Replay`.

Both captures run the generated code on placeholder tensors, on a stream of the runtime's own, in
thread-local mode, each into a memory pool of its own. Nothing is executed, so the caller's
tensors are not touched; nothing of the user's allocator cache is given up, so unlike
`torch.cuda.graph` no device-wide wait is needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch

from pygraph_rt.capture import diff, output_plan
from pygraph_rt.capture.diff import AddressMap, Block, Range
from pygraph_rt.capture.nodes import read_graph
from pygraph_rt.capture.placeholders import ALIGNMENT, Placeholders, Request, extent, tensor_at
from pygraph_rt.capture.unknown_words import Neighbours
from pygraph_rt.cuda.driver import MEMCPY, MEMSET, Driver, MemcpyParams, MemsetParams
from pygraph_rt.errors import DriverError, Unprovable
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.memory import arena, library_outputs, output_pool, split
from pygraph_rt.replay.executable import Executable
from pygraph_rt.replay.node_params import NodeTemplates, RawNode
from pygraph_rt.replay.replay import Platform, Replay, alignment_class
from pygraph_rt.rng import philox
from pygraph_rt.rng import probe as drawing

Inputs = dict[int, torch.Tensor]

# Allocations of the generated code that get addresses of their own, in bytes and more. What is
# smaller shares torch's smallest segments.
_OWN_PLACE = 1 << 20


@dataclass
class Recording:
    """One capture, with everything it needs to stay readable. `close` frees graph, pool and
    addresses.

    random: the random numbers that its kernels use, None when nothing is drawn; they are
    parameters then. kept: segments that outputs stay in.
    """

    graph: torch.cuda.CUDAGraph
    pool: Any
    segments: list[arena.Segment]
    capture: diff.Capture
    raw: list[RawNode]
    placeholders: Placeholders
    random: drawing.Random | None
    kept: list[library_outputs.KeptSegment]

    def poisonable(self, device: int) -> list[torch.Tensor]:
        """All memory behind addresses that this capture used, as byte tensors."""
        pools = [
            tensor_at(s.address, s.size, (s.size,), (1,), torch.uint8, device)
            for s in self.segments
        ]
        return [self.placeholders.physical(), *pools]

    def close(self) -> None:
        """Let go of the torch graph, its pool and the placeholder addresses.

        By now the ordinary path has run once more, to be compared with. The cuBLAS workspace that
        torch then keeps for the caller's stream (32 MiB on Hopper) goes too, because a served
        graph has its own in the arena.
        """
        forget_workspaces()
        self.graph.reset()
        self.pool = None
        self.placeholders.close()


class Captured(NamedTuple):
    """A replay, and the recording it was made from, to be closed once it was tried out: what the
    replay uses of the capture's addresses by mistake has to show.
    """

    replay: Replay
    recording: Recording


class Observed(NamedTuple):
    """What an ordinary call showed: how outputs are made, every allocation, what was drawn, and
    which arguments have not moved since.
    """

    plan: output_plan.OutputPlan
    requests: Sequence[tuple[output_plan.Sizes, output_plan.Sizes, torch.dtype]]
    drawn: output_plan.Draws
    stays: frozenset[int]


class _Job(NamedTuple):
    """What is captured, twice. `inputs` are the GPU tensors among `args`, `scratch` the bytes of
    large allocations of the generated code that are no outputs, by ordinal; `staying` are storages
    of outputs that need not be copied.
    """

    driver: Driver
    function: Callable[..., Any]
    args: Sequence[Any]
    inputs: Inputs
    signature: Signature
    observed: Observed
    scratch: Mapping[int, int]
    staying: frozenset[int]

    @property
    def random(self) -> bool:
        """Whether kernels take seeds and offsets."""
        return bool(self.observed.drawn.increment or self.signature.numbers)


@cache
def _capture_stream(driver: Driver, device: int) -> torch.cuda.ExternalStream:
    """A stream that nothing else launches on: whatever is launched on a capturing stream becomes
    part of the graph.
    """
    with torch.cuda.device(device):
        return torch.cuda.ExternalStream(  # type: ignore[no-untyped-call]
            driver.create_stream(), device=device
        )


def check_inputs(args: Sequence[Any], device: int, numbers: Collection[int] = ()) -> Inputs:
    """The GPU tensors with memory among a partition's arguments. Raises Unprovable for arguments a
    graph cannot take. `numbers` are arguments that may be CPU scalars.
    """
    found: Inputs = {}
    for i, value in enumerate(args):
        if isinstance(value, (bool, int, float)) or value is None:
            continue
        if not isinstance(value, torch.Tensor):
            raise Unprovable(f"argument {i} is a {type(value).__name__}, which a graph cannot take")
        if i in numbers:
            continue
        if not value.is_cuda:
            raise Unprovable(
                f"argument {i} is a CPU tensor of shape {tuple(value.shape)}, whose value would be "
                "frozen into the "
                "graph; create it on the GPU, or pass a Python number"
            )
        if value.device.index != device:
            raise Unprovable(
                f"its arguments are on GPUs {device} and {value.device.index}; a graph belongs to "
                "one GPU"
            )
        if value.layout is not torch.strided or value.is_quantized:
            raise Unprovable(f"argument {i} is a sparse or quantized tensor")
        if value.numel():
            found[i] = value
    return found


def check_allocator() -> None:
    """Raise Unprovable unless torch's own caching allocator is in use: only its pools can be
    looked into.
    """
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        raise Unprovable(
            f"the CUDA allocator is {backend}; graphs need torch's native allocator (unset "
            "PYTORCH_CUDA_ALLOC_CONF=backend and pluggable allocators)"
        )


def check_pool(device: int) -> None:
    """Raise Unprovable while this thread allocates from a memory pool of the caller's.

    torch cannot give a capture's own pool back while another one is in use: it ends the process.
    """
    probe = torch.empty((1,), device=torch.device("cuda", device))
    address = probe.data_ptr()
    for segment in arena.snapshot():
        inside = segment["address"] <= address < segment["address"] + segment["total_size"]
        if inside and tuple(segment["segment_pool_id"]) != (0, 0):
            raise Unprovable(
                "the first calls were made inside torch.cuda.use_mem_pool; make them outside of it"
            )


def _scratch(observed: Observed) -> dict[int, int]:
    returned = {s.allocation for s in observed.plan.storages}
    sizes = [extent(size, stride, dtype.itemsize) for size, stride, dtype in observed.requests]
    return {n: s for n, s in enumerate(sizes) if s >= _OWN_PLACE and n not in returned}


def _own(args: Sequence[Any], released: Collection[int]) -> list[list[int]]:
    """The arguments among `released` that share memory with no other argument, those that share
    memory with each other together.
    """
    owners: dict[int, list[int]] = {}
    for i, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            owners.setdefault(output_plan.storage_id(value), []).append(i)
    return [group for group in owners.values() if all(i in released for i in group)]


def _requests(job: _Job) -> list[Request]:
    plan = job.observed.plan
    found = [
        Request(
            Block("input", i),
            extent(t.shape, t.stride(), t.element_size()),
            t.data_ptr() % ALIGNMENT,
        )
        for i, t in job.inputs.items()
    ]
    found += [
        Request(Block("output", k), s.nbytes, 0) for k, s in enumerate(plan.storages) if s.nbytes
    ]
    found += [Request(Block("scratch", n), nbytes, 0) for n, nbytes in job.scratch.items()]
    if job.random:
        found.append(Request(philox.TARGET, ALIGNMENT, 0))
    return found


def forget_workspaces() -> None:
    """Let cuBLAS's workspaces go (32 MiB for each thread and stream on Hopper): who needs one
    takes one.
    """
    torch._C._cuda_clearCublasWorkspaces()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from freeing GPU objects in the middle of a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _capture_graph(
    run: Callable[[], None], stream: torch.cuda.Stream, pool: Any, device: int
) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.device(device), torch.cuda.stream(stream), _no_collection():
        # A cached workspace would tie the pool to the library's handle, and one from before has no
        # place in it.
        forget_workspaces()
        try:
            graph.capture_begin(pool=pool.id, capture_error_mode="thread_local")
            run()
            graph.capture_end()
        except BaseException:
            _abandon(graph, pool, device)
            _settle_generator(device)
            raise
        finally:
            forget_workspaces()
    return graph


def _abandon(graph: torch.cuda.CUDAGraph, pool: Any, device: int) -> None:
    """End a capture that failed. torch leaves its allocator in capture mode when the end of a
    capture raises.
    """
    with contextlib.suppress(RuntimeError):
        graph.capture_end()
        graph.reset()
        return
    with contextlib.suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(device, pool.id)
        torch._C._cuda_releasePool(device, pool.id)


def _settle_generator(device: int) -> None:
    """Make the default generator usable again after a failed capture.

    torch 2.11 leaves it in capture mode, where any random number raises; a capture that ends well
    takes it out.
    """
    with contextlib.suppress(RuntimeError):
        target = torch.empty((1,), device=torch.device("cuda", device))
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        target.fill_(0)
        graph.capture_end()
        graph.reset()


def _record(job: _Job, reverse: bool) -> Recording:
    driver, device = job.driver, job.signature.device
    plan, requests = job.observed.plan, job.observed.requests
    blocks = _requests(job)
    places = Placeholders(driver, device, blocks[::-1] if reverse else blocks)
    with torch.cuda.device(device):
        pool = torch.cuda.MemPool()
    graph: torch.cuda.CUDAGraph | None = None
    try:
        fake = [
            places.tensor(Block("input", i), a.shape, a.stride(), a.dtype) if i in job.inputs else a
            for i, a in enumerate(job.args)
        ]
        numbers = drawing.stand_ins(sorted(job.signature.numbers))
        for i, number in numbers.items():
            fake[i] = number
        placed = _placed(plan, places)
        allocator = output_plan.PlacedAllocator(
            output_plan.allocator_of(job.function),
            requests,
            {
                **{n: places.tensor(Block("scratch", n), *requests[n]) for n in job.scratch},
                **{
                    s.allocation: placed[k]
                    for k, s in enumerate(plan.storages)
                    if s.allocation is not None and k in placed
                },
            },
        )
        code = output_plan.with_allocator(job.function, allocator)
        target = drawing.probe_target(places) if job.random else None
        kept: list[library_outputs.KeptSegment] = []
        with arena.given_out(device) as given:
            graph = _capture_graph(
                lambda: kept.extend(_run_into(job, code, fake, placed, pool, target)),
                _capture_stream(driver, device),
                pool,
                device,
            )
            segments = arena.pool_segments(pool.id, arena.snapshot(), given())
        ranges = [*places.ranges, *arena.pool_ranges(segments)]
        raw, capture = read_graph(driver, graph.raw_cuda_graph(), AddressMap(ranges))
        found = None
        if target is not None:
            raw, capture, found = drawing.read(driver, raw, capture, target.data_ptr(), numbers)
        return Recording(graph, pool, segments, capture, raw, places, found, kept)
    except BaseException:
        if graph is not None:
            graph.reset()
        places.close()
        raise


def _record_twice(job: _Job, recordings: list[Recording]) -> None:
    """Add two captures to `recordings`, one by one, so that whoever has the list can close them."""
    recordings.append(_record(job, reverse=False))
    recordings.append(_record(job, reverse=True))


def _placed(plan: output_plan.OutputPlan, places: Placeholders) -> dict[int, torch.Tensor]:
    return {
        k: places.tensor(Block("output", k), s.size, s.stride, s.dtype)
        for k, s in enumerate(plan.storages)
        if s.nbytes
    }


def _run_into(
    job: _Job,
    code: Callable[[list[Any]], Any],
    fake: list[Any],
    placed: dict[int, torch.Tensor],
    pool: Any,
    target: torch.Tensor | None,
) -> list[library_outputs.KeptSegment]:
    """Run the generated code, copy what library calls returned into the outputs' places, and draw
    a few random numbers into `target`. Returns the segments of results that stay where they are.
    """
    results = code(fake)  # emptied by the code, which then is the only one to hold its inputs
    kept = library_outputs.settle(
        job.observed.plan,
        results,
        placed,
        job.staying,
        lambda: arena.of_pool(pool.id, arena.snapshot()),
    )
    if target is not None:
        drawing.draw_into(target)
    return kept


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


def capture(
    driver: Driver,
    platform: Platform,
    function: Callable[..., Any],
    args: Sequence[Any],
    signature: Signature,
    observed: Observed,
) -> Captured:
    """Capture `function` twice for these arguments and build its replay.

    `observed` comes from an ordinary call. Raises Unprovable when the region cannot be proven
    right, and whatever the code raises under capture.
    """
    check_allocator()
    check_pool(signature.device)
    inputs = check_inputs(args, signature.device, signature.numbers)
    staying = library_outputs.candidates(observed.plan, signature.saved)
    job = _Job(driver, function, args, inputs, signature, observed, _scratch(observed), staying)
    recordings: list[Recording] = []
    try:
        _record_twice(job, recordings)
        if not library_outputs.agree(*(recording.kept for recording in recordings)):
            while recordings:
                recordings.pop().close()
            job = job._replace(staying=frozenset())
            _record_twice(job, recordings)
        first, second = recordings
        if not first.raw:
            raise Unprovable("it launches no GPU work")
        neighbours = Neighbours(arena.snapshot(), driver.memory_kind)
        patches = _patches(job, first, second, neighbours)
        replay = _build(job, platform, patches, first)
        if neighbours.library:
            replay.only_stream = platform.stream(signature.device)
        second.close()
        return Captured(replay, first)
    except BaseException:
        for recording in recordings:
            recording.close()
        raise


def _patches(
    job: _Job, first: Recording, second: Recording, neighbours: Neighbours
) -> diff.PatchPlan:
    """The words of the first capture that a served call has to write."""
    drawing.check(first.random, second.random, job.observed.drawn.increment)
    drawing.check_outputs(job.observed.plan, first.random)
    constants = output_plan.constants_of(job.function)
    plan = diff.patch_plan(first.capture, second.capture, _statics(constants), neighbours.owner)
    if first.random is None:
        return plan
    words = (*plan.patches, *philox.patches(first.random.states))
    return diff.PatchPlan(words, plan.nodes)


def _build(
    job: _Job,
    platform: Platform,
    patches: diff.PatchPlan,
    recording: Recording,
) -> Replay:
    driver, device, args = job.driver, job.signature.device, job.args
    final = output_plan.direct(job.observed.plan)
    drawn = job.observed.drawn.increment
    tensors = [(i, a) for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    kept = library_outputs.slabs(recording.kept, recording.segments, final.storages)
    chunks = arena.chunk_sizes(recording.segments, patches.patches, kept)
    uses = split.uses_of(patches, recording.capture.edges, _sizes(job, chunks, kept))
    placed = arena.place(patches, split.parts(uses), uses.scratch, chunks)
    executables: list[Executable] = []
    try:
        for part in placed.parts:  # one by one: after an error, those that were made are freed
            made = _executable(driver, device, placed.plan, recording, part.nodes)
            executables.append(made)
        return Replay(
            driver,
            platform,
            executables,
            placed.parts,
            placed.plan,
            final,
            placed.chunks,
            {
                i: (alignment_class(t.data_ptr()), i in job.observed.stays)
                for i, t in job.inputs.items()
            },
            [(i, a) for i, a in enumerate(args) if not isinstance(a, torch.Tensor)],
            output_plan.allocator_of(job.function),
            [(i, a.shape, a.stride()) for i, a in tensors if i in job.signature.checked],
            device,
            job.function,
            philox.Draw(platform.generator(device), drawn) if drawn else None,
            sorted(job.signature.numbers),
            output_pool.sharing(final, job.signature, kept),
        )
    except BaseException:
        for executable in executables:
            driver.destroy_exec(executable.handle)
            driver.destroy_graph(executable.graph)
        raise


def _sizes(
    job: _Job, chunks: dict[Block, int], kept: Mapping[Block, output_pool.Slab]
) -> split.Sizes:
    """What a call has in memory. Arguments that somebody else holds, or that are returned, are not
    let go of early.
    """
    plan = job.observed.plan
    returned = {o.index for o in plan.outputs if isinstance(o, output_plan.OfInput)}
    own = _own(job.args, (job.signature.released & job.inputs.keys()) - returned)
    dropped = {i: job.inputs[i].untyped_storage().nbytes() for i, *_ in own}
    together = {i for group in own for i in group}
    others = [t.untyped_storage() for i, t in job.inputs.items() if i not in together]
    inside = {n for slab in kept.values() for n in slab.storages}
    return split.Sizes(
        chunks,
        [0 if n in inside else s.nbytes for n, s in enumerate(plan.storages)],
        dropped,
        {Block("scratch", n): nbytes for n, nbytes in job.scratch.items()},
        sum({s.data_ptr(): s.nbytes() for s in others}.values()),
        frozenset(kept),
        {i: tuple(beside) for i, *beside in own},
    )


def _executable(
    driver: Driver,
    device: int,
    patches: diff.PatchPlan,
    recording: Recording,
    part: range,
) -> Executable:
    """A part of the captured graph, as a graph of its own."""
    clone = driver.clone_graph(recording.graph.raw_cuda_graph())
    try:
        patched = {p.node for p in patches.patches if p.node in part}
        nodes = {
            i: RawNode(driver.find_in_clone(raw.handle, clone), raw.params)
            for i, raw in enumerate(recording.raw)
            if i in patched
        }
        templates = NodeTemplates(nodes, driver.current_context())
        surplus = [raw.handle for i, raw in enumerate(recording.raw) if i not in part]
        if recording.random is not None:
            surplus.append(recording.random.node)
            for i in {s.node for s in recording.random.states if s.node in part}:
                templates.store(i, driver)
        for handle in surplus:
            driver.remove_node(driver.find_in_clone(handle, clone))
        scratch = _move_off_placeholders(driver, nodes, device)
        executable = driver.instantiate(clone)
        del scratch
        return Executable(executable, clone, templates)
    except BaseException:
        driver.destroy_graph(clone)
        raise


def _move_off_placeholders(driver: Driver, nodes: dict[int, RawNode], device: int) -> torch.Tensor:
    """Point copies and memory sets at ordinary memory, which has to live until the graph is
    instantiated.

    An executable graph accepts new addresses for such nodes only when they are memory of the kind
    it was instantiated with, and placeholder addresses are of another kind than what torch's
    allocator hands out.
    """
    sizes = [n.params.width for n in nodes.values() if isinstance(n.params, MemcpyParams)]
    sizes += [
        n.params.width * n.params.element_size
        for n in nodes.values()
        if isinstance(n.params, MemsetParams)
    ]
    half = -(-max(sizes, default=0) // ALIGNMENT) * ALIGNMENT
    scratch = torch.empty(2 * half, dtype=torch.uint8, device=torch.device("cuda", device))
    for handle, params in nodes.values():
        if isinstance(params, MemcpyParams):
            copy = MemcpyParams.from_buffer_copy(params)
            copy.src_device, copy.dst_device = scratch.data_ptr(), scratch.data_ptr() + half
            driver.set_node(MEMCPY, handle, ctypes.addressof(copy))
        elif isinstance(params, MemsetParams):
            fill = MemsetParams.from_buffer_copy(params)
            fill.dst = scratch.data_ptr()
            driver.set_node(MEMSET, handle, ctypes.addressof(fill))
    return scratch


def reason_of(error: BaseException) -> str:
    """Why a capture failed, as a clause for the report."""
    if isinstance(error, Unprovable):
        return str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return "the GPU ran out of memory while it was captured; free memory or use smaller inputs"
    if isinstance(error, DriverError):
        return f"the CUDA driver refused it ({error})"
    first_line = (str(error).splitlines() or [""])[0][:200]
    return (
        f"it cannot be captured ({type(error).__name__}: {first_line}); code that waits for the "
        "GPU or reads values "
        "on the CPU has to stay outside of the compiled region"
    )
