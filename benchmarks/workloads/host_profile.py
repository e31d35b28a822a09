"""Where the host's time goes in a few calls: compiled graphs, and what CUDA graphs cost in them.

A layer is a function that is timed from the outside, so layers contain each other, and a layer
holds the time of the clocks inside of it: a fifth of a microsecond a call of each.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple
from unittest import mock

from benchmarks.workloads.running import Running, synchronize

_CALLS = 20


class Layer(NamedTuple):
    """A function of a loaded module; ``owner`` is a class of it."""

    name: str
    module: str
    owner: str
    function: str


_TREES = "torch._inductor.cudagraph_trees"
LAYERS = (
    Layer("compiled graphs", "torch._inductor.output_code", "CompiledFxGraph", "__call__"),
    Layer("regions", _TREES, "CUDAGraphTreeManager", "_run"),
    Layer("input copies", _TREES, "CUDAGraphNode", "_copy_inputs_and_remove_from_src"),
    Layer("memory and launch", _TREES, "CUDAGraphNode", "run_graph"),
    Layer("outputs", _TREES, "CUDAGraphNode", "reconstruct_outputs"),
    Layer("regions", "pygraph_rt.region.region", "Partition", "__call__"),
    Layer("memory and launch", "pygraph_rt.replay.launcher", "Launcher", "launch"),
    Layer("outputs", "pygraph_rt.replay.results", "Results", "build"),
    Layer("outputs", "pygraph_rt.memory.slabs", "SlabMemory", "outputs"),
)


def measure(live: Running, batches: list[Any]) -> dict[str, dict[str, float]]:
    """For each layer that ran: microseconds of the host, and times it ran, per call."""
    live.reset()
    calls = max(1, min(_CALLS, live.case.calls_per_reset - 1))
    live.call(batches[0])
    synchronize(live.device)
    spent: dict[str, list[float]] = {}
    with _timed(spent):
        for index in range(calls):
            live.call(batches[index % len(batches)])
        synchronize(live.device)
    return {
        name: {"us": round(sum(times) / calls * 1e6, 1), "times": len(times) / calls}
        for name, times in spent.items()
    }


@contextlib.contextmanager
def _timed(spent: dict[str, list[float]]) -> Iterator[None]:
    """Within, each layer's calls are added to ``spent``, in seconds."""
    with contextlib.ExitStack() as stack:
        for layer in LAYERS:
            owner = getattr(sys.modules.get(layer.module), layer.owner, None)
            function = getattr(owner, layer.function, None)
            if function is not None:
                clock = _clocked(function, spent, layer.name)
                stack.enter_context(mock.patch.object(owner, layer.function, clock))
        yield


def _clocked(
    function: Callable[..., Any], spent: dict[str, list[float]], name: str
) -> Callable[..., Any]:
    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent.setdefault(name, []).append(time.perf_counter() - started)

    return timed
