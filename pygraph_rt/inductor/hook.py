"""Everything that touches Inductor: how a graph is compiled, and how its partitions are reached.

The form is the same for torch 2.11 to 2.15: `compile_fx(..., inner_compile=...)`. Inductor is
told that CUDA graphs are wanted, so that it splits off what cannot be captured into partitions of
its own, and then not given a chance to make them (`cudagraphs=BoxedBool(False)`); each partition
is wrapped through `recursively_apply_fns` instead. A graph that comes out of AOTAutograd's cache
never gets there (autograd_cache.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial, wraps
from types import FunctionType
from typing import Any, TypeVar

from pygraph_rt.host_values.crossings import host_only
from pygraph_rt.host_values.lowerings import register_lowerings
from pygraph_rt.host_values.placement import Placement, place
from pygraph_rt.inductor import autograd_cache
from pygraph_rt.inductor.collectives import cut_at_what_runs_once
from pygraph_rt.inductor.cuts import Cut, lines_of, splits
from pygraph_rt.inductor.graph_info import GraphInfo, from_text, to_text, with_lines_of
from pygraph_rt.inductor.input_asserts import in_partitions
from pygraph_rt.inductor.partition_info import PartitionInfo, Signature
from pygraph_rt.inductor.runner_inlining import (
    Inlined,
    calls_it,
    graph_call,
    read_runner,
    region_call,
    replace_call,
)
from pygraph_rt.inductor.torch_support import reinterpret
from pygraph_rt.inductor.uncompiled_graph import describe, identity
from pygraph_rt.reports.report import Region

T = TypeVar("T")
Function = Callable[..., Any]
WrapPartition = Callable[[Function, PartitionInfo], Function]
Refuse = Callable[[Function, Region, str], Function]
"""Given a compiled graph that gets no region, its place in reports, and why (a clause): what to
call instead.
"""


def keep(function: Function, region: Region, reason: str) -> Function:
    """Leave a compiled graph that gets no region as it is."""
    return function


def compile_plain(
    gm: Any, inputs: Sequence[Any], patches: dict[str, Any], reason: str, refuse: Refuse = keep
) -> Function:
    """Compile a graph with Inductor alone; `reason`, a clause, goes to `refuse`."""
    from torch._inductor.compile_fx import compile_fx

    region = Region(*identity(gm))
    compiled: Any = compile_fx(gm, inputs, config_patches=patches or None)
    # Without the layer that keeps Dynamo off it: Dynamo puts its own around what is returned.
    bare = getattr(compiled, "_torchdynamo_orig_callable", compiled)
    refused = refuse(bare, region, reason)
    return compiled if refused is bare else wraps(bare)(refused)


def compile_graphed(
    gm: Any,
    inputs: Sequence[Any],
    patches: dict[str, Any],
    wrap: WrapPartition,
    placing: bool = True,
    refuse: Refuse = keep,
) -> Any:
    """Compile a graph with Inductor, with `wrap` around each of its partitions: those of an
    inference graph, or of a training graph's forward and backward; `refuse` around a graph that has
    none. `placing`: take CPU values to the GPU first.
    """
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.utils import BoxedBool
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    name, source = identity(gm)
    parts = any(map(is_traceable_wrapper_subclass, inputs))

    def inner(graph: Any, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
        kwargs["cudagraphs"] = BoxedBool(False)
        # What is known is read first, because placement and compilation change the graph.
        info = describe(graph, example_inputs, kwargs, GraphInfo(name, source, parts=parts))
        placement = _place(graph) if placing else Placement()
        info = info._replace(placement=placement, cuts=_cuts(graph.graph))
        kwargs[autograd_cache.ARGUMENT] = to_text(info)
        cut = cut_at_what_runs_once(graph.graph.nodes)
        with autograd_cache.compiling(), cut, in_partitions():
            compiled = compile_fx_inner(graph, example_inputs, **kwargs)
        wrap_partitions(compiled, info, wrap, refuse)
        return compiled

    def restore(compiled: Any, known: str) -> None:
        info = with_lines_of(from_text(known, name, source), lines_of(gm))
        wrap_partitions(compiled, info, wrap, refuse)

    settings = {**patches, "triton.cudagraphs": True, "graph_partition": True}
    options = f"placement={placing and _compiles_cpp()}"
    with autograd_cache.cached(restore, options) as more:
        return compile_fx(gm, inputs, inner_compile=inner, config_patches={**settings, **more})


def _place(graph: Any) -> Placement:
    """Take CPU tensors out of GPU operators' arguments, in a graph that is about to be compiled.

    It happens here and not in one of Inductor's passes, because those don't run when the compiled
    graph comes out of Inductor's cache, and what was left alone would not be known then.
    """
    if not _compiles_cpp():
        return Placement()
    register_lowerings()
    placement = place(graph.graph)
    graph.recompile()
    return placement


def _cuts(graph: Any) -> tuple[Cut, ...]:
    """What splits a graph once CPU values are placed; what runs ahead of the GPU splits nothing."""
    ahead = host_only(graph)
    return tuple(splits(node for node in graph.nodes if node not in ahead))


@cache
def _compiles_cpp() -> bool:
    """Whether Inductor can compile code for the CPU, which a copy is made ready by."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, OSError):
        return False
    return True


