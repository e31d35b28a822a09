"""The Dynamo backend: options in, a compiled callable out."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from pygraph_rt.cuda import native
from pygraph_rt.cuda.driver import load
from pygraph_rt.cuda.global_flags import state_of
from pygraph_rt.cuda.native.memory import Helper
from pygraph_rt.errors import DriverError, GraphRequired
from pygraph_rt.inductor import autograd_cache, cuts, hook, torch_support
from pygraph_rt.inductor.partition_info import PartitionInfo
from pygraph_rt.inductor.reused_inputs import source_of
from pygraph_rt.options import Options, split_options
from pygraph_rt.region.maker import GraphMaker
from pygraph_rt.region.region import Partition
from pygraph_rt.replay.disposal import Disposal
from pygraph_rt.replay.platform import Native, Platform, same_addresses
from pygraph_rt.reports.candidates import GRAPH
from pygraph_rt.reports.report import REGIONS, Region
from pygraph_rt.select import ballot, remembered
from pygraph_rt.select.groups import CompiledGraph, Selector
from pygraph_rt.select.trial import Instruments
from pygraph_rt.shared_state import Shared

Function = Callable[..., Any]


def _make_graph_maker() -> GraphMaker:
    driver = load()
    folder = torch_support.cache_folder() / "pygraph"
    platform = Platform(
        capturing=torch._C._cuda_isCurrentStreamCapturing,
        device=torch._C._cuda_getDevice,
        stream=torch._C._cuda_getCurrentRawStream,
        generator=lambda device: torch.cuda.default_generators[device],
        reinterpret=torch_support.reinterpret(),
        state_of=state_of,
        native=Native(native.load(folder), Helper(folder), native.fill_stack(folder)),
        same_addresses=getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", same_addresses),
        guard_of=torch_support.guard_of(),
    )
    return GraphMaker(driver, platform, Disposal(driver, platform.capturing))


def _stamp(device: int) -> Any:
    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event


def _make_selector() -> Selector:
    platform = _graph_maker().platform
    helper = platform.native.memory
    return Selector(
        Instruments(time.perf_counter_ns, _stamp, platform.capturing),
        will_be_quicker=lambda: helper is not None and helper.building,
    )


_graph_maker = Shared(_make_graph_maker)
"""Makes graphs for all regions of the process. Raises DriverError without a usable driver."""

_selector = Shared(_make_selector)
"""Puts all of the process's regions into groups, and gives each group its trial."""


def _machine(device: int) -> dict[str, str]:
    """What a remembered decision depends on, beside the code."""
    return {
        "gpu": torch.cuda.get_device_name(device),
        "driver": str(load().version()),
        "helpers": str(_graph_maker().platform.native.launch is not None),
        **torch_support.versions(),
    }


def why_without_graphs() -> str | None:
    """Why this process compiles without graphs, a clause; None: graphs are possible."""
    reason = torch_support.why_plain()
    if reason is None:
        try:
            _graph_maker()
        except DriverError as error:
            reason = str(error)
    return reason


def _refuse(required: bool, function: Function, region: Region, reason: str) -> Function:
    """Report a compiled graph without any region, and count its calls. Where graphs are required, a
    call raises GraphRequired.
    """
    region.decline(reason)
    REGIONS().add(region)

    def call(*args: Any) -> Any:
        if required:
            raise GraphRequired(region.reason)
        region.unserved += 1
        return function(*args)

    return call


class Backend:
    """The callable behind `torch.compile(..., backend="pygraph")`."""

    __name__ = "pygraph"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: weakref.WeakSet[Partition] = weakref.WeakSet()

    def __reduce__(self) -> str:
        """The same object in copies and pickles of a compiled model, as for any function."""
        return "pygraph"

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Function:
        """Compile one graph. Raises OptionError for an unknown option.

        Without a GPU, without a driver, or with a torch this version does not know, Inductor
        compiles without graphs; a notice says so once, and the report says it of each graph.
        """
        own, rest = split_options(options, torch_support.option_names())
        patches = {**torch_support.mode_options(mode), **rest}
        refuse = partial(_refuse, own.required)
        reason = why_without_graphs() or autograd_cache.why_not_ours()
        if reason is not None:
            REGIONS().notice(
                f"pygraph compiles with Inductor and without CUDA graphs, because {reason}."
            )
            return hook.compile_plain(gm, example_inputs, patches, reason, refuse)
        helper = _graph_maker().platform.native.memory
        if helper is not None and own.graphs != "never":
            helper.expect(len(example_inputs))
        # Ranks share their choices with each other, not with later jobs of another size.
        alone = ballot.of_this_process() is None
        remember = alone and own.remember and remembered.wanted_by_environment()
        decisions = remembered.Decisions(remembered.folder() if remember else None)
        compiled = CompiledGraph(_selector(), decisions)
        ended = cuts.graph_break(gm)

        def wrap(function: Function, info: PartitionInfo) -> Partition:
            if ended is not None:
                info.region.cuts.append(ended.to_dict())
            return self._wrap(function, info, own, compiled)

        return hook.compile_graphed(  # type: ignore[no-any-return]
            gm, example_inputs, patches, wrap, own.placement, refuse
        )

    def _wrap(
        self, function: Function, info: PartitionInfo, options: Options, compiled: CompiledGraph
    ) -> Partition:
        REGIONS().add(info.region)
        partition = Partition(function, info.region, options, _graph_maker(), info.signature)
        if options.graphs == "auto":
            _select(partition, function, compiled)
        with self._lock:
            self._partitions.add(partition)
        return partition

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


def _select(partition: Partition, function: Function, compiled: CompiledGraph) -> None:
    """Do as an earlier process decided, or find out."""
    source = source_of(function)
    if source:
        name = getattr(function, "__name__", "")
        partition.key = remembered.code_key(source, name, _machine(partition.device))
    known = compiled.decisions.load(partition.key)
    if known is None:
        compiled.add(partition)
        return
    partition.region.choice = known.choice
    partition.region.choice_why = f"remembered from an earlier process: {known.why}"
    if known.choice != GRAPH:
        partition.leave(partition.region.choice_why)


pygraph = Backend()


def compile(model: Any = None, **kwargs: Any) -> Any:
    """`torch.compile(model, backend="pygraph", ...)`; takes every other argument of
    `torch.compile`.

    `mode` and `options` may be given together here, which `torch.compile` does not allow.
    """
    mode = kwargs.pop("mode", None)
    options = dict(kwargs.pop("options", None) or {})
    split_options(options, torch_support.option_names())
    merged = {**torch_support.mode_options(mode), **options}
    return torch.compile(model, backend=pygraph, options=merged or None, **kwargs)
