"""One capture of a region's generated code, on placeholder tensors. Nothing is executed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from pygraph_rt.capture import generated, placeholders
from pygraph_rt.capture.checks import Inputs
from pygraph_rt.capture.nodes import read_graph
from pygraph_rt.capture.observe import Observed
from pygraph_rt.capture.operators import Operators
from pygraph_rt.capture.placeholders import Placeholders, Request
from pygraph_rt.capture.stream_capture import capture_graph, capture_stream
from pygraph_rt.cuda.driver import Driver
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.memory import library_outputs, pool
from pygraph_rt.plan.graph import Capture
from pygraph_rt.plan.memory_blocks import ALIGNMENT, AddressMap, Block, Range, extent
from pygraph_rt.rng import philox, probe

# Allocations of the generated code that get addresses of their own, in bytes and more. What is
# smaller shares torch's smallest segments.
_OWN_PLACE = 1 << 20


class Job(NamedTuple):
    """What is captured, twice. `inputs` are the GPU tensors among `args`; `retainable` are storages
    of outputs that need not be copied; `operators` watches what the code calls.
    """

    driver: Driver
    function: Callable[..., Any]
    args: Sequence[Any]
    inputs: Inputs
    signature: Signature
    observed: Observed
    retainable: frozenset[int]
    operators: Operators

    @property
    def random(self) -> bool:
        """Whether kernels take seeds and offsets."""
        return bool(self.observed.drawn.increment or self.signature.numbers)

    def scratch(self) -> dict[int, int]:
        """Bytes of large allocations of the generated code that are no outputs, by ordinal."""
        returned = {s.allocation for s in self.observed.plan.storages}
        sizes = [
            extent(size, stride, dtype.itemsize) for size, stride, dtype in self.observed.requests
        ]
        return {n: s for n, s in enumerate(sizes) if s >= _OWN_PLACE and n not in returned}


@dataclass
class Recording:
    """One capture, with everything it needs to stay readable. `close` frees graph, pool and
    addresses.

    random: the random numbers that its kernels use, None when nothing is drawn; they are
    parameters then. retained: segments that outputs stay in.
    """

    torch_graph: torch.cuda.CUDAGraph
    pool: Any
    segments: list[pool.Segment]
    capture: Capture
    placeholders: Placeholders
    random: probe.Random | None
    retained: list[library_outputs.RetainedSegment]

    def poisonable(self, device: int) -> list[torch.Tensor]:
        """All memory behind addresses that this capture used, as byte tensors."""
        pools = [
            placeholders.tensor_at(s.address, s.size, (s.size,), (1,), torch.uint8, device)
            for s in self.segments
        ]
        return [self.placeholders.physical(), *pools]

    def close(self) -> None:
        """Let go of the torch graph, its pool and the placeholder addresses."""
        self.torch_graph.reset()
        self.pool = None
        self.placeholders.close()


def record(job: Job, reverse: bool) -> Recording:
    """Capture the job's code once, with its placeholders in order or in `reverse`.

    Raises Unprovable for what cannot be replayed, and what the code raises; nothing is held then.
    """
    blocks = _requests(job)[:: -1 if reverse else 1]
    with contextlib.ExitStack() as undo:
        places = Placeholders(job.driver, job.signature.device, blocks)
        undo.callback(places.close)
        recorder = _Recorder(job, places)
        graph = recorder.capture()
        undo.callback(graph.reset)
        recording = recorder.read(graph)
        undo.pop_all()
        return recording


def _requests(job: Job) -> list[Request]:
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
    found += [Request(Block("scratch", n), nbytes, 0) for n, nbytes in job.scratch().items()]
    if job.random:
        found.append(Request(philox.TARGET, ALIGNMENT, 0))
    return found


class _Recorder:
    """Stands for one capture while it is made."""

    def __init__(self, job: Job, places: Placeholders) -> None:
        self._job = job
        self._places = places
        self._device = job.signature.device
        self._numbers = probe.stand_ins(sorted(job.signature.numbers))
        shape = ((philox.PROBE_ELEMENTS,), (1,), torch.float32)
        self._target = places.tensor(philox.TARGET, *shape) if job.random else None
        self._outputs = {
            k: places.tensor(Block("output", k), s.size, s.stride, s.dtype)
            for k, s in enumerate(job.observed.plan.storages)
            if s.nbytes
        }
        self._retained: list[library_outputs.RetainedSegment] = []
        self._segments: list[pool.Segment] = []
        with torch.cuda.device(self._device):
            self._pool = torch.cuda.MemPool()

    def capture(self) -> torch.cuda.CUDAGraph:
        """Run the generated code under a stream capture."""
        job = self._job
        code = generated.with_allocator(job.function, self._allocator())
        args = [self._argument(i, value) for i, value in enumerate(job.args)]
        with pool.record_allocations(self._device) as allocations:
            graph = capture_graph(
                lambda: self._run(code, args),
                capture_stream(job.driver, self._device),
                self._pool,
                self._device,
            )
            self._segments = pool.pool_segments(self._pool.id, pool.snapshot(), allocations())
        return graph

    def _argument(self, i: int, value: Any) -> Any:
        if i in self._job.inputs:
            return self._places.tensor(Block("input", i), value.shape, value.stride(), value.dtype)
        return self._numbers.get(i, value)

    def _allocator(self) -> generated.PlacedAllocator:
        """Outputs and scratch memory at placeholders, all else from the pool."""
        job = self._job
        requests = job.observed.requests
        placed: dict[int, torch.Tensor] = {
            n: self._places.tensor(Block("scratch", n), *requests[n]) for n in job.scratch()
        }
        for k, storage in enumerate(job.observed.plan.storages):
            if storage.allocation is not None and k in self._outputs:
                placed[storage.allocation] = self._outputs[k]
        return generated.PlacedAllocator(generated.allocator_of(job.function), requests, placed)

    def _run(self, code: Callable[[list[Any]], Any], args: list[Any]) -> None:
        """Run the code, copy what library calls returned into the outputs' places, or retain its
        segment, and draw a few random numbers for the probe.
        """
        with self._job.operators:
            # Emptied by the code, which then is the only one to hold its inputs.
            results = code(args)
        self._retained = library_outputs.copy_or_retain(
            self._job.observed.plan,
            results,
            self._outputs,
            self._job.retainable,
            lambda: pool.of_pool(self._pool.id, pool.snapshot()),
        )
        if self._target is not None:
            probe.draw_into(self._target)

    def read(self, graph: torch.cuda.CUDAGraph) -> Recording:
        """The captured graph as plain data."""
        driver, handle = self._job.driver, graph.raw_cuda_graph()
        segments = enumerate(self._segments)
        pool_ranges = [Range(s.address, s.size, Block("pool", i)) for i, s in segments]
        blocks = AddressMap([*self._places.ranges, *pool_ranges])
        capture = read_graph(driver, handle, blocks)
        random = None
        if self._target is not None:
            numbers = {t.data_ptr(): Block("number", i) for i, t in self._numbers.items()}
            capture, random = probe.read(driver, capture, self._target.data_ptr(), numbers)
        return Recording(
            graph, self._pool, self._segments, capture, self._places, random, self._retained
        )
