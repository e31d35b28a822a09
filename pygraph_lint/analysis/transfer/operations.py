"""Operations of torch, called as ``torch.name(x, ...)`` or ``x.name(...)``."""

from __future__ import annotations

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.arguments import has_starred
from pygraph_lint.analysis.devices import note_mixed_devices
from pygraph_lint.analysis.nodes import span_of
from pygraph_lint.analysis.state import CallSite, State
from pygraph_lint.analysis.transfer.arithmetic import merge_device
from pygraph_lint.analysis.transfer.factories import note_sizes, note_wanted_grad
from pygraph_lint.analysis.values import Value

_DYNAMIC = frozenset(("nonzero", "argwhere", "unique", "unique_consecutive", "masked_select"))
_COMPARED_ON_HOST = ("equal", "allclose", "is_nonzero")
_SIZE_KEYWORDS = ("size", "pad", "shape")
_SAME_RANK = ops.BOOL_OPS | frozenset(
    """
        abs neg clamp clone detach float masked_fill argsort cumsum softmax sigmoid exp log sqrt
        square round floor ceil sign flip roll contiguous nan_to_num zeros_like ones_like
        empty_like full_like rand_like randn_like sort
    """.split()
)
_RANKS = {"nonzero": 2, "argwhere": 2, "masked_select": 1, "bincount": 1}
_FLATTENED = ("flatten", "ravel", "unique")  # of rank 1, given no more arguments
_SHAPED = ("view", "reshape")
_GIVE_FLOAT = frozenset(
    """
        softmax log_softmax sigmoid mean sqrt exp log linear layer_norm relu matmul bmm gelu
        dropout embedding scaled_dot_product_attention interpolate
    """.split()
)
_NUMBERED = ("split", "split_with_sizes", "tensor_split", "chunk")
# Arguments that are Python numbers: the value of a tensor is read.
_NUMBERS_OF = {
    **dict.fromkeys(("add", "sub", "rsub"), ("alpha",)),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), ("alpha", "beta")),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
}
# Operations whose result has a shape that depends on values, or that need their input's values.
_COSTS: dict[str, str] = {
    "nonzero": "shape.nonzero",
    "argwhere": "shape.nonzero",
    "where": "shape.nonzero",
    "masked_select": "shape.mask-read",
    "unique": "shape.unique",
    "unique_consecutive": "shape.unique",
    "bincount": "shape.bincount",
    "repeat_interleave": "shape.repeat-interleave",
    "one_hot": "shape.one-hot",
    "split": "shape.split",
    "split_with_sizes": "shape.split",
    "tensor_split": "shape.split",
    "ctc_loss": "host.lengths",
}


def torch_operation(
    state: State, name: str, spelled: str, site: CallSite, receiver: Value | None
) -> Value:
    """The result of an operation; records what it costs."""
    operands = [*([receiver] if receiver is not None else []), *site.everything]
    flat = [
        part for value in operands for part in ((value,) if value.is_tensor else v.parts(value))
    ]
    tensors = [value for value in flat if value.is_tensor]
    only = receiver is None and name not in ops.OF_NUMBERS
    if any(value.device != v.ON_HOST and (only or not value.needs) for value in tensors):
        state.function.takes_tensors = True
    source = receiver if receiver is not None else (tensors[0] if tensors else None)
    _note_costs(state, name, spelled, site, receiver, source)
    rest = site.positional if receiver is not None else site.positional[1:]
    if name in ops.SIZED:
        named_sizes = [site.named[key] for key in _SIZE_KEYWORDS if key in site.named]
        note_sizes(state, spelled, [*rest, *named_sizes], site.node)
    if not tensors and name in ops.OF_NUMBERS and _all_numbers(site):
        state.event("host.scalar-tensor", span_of(site.node), f"{spelled} of Python numbers")
        return v.tensor(f"made by {spelled}", "", v.ON_HOST, 0)
    if name in _COMPARED_ON_HOST:
        state.event("sync.equal", span_of(site.node), f"{spelled}()", source)
        return v.READ_VALUE
    if name in ops.FACTORIES_LIKE:
        note_wanted_grad(state, site)
    result = v.tensor(
        receiver.why if receiver is not None else f"{spelled} returns a tensor",
        _result_dtype(name, source, tensors, site.named),
        merge_device(tensors),
        _rank(name, source, rest, site.named),
        _result_flags(name, tensors),
        receiver.needs if receiver is not None else (),
    )
    if len(tensors) > 1 and receiver is None:
        _note_operands(state, site)
    for keyword in _NUMBERS_OF.get(name.rstrip("_"), ()):
        given = site.named.get(keyword, v.NUMBER_VALUE)
        if given.is_tensor and given.device != v.ON_HOST:
            state.event("sync.number", span_of(site.node), f"{keyword}=", given, form="operator")
    return _shaped(name, result, rest, site.named, receiver)


def _all_numbers(site: CallSite) -> bool:
    return bool(site.positional) and all(value.kinds == v.NUMBER for value in site.positional)


