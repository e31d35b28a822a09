"""Operations of torch, called as ``torch.name(x, ...)`` or ``x.name(...)``."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import has_starred
from pygraph_lint.analysis.interpreter.host_tensors import note_met
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.arithmetic import (
    broadcast_rank,
    inherited_flags,
    merge_device,
    merge_device_of,
)
from pygraph_lint.analysis.interpreter.transfer.factories import note_sizes, note_wanted_grad
from pygraph_lint.analysis.syntax.nodes import span_of

_DYNAMIC = frozenset(
    "nonzero argwhere unique unique_consecutive masked_select combinations".split()
)
_COMPARED_ON_HOST = ("equal", "allclose", "is_nonzero")
_SIZE_KEYWORDS = ("size", "pad", "shape")
_SAME_RANK = ops.BOOL_OPS | frozenset(
    """
        abs neg clamp clone detach float masked_fill argsort cumsum softmax sigmoid exp log sqrt
        square round floor ceil sign flip roll contiguous nan_to_num zeros_like ones_like
        empty_like full_like rand_like randn_like sort pad log_softmax relu gelu silu tanh sin cos
        tan exp2 expm1 log1p log2 log10 rsqrt reciprocal erf lgamma digamma trunc frac cumprod
        clamp_min clamp_max clip tril triu requires_grad_
        normalize dropout softplus leaky_relu elu hardtanh cummax cummin logcumsumexp
    """.split()
)
_ARITHMETIC = frozenset("add sub mul div floor_divide remainder fmod true_divide".split())
_RANKS = {"nonzero": 2, "argwhere": 2, "masked_select": 1, "bincount": 1, "cartesian_prod": 2}
_FLATTENED = ("flatten", "ravel", "unique")  # of rank 1, given no more arguments
_SHAPED = ("view", "reshape")
_GIVE_FLOAT = frozenset(
    """
        softmax log_softmax sigmoid mean sqrt exp log linear layer_norm relu matmul bmm gelu
        dropout embedding scaled_dot_product_attention interpolate
    """.split()
)
_NUMBERED = ("split", "split_with_sizes", "tensor_split", "chunk")
# Of those below, the operators that a graph takes an unknown number for.
_GRAPHED = frozenset(
    "add sub addmm addmv addr addbmm baddbmm addcmul addcdiv topk multinomial".split()
)
# Arguments that are Python numbers, with their places: the value of a tensor is read.
_Numbers = tuple[tuple[str, int], ...]
_NUMBERS_OF: dict[str, _Numbers] = {
    **dict.fromkeys(("add", "sub", "rsub"), (("alpha", 9),)),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), (("alpha", 9), ("beta", 9))),
    **dict.fromkeys(("addcmul", "addcdiv"), (("value", 3),)),
    **dict.fromkeys(("full_like", "new_full"), (("fill_value", 1),)),
    **dict.fromkeys(
        ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"), (("p", 1),)
    ),
    **dict.fromkeys(("elu", "celu", "leaky_relu"), (("alpha", 1), ("negative_slope", 1))),
    **dict.fromkeys(("huber_loss", "smooth_l1_loss"), (("delta", 9), ("beta", 9))),
    "pad": (("value", 3),),
    "threshold": (("threshold", 1), ("value", 2)),
    "hardtanh": (("min_val", 1), ("max_val", 2)),
    "softplus": (("beta", 1), ("threshold", 2)),
    "nan_to_num": (("nan", 1), ("posinf", 2), ("neginf", 3)),
    "renorm": (("p", 1), ("maxnorm", 3)),
    **dict.fromkeys(("topk", "kthvalue"), (("k", 1),)),
    **dict.fromkeys(("tril", "triu"), (("diagonal", 1),)),
    **dict.fromkeys(("diagonal", "diag_embed"), (("offset", 1),)),
    "roll": (("shifts", 1),),
    "select": (("index", 2),),
    "chunk": (("chunks", 1),),
    "one_hot": (("num_classes", 1),),
    "norm": (("p", 1),),
    "multinomial": (("num_samples", 1),),
    "uniform": (("from", 1), ("to", 2)),
    **dict.fromkeys(("normal", "log_normal"), (("mean", 1), ("std", 2))),
    **dict.fromkeys(("exponential", "geometric"), (("lambd", 1), ("p", 1))),
    "transpose": (("dim0", 1), ("dim1", 2)),
    **dict.fromkeys(
        ("cat", "stack", "unsqueeze", "cumsum", "softmax", "log_softmax"), (("dim", 1),)
    ),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), (("kernel_size", 1),)),
}
# Methods that Dynamo traces as a product and a sum: their number may be a tensor.
_MULTIPLIED_FIRST = frozenset(("add_", "addcmul_", "addcdiv_"))
# Operations whose result has a shape that depends on values, or that need their input's values.
_COSTS: dict[str, str] = {
    "nonzero": "shape.nonzero",
    "argwhere": "shape.nonzero",
    "where": "shape.nonzero",
    "masked_select": "shape.mask-read",
    "unique": "shape.unique",
    "unique_consecutive": "shape.unique",
    "combinations": "shape.mask-read",
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
    tensors = _tensors(receiver, site)
    only = receiver is None and name not in ops.OF_NUMBERS
    if any(value.device != v.ON_HOST and (only or not value.needs) for value in tensors):
        state.function.takes_tensors = True
    source = receiver if receiver is not None else (tensors[0] if tensors else None)
    if only and name in ops.TENSOR_METHODS and site.positional:
        source = _operand(state, site.first, spelled)
    _note_costs(state, name, spelled, site, receiver, source)
    rest = site.positional if receiver is not None else site.positional[1:]
    if name in ops.SIZED:
        named_sizes = [site.named[key] for key in _SIZE_KEYWORDS if key in site.named]
        note_sizes(state, spelled, [*rest, *named_sizes], site)
    if not tensors and name in ops.OF_NUMBERS and _all_numbers(site):
        state.event("host.scalar-tensor", span_of(site.node), f"{spelled} of Python numbers")
        read = any(value.flags & v.READ for value in site.positional)
        return v.tensor(f"made by {spelled}", "", v.ON_HOST, 0, 0 if read else v.FIXED)
    if name in _COMPARED_ON_HOST:
        state.event("sync.equal", span_of(site.node), f"{spelled.removesuffix('()')}()", source)
        return v.READ_VALUE
    if name in ops.FACTORIES_LIKE:
        note_wanted_grad(state, site)
    placed = [source] if name in ops.SIZED and source is not None else tensors  # beside sizes
    result = v.tensor(
        receiver.why if receiver is not None else f"{spelled} returns a tensor",
        _result_dtype(name, source, tensors, site.named),
        merge_device(placed),
        _rank(name, source, rest, site.named),
        _result_flags(name, tensors),
        receiver.needs if receiver is not None else (),
        merge_device_of(placed) if "device" not in site.named else None,
    )
    note_numbers(state, name, site, receiver)
    if name in ops.BY_ELEMENT:
        _note_met(state, site, receiver)
    return _shaped(name, result, rest, site.named, receiver)


def _note_met(state: State, site: CallSite, receiver: Value | None) -> None:
    """Note which operands of an operation by element are on the host while others are not."""
    function = site.node.func
    operands = list(zip(site.node.args, site.positional))
    if receiver is not None and isinstance(function, ast.Attribute):
        operands.append((function.value, receiver))
    far = [value for _, value in operands if value.is_tensor and value.device != v.ON_HOST]
    for node, value in operands if far else ():
        note_met(state, node, value, far[0])


def _tensors(receiver: Value | None, site: CallSite) -> list[Value]:
    """The tensors that an operation is given, also in a list."""
    operands = [*([receiver] if receiver is not None else []), *site.everything]
    flat = (part for each in operands for part in ((each,) if each.is_tensor else v.parts(each)))
    return [part for part in flat if part.is_tensor]


def _operand(state: State, value: Value, spelled: str) -> Value | None:
    """The first argument of a function that takes a tensor there: so it is one."""
    if value.is_tensor:
        return value._replace(needs=())
    if value.kinds != v.UNKNOWN:
        return None
    state.function.takes_tensors = True
    return v.tensor(f"passed to {spelled}")


def note_numbers(state: State, name: str, site: CallSite, receiver: Value | None) -> None:
    """Record a tensor of the device that is given where the operator wants a Python number."""
    base = name.rstrip("_")
    arguments = site.positional if receiver is None else [receiver, *site.positional]
    form = "operator" if base in _GRAPHED else "constant"
    form = "multiplied" if name in _MULTIPLIED_FIRST else form
    given: list[tuple[str, Value]] = []
    if base == "clamp":  # bounds are both numbers, or both tensors
        bounds = [
            (keyword, site.named.get(keyword, value))
            for keyword, value in zip(("min", "max"), (*arguments[1:3], v.NONE_VALUE, v.NONE_VALUE))
        ]
        if any(value.kinds == v.NUMBER for _, value in bounds):
            given = bounds
    elif base == "masked_fill" and len(arguments) > 2:
        form, given = "fill", [("value", arguments[2])]
    for keyword, place in _NUMBERS_OF.get(base, ()):
        value = arguments[place] if place < len(arguments) else site.named.get(keyword)
        given += [(keyword, value)] if value is not None else []
    for keyword, value in given:
        known = value.needs or not value.kinds & v.UNKNOWN
        if value.is_tensor and value.device != v.ON_HOST and known:
            spelled = f"{keyword}=" if keyword in site.named else f"{name}()"
            state.event("sync.number", span_of(site.node), spelled, value, form=form)


def _all_numbers(site: CallSite) -> bool:
    return bool(site.positional) and all(value.kinds == v.NUMBER for value in site.positional)


def _result_flags(name: str, tensors: list[Value]) -> int:
    flags = inherited_flags(tensors)
    if name in ops.RANDOM_FACTORIES or name == "bernoulli":
        flags |= v.RANDOM
    if name in ops.FINITE_OPS:
        flags |= v.FINITE
    if name in _DYNAMIC:
        flags |= v.DYNAMIC
    return flags


def _note_costs(
    state: State,
    name: str,
    spelled: str,
    site: CallSite,
    receiver: Value | None,
    source: Value | None,
) -> None:
    """Record what an operation costs besides its result."""
    if name == "logsumexp":  # it asks whether there is anything to sum
        function = site.node.func
        method = receiver is not None and isinstance(function, ast.Attribute)
        state.note_known([function.value] if method else site.node.args[:1])  # type: ignore[attr-defined]
    kind = _COSTS.get(name)
    if kind is None:
        return
    span = span_of(site.node)
    arguments = site.positional if receiver is None else [receiver, *site.positional]
    if name == "where":
        if len(arguments) == 1 and not site.named and not has_starred(site.node):
            state.event(kind, span, "torch.where(condition)", source)
    elif name == "one_hot":
        if len(arguments) < 2 and "num_classes" not in site.named:
            state.event(kind, span, spelled, source)
    elif name == "repeat_interleave" or name in _NUMBERED:
        numbered = name in _NUMBERED
        read = _sizes(arguments, site) if numbered else _repeats(arguments, site, receiver)
        if read is not None:
            state.event(kind, span, spelled, read)
    elif name == "ctc_loss" or source is not None or receiver is not None or site.positional:
        state.event(kind, span, spelled, source)


def _repeats(arguments: list[Value], site: CallSite, receiver: Value | None) -> Value | None:
    """The tensor of ``repeat_interleave`` whose values say how large the result is."""
    single = len(arguments) == 1 and receiver is None and "repeats" not in site.named
    repeats = arguments[0] if single else _argument(arguments, site, "repeats")
    return repeats if repeats.is_tensor and "output_size" not in site.named else None


def _sizes(arguments: list[Value], site: CallSite) -> Value | None:
    """The tensor of ``split`` and its kin whose values say where the parts end."""
    sizes = _argument(arguments, site, "split_size_or_sections")
    parts = (sizes, *(sizes.items or ()))
    return next((each for each in parts if each.is_tensor and not each.kinds & v.UNKNOWN), None)


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
    if name in _ARITHMETIC and source is not None and len(rest) == 1:
        return broadcast_rank(source, rest[0])
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
