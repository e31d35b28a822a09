"""torch's stream capture, begun and ended so that nothing of the caller's is touched.

On a stream of the runtime's own, in thread-local mode, into a memory pool of its own. Nothing is
executed, and nothing of the user's allocator cache is given up, so unlike `torch.cuda.graph` no
device-wide wait is needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.interrupts import to_the_end

# at::cuda::clearCublasWorkspacesForStream(cudaStream_t), of torch 2.12 and later.
_CLEAR_FOR_STREAM = "_ZN2at4cuda30clearCublasWorkspacesForStreamEP11CUstream_st"


@cache
def capture_stream(driver: Driver, device: int) -> torch.cuda.ExternalStream:
    """A stream that nothing else launches on: whatever is launched on a capturing stream becomes
    part of the graph.
    """
    with torch.cuda.device(device):
        return torch.cuda.ExternalStream(  # type: ignore[no-untyped-call]
            driver.create_stream(), device=device
        )


def capture_graph(
    run: Callable[[], None], stream: torch.cuda.Stream, pool: Any, device: int
) -> torch.cuda.CUDAGraph:
    """What `run` launches on the `stream`, with memory from the `pool`. Raises what `run` raises;
    the stream, the pool and torch's generator can be used again then.
    """
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.device(device), torch.cuda.stream(stream), _no_collection():
        try:
            _capture(graph, run, pool, device)
        except BaseException:
            to_the_end(lambda: _restore_generator(device))
            raise
        finally:
            # torch keeps a cuBLAS workspace for each handle and stream. This one is of the pool,
            # which would live as long; and the next capture has a pool of its own.
            clear_workspaces(stream.cuda_stream)
    return graph


def _capture(
    graph: torch.cuda.CUDAGraph, run: Callable[[], object], pool: Any, device: int
) -> None:
    """Capture on the current stream. Where that fails, nothing is being captured afterwards."""
    generator = torch.cuda.default_generators[device]
    state = generator.graphsafe_get_state()  # checkpointed code exchanges it while it runs
    pool_id = pool.id

    def abandon() -> None:
        generator.graphsafe_set_state(state)
        _abandon(graph, pool_id, device)

    try:
        graph.capture_begin(pool=pool_id, capture_error_mode="thread_local")
        run()
        graph.capture_end()
    except BaseException:
        to_the_end(abandon)
        raise


def clear_workspaces(stream: int) -> None:
    """Let cuBLAS's workspaces for a stream go.

    Those of other streams stay: a graph that the program captured itself may use them. torch 2.11
    can only clear all of them.
    """
    _clear_for_stream()(stream)


@cache
def _clear_for_stream() -> Callable[[int], None]:
    library = Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"
    try:
        function = ctypes.CDLL(str(library))[_CLEAR_FOR_STREAM]
    except (OSError, AttributeError):
        return lambda stream: torch._C._cuda_clearCublasWorkspaces()
    function.argtypes, function.restype = [ctypes.c_void_p], None
    return function


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


def _abandon(graph: torch.cuda.CUDAGraph, pool_id: tuple[int, int], device: int) -> None:
    """End a capture that failed; it may be run again after an exception at any moment of it.

    torch leaves its allocator in capture mode when the end of a capture raises. Where it is in no
    such mode, ending that raises.
    """
    if torch.cuda.is_current_stream_capturing():
        with contextlib.suppress(RuntimeError):
            torch._C._CUDAGraph.capture_end(graph)
    with contextlib.suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(device, pool_id)
        torch._C._cuda_releasePool(device, pool_id)
    graph.reset()


def _restore_generator(device: int) -> None:
    """Make the default generator usable again after a failed capture.

    torch 2.11 leaves it in capture mode, where any random number raises; a capture that ends well
    takes it out.
    """
    with contextlib.suppress(RuntimeError):
        target = torch.empty((1,), device=torch.device("cuda", device))
        graph = torch.cuda.CUDAGraph()
        _capture(graph, lambda: target.fill_(0), torch.cuda.MemPool(), device)
        graph.reset()