def wrap_partitions(
    compiled: Any, graph: GraphInfo, wrap: WrapPartition, refuse: Refuse = keep
) -> None:
    """Put `wrap` around every partition of a `CompiledFxGraph`; `refuse` around one that has none,
    or that no region can be made of.
    """
    reason = why_no_region(compiled, graph)
    if reason is not None:
        _refuse_whole(compiled, graph, reason, refuse)
        return
    maps = compiled.partition_maps
    runner: Any = getattr(compiled.recursively_apply_fns, "__self__", None)
    inlined = _inlined(compiled, runner, graph.inputs)
    whole = inlined is not None
    infos = [
        PartitionInfo(_region(compiled, graph, i), _signature(compiled, graph, i, whole))
        for i in range(len(maps))
    ]
    if inlined is None:
        compiled.recursively_apply_fns([partial(_with_region, wrap, info) for info in infos])
        return
    region = wrap(inlined, infos[0])
    alone = inlined.runner.returns_all(len(maps[0].output_index_mapping))
    partition = inlined.generated if alone else None
    call = graph_call(region, infos[0].region, inlined.runner, runner.call, partition)
    compiled.current_callable = replace_call(compiled.current_callable, runner.call, call)


def _with_region(wrap: WrapPartition, info: PartitionInfo, function: Function) -> Function:
    """A partition's function, with its region before it."""
    return region_call(wrap(function, info), info.region, function)


def why_no_region(compiled: Any, graph: GraphInfo) -> str | None:
    """Why nothing of a compiled graph can be a region, a clause; None: its partitions can."""
    if "cuda" not in getattr(compiled, "device_types", ()):
        return "it does no work on a GPU"
    devices = sorted(compiled.device_idxs)
    if len(devices) != 1:
        found = " and ".join(str(device) for device in devices) or "no known one"
        return (
            f"its tensors are on GPUs {found}; a graph belongs to one GPU, so compile the part of "
            "each GPU by itself"
        )
    if getattr(compiled, "partition_maps", None) is None:
        return (
            "Inductor has not split it into partitions (as with cpp_wrapper=True, or "
            "graph_partition=False)"
        )
    if not compiled.partition_maps:
        left_out = "; ".join(dict.fromkeys(cut.why for cut in graph.cuts))
        return (
            "Inductor keeps all of its operations out of what can be captured"
            f"{f' ({left_out})' if left_out else _settings()}"
        )
    if graph.nested:
        return f"{graph.nested} has to run on each call, and no nested region can be cut"
    if getattr(compiled, "recursively_apply_fns", None) is None:
        return "this torch does not say how to reach its partitions"
    return None


def _settings() -> str:
    """Inductor's settings that keep operations out of partitions, as far as they are set."""
    from torch._inductor import config

    names = ("cudagraph_min_partition_size", "cudagraph_skip_dynamic_graphs")
    found = [f"triton.{n}={v}" for n in names if (v := getattr(config.triton, n, None))]
    if getattr(config, "custom_should_partition_ops", None):
        found.append("custom_should_partition_ops")
    return f" ({', '.join(found)})" if found else ""