def _result_flags(name: str, tensors: list[Value]) -> int:
    flags = 0
    for value in tensors:
        flags |= value.flags & v.FLOW
    if name in ops.RANDOM_FACTORIES or name == "bernoulli":
        flags |= v.RANDOM
    if name in ops.FINITE_OPS:
        flags |= v.FINITE
    if name in _DYNAMIC:
        flags |= v.DYNAMIC
    return flags


def _note_operands(state: State, site: CallSite) -> None:
    """Record a host tensor that meets a device tensor in one call."""
    pairs = [
        (argument, value)
        for argument, value in zip(site.node.args, site.positional)
        if value.is_tensor
    ]
    for index, (one_node, one) in enumerate(pairs):
        for other_node, other in pairs[index + 1 :]:
            note_mixed_devices(state, one_node, one, other_node, other)


def _note_costs(
    state: State,
    name: str,
    spelled: str,
    site: CallSite,
    receiver: Value | None,
    source: Value | None,
) -> None:
    """Record what an operation costs besides its result."""
    kind = _COSTS.get(name)
    if kind is None:
        return
    span = span_of(site.node)
    arguments = site.positional if receiver is None else [receiver, *site.positional]
    if name == "where":
        if len(arguments) == 1 and not site.named and not has_starred(site.node):
            state.event(kind, span, "torch.where with one argument", source)
    elif name == "repeat_interleave":
        repeats = _argument(arguments, site, "repeats")
        if repeats.is_tensor and "output_size" not in site.named:
            state.event(kind, span, spelled, repeats)
    elif name == "one_hot":
        if len(arguments) < 2 and "num_classes" not in site.named:
            state.event(kind, span, spelled, source)
    elif name in _NUMBERED:
        sizes = _argument(arguments, site, "split_size_or_sections")
        for part in (sizes, *(sizes.items or ())):
            if part.is_tensor and not part.kinds & v.UNKNOWN:
                state.event(kind, span, spelled, part)
                break
    elif name == "ctc_loss" or source is not None or receiver is not None or site.positional:
        state.event(kind, span, spelled, source)


def _argument(arguments: list[Value], site: CallSite, name: str) -> Value:
    return arguments[1] if len(arguments) > 1 else site.named.get(name, v.NUMBER_VALUE)


def _result_dtype(
    name: str, source: Value | None, tensors: list[Value], named: dict[str, Value]
) -> str:
    said = named.get("dtype")
    if said is not None:
        return said.dtype
    if name in ops.BOOL_OPS or name in ("any", "all"):
        return "bool"
    if name in ops.INT_OPS:
        return "int"
    if source is None:
        return ""
    if name in ("nonzero", "argwhere"):
        return "int"
    if name in ("where", "cat", "stack", "concat"):
        kinds = {value.dtype for value in (tensors[1:] if name == "where" else tensors)}
        return kinds.pop() if len(kinds) == 1 else ""
    if name in ops.KEEP_DTYPE:
        return source.dtype
    if name in ("sum", "cumsum", "prod") and source.dtype in ("bool", "int"):
        return "int"
    return "float" if name in _GIVE_FLOAT or source.dtype == "float" else ""


def _rank(name: str, source: Value | None, rest: list[Value], named: dict[str, Value]) -> int:
    if name in ops.REDUCTIONS:
        return 0 if not rest and not {"dim", "axis", "keepdim"} & set(named) else -1
    if name in _RANKS:
        return _RANKS[name]
    if name in _FLATTENED:
        return 1 if not rest and not {"start_dim", "end_dim", "dim"} & set(named) else -1
    if name in _SHAPED and rest and all(value.kinds == v.NUMBER for value in rest):
        return len(rest)
    return source.ndim if source is not None and name in _SAME_RANK else -1


def _shaped(
    name: str, result: Value, rest: list[Value], named: dict[str, Value], receiver: Value | None
) -> Value:
    """One tensor, or the tuple or list of tensors the operation gives."""
    by_dim = "dim" in named or "keepdim" in named or (bool(rest) and not rest[0].is_tensor)
    if name in ops.PAIRS_ALWAYS or (name in ops.PAIRS and by_dim):
        return Value(v.SEQUENCE, items=(result, result._replace(dtype="int")), flags=v.RESULT)
    if name in ops.LISTS:
        return Value(v.SEQUENCE, item=result._replace(ndim=-1))
    count = ops.TUPLES.get(name)
    if count:
        return v.sequence([result] * count)
    alone = name == "where" and len(rest) == 0 and receiver is None
    if alone or (name == "nonzero" and "as_tuple" in named):
        places = result._replace(dtype="int", ndim=1, flags=result.flags | v.DYNAMIC)
        return Value(v.SEQUENCE, item=places)
    counted = "return_inverse" in named or "return_counts" in named
    if name in ("unique", "unique_consecutive") and counted:
        return Value(v.SEQUENCE, item=result)
    return result
