"""Everything that touches Inductor: how a graph is compiled, and how its partitions are reached.

The form is the same for torch 2.11 to 2.15: `compile_fx(..., inner_compile=...)`. Inductor is
told that CUDA graphs are wanted, so that it splits off what cannot be captured into partitions of
its own, and then not given a chance to make them (`cudagraphs=BoxedBool(False)`); each partition
is wrapped through `recursively_apply_fns` instead. The AOTAutograd cache is off meanwhile,
because a hit in it would skip the wrapping; the FX graph cache stays in use.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple, TypeVar

import torch

from pygraph_rt.capture.output_plan import Scalar
from pygraph_rt.host_values.ops import FROM_SIZES, NUMBER, STAY, TO_GPU
from pygraph_rt.host_values.placement import Placement, host_only, place
from pygraph_rt.inductor.cuts import Cut, splits
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.inductor.runner_inlining import Passage, Passed, Whole, finds, read_passage, splice
from pygraph_rt.reports.report import Region

OLDEST, NEWEST = (2, 11), (2, 15)


class _Attention(NamedTuple):
    """Where an attention takes its dropout rate, and which results are the seed and the offset it
    drew with, for its backward. on_gpu: these are GPU tensors. offset_unused: it is one that the
    operator returns and never fills.
    """

    rate: int
    seed: int
    offset: int
    on_gpu: bool = False
    offset_unused: bool = False


_ATTENTIONS = {
    "aten._scaled_dot_product_efficient_attention.default": _Attention(5, 2, 3),
    "aten._efficient_attention_forward.default": _Attention(8, 2, 3),
    "aten._scaled_dot_product_cudnn_attention.default": _Attention(5, 6, 7, True),
    "aten._cudnn_attention_forward.default": _Attention(9, 6, 7, True),
    "aten._scaled_dot_product_flash_attention.default": _Attention(3, 6, 7, True, True),
    "aten._flash_attention_forward.default": _Attention(7, 2, 3, True, True),
}
_ATTENTION_BACKWARDS = (
    "aten._scaled_dot_product_efficient_attention_backward.default",
    "aten._efficient_attention_backward.default",
)

T = TypeVar("T")
WrapPartition = Callable[[Callable[..., Any], "PartitionInfo"], Callable[..., Any]]


class PartitionInfo(NamedTuple):
    """A partition whose code has been compiled: its place in reports, and what is known of it."""

    region: Region
    signature: Signature


class GraphInfo(NamedTuple):
    """What is known of a whole graph: name and source for the report, inputs that it may write to
    although they are no mutation (a backward reuses saved activations), gradients that come from
    outside, seeds and offsets of attention among its inputs and outputs, what was done about CPU
    values, operations that split it, whether a backward belongs to it or it is one, and outputs
    that only a backward sees.
    """

    name: str
    source: str
    donated: frozenset[int] = frozenset()
    tangents: frozenset[int] = frozenset()
    placement: Placement = Placement()
    cuts: tuple[Cut, ...] = ()
    seeds: frozenset[int] = frozenset()
    scalars: Mapping[int, Scalar] = MappingProxyType({})
    forward: bool = False
    backward: bool = False
    saved: frozenset[int] = frozenset()


def torch_version() -> tuple[int, int]:
    """(major, minor) of the running torch."""
    numbers = re.findall(r"\d+", torch.__version__)
    return int(numbers[0]), int(numbers[1])


def why_plain() -> str | None:
    """Why this process can only run plain Inductor, a sentence; None when graphs are possible."""
    version = torch_version()
    if not OLDEST <= version <= NEWEST:
        return (
            f"pygraph knows torch {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, this is "
            f"{torch.__version__}; "
            "compiling with plain Inductor"
        )
    if torch.version.cuda is None:
        return "this torch has no CUDA; compiling with plain Inductor"
    if not torch.cuda.is_available():
        return "no CUDA GPU or driver was found; compiling with plain Inductor"
    return None


def reinterpret() -> Callable[..., torch.Tensor]:
    """The function that generated code makes views of its buffers with."""
    from torch._C._dynamo import guards

    return guards._reinterpret_tensor  # type: ignore[attr-defined, no-any-return]


def option_names() -> frozenset[str]:
    """Every name that Inductor's configuration knows."""
    from torch._inductor import config

    return frozenset(config.get_config_copy())