def _refuse_whole(compiled: Any, graph: GraphInfo, reason: str, refuse: Refuse) -> None:
    region = _row(graph, graph.title)
    region.cuts = [cut.to_dict() for cut in graph.cuts]
    call = getattr(compiled, "current_callable", None)
    if call is not None:
        compiled.current_callable = refuse(call, region, reason)


def _row(graph: GraphInfo, name: str) -> Region:
    region = Region(name, graph.source)
    placed = graph.placement
    region.host_values, region.host_bytes = placed.values, placed.nbytes
    region.host_notes = [str(note) for note in placed.notes]
    return region


def _region(compiled: Any, graph: GraphInfo, number: int) -> Region:
    """A partition's place in reports."""
    maps = compiled.partition_maps
    region = _row(graph, f"{graph.title} partition {number + 1} of {len(maps)}")
    static = (getattr(compiled, "fx_kwargs", None) or {}).get("static_input_idxs") or ()
    moving = set(range(graph.inputs)) - set(static)
    region.moving = _arguments(maps[number].input_index_mapping, moving)
    if len(maps) > 1:
        region.cuts = [cut.to_dict() for cut in graph.cuts]
    return region


def _signature(compiled: Any, graph: GraphInfo, number: int, inlined: bool) -> Signature:
    """What is known of a partition's arguments, and of its results (of the graph's outputs where
    the runner is inlined).
    """
    maps = compiled.partition_maps
    inputs, outputs = maps[number].input_index_mapping, maps[number].output_index_mapping
    scalars, saved = graph.scalars, graph.saved
    if not inlined:
        scalars = _results(outputs, scalars)
        saved = frozenset(_results(outputs, dict.fromkeys(saved)))
    (device,) = compiled.device_idxs
    donated = graph.donated - {*compiled.mutated_input_idxs}
    return Signature(
        device=device,
        dynamic=bool(graph.dynamic),
        forward=graph.forward,
        gradients=graph.backward and not graph.parts,
        written=_arguments(inputs, {None, *graph.donated, *compiled.mutated_input_idxs}),
        # What one partition has done with, another one may still need.
        donated=_arguments(inputs, donated) if len(maps) == 1 else frozenset(),
        released=_arguments(inputs, {None, *graph.donated}),
        numbers=_arguments(inputs, graph.seeds),
        unread=_arguments(inputs, graph.unread),
        scalars=scalars,
        saved=saved,
    )


def _inlined(compiled: Any, runner: Any, inputs: int) -> Inlined | None:
    """The only partition of a graph with what its runner does around it, if the runner only passes
    things on and something else can be called in its place.
    """
    maps, call = compiled.partition_maps, getattr(runner, "call", None)
    functions: Sequence[Any] = getattr(runner, "partitions", ())
    if len(maps) != 1 or len(functions) != 1 or not isinstance(functions[0], FunctionType):
        return None
    if not calls_it(getattr(compiled, "current_callable", None), call):
        return None
    found = read_runner(call, inputs, len(maps[0].output_index_mapping))
    return None if found is None else Inlined(functions[0], found, reinterpret())


def _results(outputs: Sequence[Any], known: Mapping[int, T]) -> dict[int, T]:
    """What is `known` of a graph's outputs, for those of a partition; `outputs` says which output,
    or (torch 2.14) which outputs, of the graph each one is.
    """
    found: dict[int, T] = {}
    for i, target in enumerate(outputs):
        for j in target if isinstance(target, (list, tuple)) else [target]:
            if j in known:
                found[i] = known[j]
    return found


def _arguments(inputs: Sequence[int | None], chosen: Collection[int | None]) -> frozenset[int]:
    """Arguments of a partition that are among the `chosen` inputs of the graph; `inputs` says
    which input each argument is, None for a buffer of another partition.
    """
    return frozenset(i for i, source in enumerate(inputs) if source in chosen)
