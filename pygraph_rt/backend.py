"""The Dynamo backend: options in, a compiled callable out."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from pygraph_rt.cuda import native
from pygraph_rt.cuda.driver import load
from pygraph_rt.cuda.global_flags import state_of, watch
from pygraph_rt.cuda.native.memory import Helper
from pygraph_rt.errors import DriverError
from pygraph_rt.inductor import cuts, hook
from pygraph_rt.options import Options, split_options
from pygraph_rt.region.maker import GraphMaker
from pygraph_rt.region.region import Partition
from pygraph_rt.replay.disposal import Disposal
from pygraph_rt.replay.replay import Platform, same_addresses
from pygraph_rt.reports.report import REGIONS, notice
from pygraph_rt.select import remembered
from pygraph_rt.select.groups import CompiledGraph, Selector
from pygraph_rt.select.stats import GRAPH
from pygraph_rt.select.trial import Instruments


@lru_cache(maxsize=1)
def _graph_maker() -> GraphMaker:
    """Makes graphs for all regions of the process. Raises DriverError without a usable driver."""
    driver = load()
    folder = hook.cache_folder() / "pygraph"
    platform = Platform(
        state_of=state_of,
        capturing=torch._C._cuda_isCurrentStreamCapturing,
        device=torch._C._cuda_getDevice,
        stream=torch._C._cuda_getCurrentRawStream,
        same_addresses=getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", same_addresses),
        reinterpret=hook.reinterpret(),
        generator=lambda device: torch.cuda.default_generators[device],
        native=native.load(folder),
        memory=Helper(folder),
        watch_state=watch,
    )
    return GraphMaker(
        driver, platform, Disposal(driver, torch.cuda.synchronize, platform.capturing)
    )


@lru_cache(maxsize=1)
def _selector() -> Selector:
    """Puts all of the process's regions into groups, and gives each its trial."""

    def stamp(device: int) -> Any:
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(device))
        return event

    return Selector(Instruments(time.perf_counter_ns, stamp, _graph_maker().platform.capturing))


@lru_cache(maxsize=64)
def _machine(device: int) -> dict[str, str]:
    """What a remembered decision depends on, beside the code."""
    return {
        "gpu": torch.cuda.get_device_name(device),
        "driver": str(load().version()),
        **hook.versions(),
    }


class Backend:
    """The callable behind `torch.compile(..., backend="pygraph")`."""

    __name__ = "pygraph"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: weakref.WeakSet[Partition] = weakref.WeakSet()

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile one graph. Raises OptionError for an unknown option.

        Without a GPU, without a driver, or with a torch this version does not know, this is plain
        Inductor, and a notice says so once.
        """
        own, rest = split_options(options, hook.option_names())
        patches = {**hook.mode_options(mode), **rest}
        reason = hook.why_plain()
        if reason is None:
            try:
                _graph_maker()
            except (DriverError, AttributeError) as error:
                reason = f"{error}; compiling with plain Inductor"
        if reason is not None:
            notice(reason)
            return hook.compile_plain(gm, example_inputs, patches)  # type: ignore[no-any-return]

        folder = (
            remembered.folder() if own.remember and remembered.wanted_by_environment() else None
        )
        compiled = CompiledGraph(_selector(), remembered.Decisions(folder))
        ended = cuts.graph_break(gm)

        def wrap(function: Callable[..., Any], info: hook.PartitionInfo) -> Callable[..., Any]:
            if ended is not None:
                info.region.cuts.append(ended.to_dict())
            return self._wrap(function, info, own, compiled)

        return hook.compile_graphed(  # type: ignore[no-any-return]
            gm, example_inputs, patches, wrap, own.placement
        )

    def _wrap(
        self,
        function: Callable[..., Any],
        info: hook.PartitionInfo,
        options: Options,
        compiled: CompiledGraph,
    ) -> Partition:
        REGIONS.add(info.region)
        partition = Partition(function, info.region, options, _graph_maker(), info.signature)
        if options.graphs == "auto":
            self._select(partition, function, info.signature.device, compiled)
        with self._lock:
            self._partitions.add(partition)
        return partition

    def _select(
        self,
        partition: Partition,
        function: Callable[..., Any],
        device: int,
        compiled: CompiledGraph,
    ) -> None:
        """Do as an earlier process decided, or find out."""
        source = hook.source_of(function)
        if source is not None:
            name = getattr(function, "__name__", "")
            partition.key = remembered.code_key(source, name, _machine(device))
        known = compiled.decisions.load(partition.key)
        if known is None:
            compiled.add(partition)
            return
        partition.region.choice = known.choice
        partition.region.choice_why = f"remembered from an earlier process: {known.why}"
        if known.choice != GRAPH:
            partition.leave(partition.region.choice_why)

    def partitions(self) -> list[Partition]:
        """The partitions that are in use, in no particular order."""
        with self._lock:
            return list(self._partitions)

    def reset(self) -> None:
        """Free every graph (`torch._dynamo.reset` calls this)."""
        with self._lock:
            partitions = list(self._partitions)
            self._partitions.clear()
        for partition in partitions:
            partition.close()


pygraph = Backend()


def compile(model: Any = None, **kwargs: Any) -> Any:
    """`torch.compile(model, backend="pygraph", ...)`; takes every other argument of
    `torch.compile`.

    `mode` and `options` may be given together here, which `torch.compile` does not allow.
    """
    mode = kwargs.pop("mode", None)
    options = dict(kwargs.pop("options", None) or {})
    split_options(options, hook.option_names())
    merged = {**hook.mode_options(mode), **options}
    return torch.compile(model, backend=pygraph, options=merged or None, **kwargs)