def source_of(function: Callable[..., Any]) -> str | None:
    """The generated module's source, or None when it is not a file."""
    try:
        return Path(function.__globals__["__file__"]).read_text("utf-8")
    except (AttributeError, KeyError, OSError, ValueError):
        return None


def versions() -> dict[str, str]:
    """Versions of what compiles and runs the generated code."""
    found = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    for package in ("triton", "pygraph-lint"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def cache_folder() -> Path:
    """Where Inductor keeps what it compiled for this machine."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir())


def mode_options(mode: str | None) -> dict[str, Any]:
    """Inductor options of a `torch.compile` mode, without its own CUDA graphs."""
    if mode is None or mode == "default":
        return {}
    import torch._inductor

    options = dict(torch._inductor.list_mode_options(mode))
    options.pop("triton.cudagraphs", None)
    return options


def compile_plain(gm: Any, inputs: Sequence[Any], patches: dict[str, Any]) -> Any:
    """Compile a graph with Inductor alone."""
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(gm, inputs, config_patches=patches or None)


def compile_graphed(
    gm: Any,
    inputs: Sequence[Any],
    patches: dict[str, Any],
    wrap: WrapPartition,
    placing: bool = True,
) -> Any:
    """Compile a graph with Inductor, with `wrap` around each of its partitions: those of an
    inference graph, or of a training graph's forward and backward. `placing`: take CPU values to
    the GPU first.
    """
    import torch._functorch.config
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(graph: Any, example_inputs: Sequence[Any], **kwargs: Any) -> Any:
        kwargs["cudagraphs"] = _no_graphs()
        # What is known is read first, because placement and compilation change the graph.
        info = _describe(graph, kwargs)
        if placing:
            info = info._replace(placement=_place(graph))
        info = info._replace(cuts=_cuts(graph.graph))
        compiled = compile_fx_inner(graph, example_inputs, **kwargs)
        wrap_partitions(compiled, example_inputs, info, wrap)
        return compiled

    settings = {**patches, "triton.cudagraphs": True, "graph_partition": True}
    with torch._functorch.config.patch(enable_autograd_cache=False):
        return compile_fx(gm, inputs, inner_compile=inner, config_patches=settings)


def _no_graphs() -> Any:
    from torch._inductor.utils import BoxedBool

    return BoxedBool(False)


def _place(graph: Any) -> Placement:
    """Take CPU tensors out of GPU operators' arguments, in a graph that is about to be compiled.

    It happens here and not in one of Inductor's passes, because those don't run when the compiled
    graph comes out of Inductor's cache, and what was left alone would not be known then.
    """
    if not _compiles_cpp():
        return Placement()
    _register_lowerings()
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


@cache
def _register_lowerings() -> None:
    """Tell Inductor what the operators of placement compile to."""
    from torch._inductor import ir
    from torch._inductor.lowering import fallback_handler, lowerings, register_lowering
    from torch._inductor.virtualized import V

    aten = torch.ops.aten

    def stay(value: Any) -> Any:
        return value

    copy = lowerings[aten.clone.default]

    def call(operator: Any, *args: Any, **kwargs: Any) -> Any:
        # No code is generated for it.
        made: Any = fallback_handler(operator, add_to_fallback_set=False)  # type: ignore[no-untyped-call]
        return made(*args, **kwargs)

    def to_gpu(values: Sequence[Any], device: torch.device) -> Any:
        flat = [lowerings[aten.view.default](value, [value.get_numel()]) for value in values]
        # Into memory of the CPU that is neither the caller's nor pinned: when the copy returns,
        # the driver has taken the bytes, and whoever writes there next changes nothing. Inductor's
        # own `DeviceCopy.create` would pin it, and the copy would be read later.
        join = aten.cat.default if len(flat) > 1 else aten.clone.default
        what = flat if len(flat) > 1 else flat[0]
        # Inductor's first code for the CPU costs a process many seconds, in which it compiles and
        # runs programs that ask what the CPU can do. Where nothing is computed, a library does it.
        computed = not all(ir.is_storage_and_layout(value) for value in flat)
        joined = lowerings[join](what) if computed else call(join, what)
        staged = ir.ExternKernel.realize_input(joined)
        for end in (device, staged.get_device_or_error()):
            V.graph.add_device_info(end)
        layout = ir.FixedLayout(device, staged.get_dtype(), staged.get_size(), [1])
        return ir.TensorBox.create(ir.DeviceCopy(layout, [staged], (True,)))

    def from_sizes(sizes: Sequence[Any], program: str, device: torch.device) -> Any:
        kept = call(FROM_SIZES, sizes, program, device)
        V.graph.never_reuse_buffers.add(kept.get_name())
        # Whoever computes from it reads it there; whoever writes to it, or returns it, has a copy.
        return copy(kept)

    def number(value: float, dtype: torch.dtype) -> Any:
        return call(aten.scalar_tensor.default, value, dtype=dtype, device=torch.device("cpu"))

    register_lowering(NUMBER, type_promotion_kind=None)(number)
    register_lowering(STAY, type_promotion_kind=None)(stay)
    register_lowering(TO_GPU, type_promotion_kind=None)(to_gpu)
    register_lowering(FROM_SIZES, type_promotion_kind=None)(from_sizes)


def _describe(graph: Any, kwargs: Mapping[str, Any]) -> GraphInfo:
    """See `GraphInfo`; read before compilation, which changes the graph."""
    name, source = _identity(graph)
    if kwargs.get("is_inference"):
        return GraphInfo(name, source)
    if not kwargs.get("is_backward"):
        return GraphInfo(
            f"{name} forward", source, scalars=_scalars(graph), forward=True, saved=_saved(graph)
        )
    from torch._inductor.utils import get_donated_idxs

    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    tangents = frozenset(i for i, node in enumerate(inputs) if "tangents" in node.name)
    seeds = frozenset(i for i, node in enumerate(inputs) if _is_seed(node))
    donated = frozenset(get_donated_idxs() or ()) - seeds
    return GraphInfo(f"{name} backward", source, donated, tangents, seeds=seeds, backward=True)


def _saved(graph: Any) -> frozenset[int]:
    """Outputs of a forward that come after everything that its caller gets."""
    context = torch._guards.TracingContext.try_get()
    known = None if context is None else context.fw_metadata
    if known is None:
        return frozenset()
    (results,) = next(n for n in graph.graph.nodes if n.op == "output").args
    return frozenset(range(known.num_forward + len(known.tokens), len(results)))


def _scalars(graph: Any) -> dict[int, Scalar]:
    """Outputs that are the seed or offset of an attention: CPU scalars outside of captures, of a
    memory-efficient one, and otherwise only those that the attention does not fill.
    """
    (results,) = next(n for n in graph.graph.nodes if n.op == "output").args
    found: dict[int, Scalar] = {}
    for i, node in enumerate(results):
        source = node.args[0] if getattr(node, "target", None) is operator.getitem else None
        known = _ATTENTIONS.get(str(getattr(source, "target", "")))
        if source is None or known is None or node.args[1] not in (known.seed, known.offset):
            continue
        rate = known.rate
        given = source.args[rate] if len(source.args) > rate else source.kwargs.get("dropout_p", 0)
        role: Scalar = "seed" if node.args[1] == known.seed else "offset"
        if not given or (known.offset_unused and role == "offset"):
            found[i] = "nothing"
        elif not known.on_gpu:
            found[i] = role
    return found


def _is_seed(node: Any) -> bool:
    """Whether an input is only used as the seed or offset of a memory-efficient attention."""
    users = [user.target for user in node.users]
    scalar = getattr(node.meta.get("val"), "shape", None) == ()
    return scalar and bool(users) and all(str(u) in _ATTENTION_BACKWARDS for u in users)


def wrap_partitions(
    compiled: Any, example_inputs: Sequence[Any], graph: GraphInfo, wrap: WrapPartition
) -> None:
    """Put `wrap` around every partition of a `CompiledFxGraph`; leaves anything else as it is."""
    apply = getattr(compiled, "recursively_apply_fns", None)
    maps = getattr(compiled, "partition_maps", None)
    if apply is None or not maps or "cuda" not in getattr(compiled, "device_types", ()):
        return
    devices = sorted(compiled.device_idxs)
    written = graph.donated | set(compiled.mutated_input_idxs)
    shaped: set[int | None] = {i for i, v in enumerate(example_inputs) if _is_dynamic(v)}
    if shaped:
        shaped.add(None)
    static = (getattr(compiled, "fx_kwargs", None) or {}).get("static_input_idxs") or ()
    moving = set(range(len(example_inputs))) - set(static)
    runner: Any = getattr(apply, "__self__", None)
    passage = _passage(compiled, runner, len(example_inputs))
    wrappers = []
    for i, partition in enumerate(maps):
        region = Region(f"{graph.name} partition {i + 1} of {len(maps)}", graph.source)
        region.host_values, region.host_bytes = graph.placement.values, graph.placement.nbytes
        region.host_notes = [str(note) for note in graph.placement.notes]
        inputs = list(partition.input_index_mapping)
        region.moving = _arguments(inputs, moving)
        if len(maps) > 1:
            region.cuts = [cut.to_dict() for cut in graph.cuts]
        scalars, saved = graph.scalars, graph.saved
        if passage is None:
            scalars = _results(partition.output_index_mapping, scalars)
            saved = frozenset(_results(partition.output_index_mapping, dict.fromkeys(saved)))
        signature = Signature(
            device=devices[0],
            dynamic=bool(shaped),
            forward=graph.forward,
            backward=graph.backward,
            written=_arguments(inputs, {None, *written}),
            # What one partition has done with, another one may still need.
            donated=_arguments(inputs, graph.donated) if len(maps) == 1 else frozenset(),
            released=_arguments(inputs, {None, *graph.donated}),
            checked=_arguments(inputs, graph.tangents | shaped),
            numbers=_arguments(inputs, graph.seeds),
            scalars=scalars,
            saved=saved,
        )
        info = PartitionInfo(region, signature)
        wrappers.append(_wrapper(wrap, info))
    if passage is None:
        apply(wrappers)
        return
    region = wrappers[0](Passed(runner.partitions[0], passage, reinterpret()))
    whole = Whole(region, passage.taken)
    compiled.current_callable = splice(compiled.current_callable, runner.call, whole)


def _passage(compiled: Any, runner: Any, inputs: int) -> Passage | None:
    """What the runner of a graph with one partition does around it, if it only passes things on and
    something else can be called in its place.
    """
    maps, call = compiled.partition_maps, getattr(runner, "call", None)
    functions: Sequence[Any] = getattr(runner, "partitions", ())
    if len(maps) != 1 or len(functions) != 1 or not isinstance(functions[0], FunctionType):
        return None
    if not finds(getattr(compiled, "current_callable", None), call):
        return None
    return read_passage(call, inputs, len(maps[0].output_index_mapping))


def _wrapper(wrap: WrapPartition, info: PartitionInfo) -> Callable[..., Any]:
    return lambda function: wrap(function, info)


def _is_dynamic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))
    return isinstance(value, torch.SymInt)


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


def _identity(graph: Any) -> tuple[str, str]:
    """A name for a graph, and the user's source lines that it was compiled from."""
    compile_id = torch._guards.CompileContext.current_compile_id()
    name = f"graph {compile_id}" if compile_id is not None else "graph"
    lines = []
    for node in graph.graph.nodes:
        found = re.findall(
            r'File "([^"]+)", line (\d+), in (\S+)', node.meta.get("stack_trace") or ""
        )
        if found:
            lines.append(found[-1])
    if not lines:
        return name, ""
    path, number, function = lines[0]
    same_file = [int(n) for p, n, f in lines if (p, f) == (path, function)]
    span = f"{min(same_file)}-{max(same_file)}" if max(same_file) > min(same_file) else number
    return name, f"{function} at {path}:{span}"
