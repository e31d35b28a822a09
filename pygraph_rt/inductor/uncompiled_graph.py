"""What is known of a graph before it is compiled, which changes it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.host_values.crossings import frames_of
from pygraph_rt.inductor.collectives import in_nested_region
from pygraph_rt.inductor.graph_info import GraphInfo
from pygraph_rt.plan.outputs import Scalar


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


def describe(
    graph: Any, example_inputs: Sequence[Any], kwargs: Mapping[str, Any], known: GraphInfo
) -> GraphInfo:
    """`known` with what the graph says; read before compilation, which changes the graph."""
    dynamic = dynamic_inputs(example_inputs)
    nested = in_nested_region(graph)
    known = known._replace(inputs=len(example_inputs), dynamic=dynamic, nested=nested)
    if kwargs.get("is_inference"):
        return known
    if not kwargs.get("is_backward"):
        return known._replace(scalars=_scalars(graph), forward=True, saved=_saved(graph))
    from torch._inductor.utils import get_donated_idxs

    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    seeds = frozenset(i for i, node in enumerate(inputs) if _is_seed(node))
    unread = frozenset(i for i in seeds if not any(map(_drops, inputs[i].users)))
    donated = frozenset(get_donated_idxs() or ()) - seeds
    return known._replace(donated=donated, seeds=seeds, unread=unread, backward=True)


def dynamic_inputs(example_inputs: Sequence[Any]) -> frozenset[int]:
    """Which of a graph's inputs have sizes, or are sizes, that may differ between calls."""
    return frozenset(i for i, value in enumerate(example_inputs) if _is_dynamic(value))


def _is_dynamic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))
    return isinstance(value, torch.SymInt)


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


def _drops(attention: Any) -> bool:
    """Whether a memory-efficient attention's backward has a dropout rate that may not be 0."""
    names = [argument.name for argument in attention.target._schema.arguments]
    place = names.index("dropout_p")
    given = attention.args[place] if len(attention.args) > place else None
    return bool(attention.kwargs.get("dropout_p", given) != 0)


def identity(graph: Any) -> tuple[str, str]:
    """A name for a graph, and the user's source lines that it was compiled from."""
    compile_id = torch._guards.CompileContext.current_compile_id()
    name = f"graph {compile_id}" if compile_id is not None else "graph"
    lines = [found[-1] for node in graph.graph.nodes if (found := frames_of(node))]
    if not lines:
        return name, ""
    path, number, function = lines[0]
    same_file = [int(n) for p, n, f in lines if (p, f) == (path, function)]
    span = f"{min(same_file)}-{max(same_file)}" if max(same_file) > min(same_file) else number
    return name, f"{function} at {path}:{span}"
