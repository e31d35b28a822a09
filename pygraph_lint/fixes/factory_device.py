"""A tensor is made where it is wanted.

torch.zeros(n).to(x.device) -> torch.zeros(n, device=x.device)
torch.ones(n, n).tril().bool().to(x.device) -> torch.ones(n, n, device=x.device).tril().bool()

The values must not depend on the device that computes them: constants and integer ranges only,
never random numbers; a range of floats may differ in its last bit between devices.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pygraph_lint.fixes.at_hand import at_hand
from pygraph_lint.fixes.factories import FACTORIES, has_integer_values, is_device, keyword, starred
from pygraph_lint.fixes.names import dotted, pure
from pygraph_lint.fixes.pieces import with_keywords
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.tensors import joins_others, used_as_tensor

CODES = ("PG101", "PG102")


def propose(proposal: Proposal) -> None:
    """Serve both forms: a factory moved at once, and one that meets a device tensor."""
    call = proposal.around(ast.Call)
    if call is None:
        raise Declined("the finding is not a call")
    move = _outer_move(proposal, call)
    if proposal.finding.code == "PG101" or (move is not None and move is not call):
        _moved(proposal, move)
    else:
        _meeting(proposal, call)


def _outer_move(proposal: Proposal, call: ast.Call) -> ast.Call | None:
    """The call of ``.to`` or ``.cuda`` that the finding points into."""
    for node in reversed(proposal.path):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in ("to", "cuda"):
            continue
        origin = _origin(proposal, node.func.value)
        if origin is not None and (proposal.finding.code == "PG101" or origin is call):
            return node
    return None


# What gives the same on every device, in memory laid out in the same way after a copy.
_KEEPING = {
    *("tril", "triu", "unsqueeze", "squeeze", "view", "reshape", "flatten", "permute", "transpose"),
    *("t", "flip", "roll", "repeat", "contiguous", "logical_not"),
    *("bool", "short", "int", "long", "half", "bfloat16", "float", "double"),
}


# Their keywords that take numbers.
_NUMBERED = {"diagonal", "dim", "dims", "dim0", "dim1", "start_dim", "end_dim", "shifts"}


# Whole numbers from these fit every dtype; a float that does not fit an integer becomes one number
# on the host and another one on a GPU.
_INTEGERS = {"short", "int", "long"}
_SMALL = {"torch.zeros", "torch.ones", "torch.eye", "torch.arange"}


def _origin(proposal: Proposal, node: ast.expr) -> ast.Call | None:
    """The first call of a chain that only changes shape or dtype, or blanks out triangles."""
    small_only = False
    while True:
        if isinstance(node, ast.Subscript):
            if not _only_adds_dimensions(node.slice):
                return None
            node = node.value
            continue
        if not isinstance(node, ast.Call):
            return None
        name = proposal.names.callee(node) or ""
        if name in FACTORIES:
            return node if name in _SMALL or not small_only else None
        if name.startswith("torch.") and name[6:] in _KEEPING and node.args:
            call, given, node = node, node.args[1:], node.args[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPING and not name:
            call, given, node = node, node.args, node.func.value
        else:
            return node if name.startswith("torch.") else None
        small_only |= isinstance(call.func, ast.Attribute) and call.func.attr in _INTEGERS
        if not (_numbers(given) and all(item.arg in _NUMBERED for item in call.keywords)):
            return None
        if not _numbers([item.value for item in call.keywords]):
            return None


def _numbers(values: Sequence[ast.expr]) -> bool:
    """Whether arguments are written out and computed by no call."""
    parts = [
        part
        for value in values
        for part in (value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value])
    ]
    return all(pure(part) for part in parts)


def _only_adds_dimensions(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(
        (isinstance(part, ast.Constant) and part.value in (None, Ellipsis))
        or (isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None)
        for part in parts
    )


def _moved(proposal: Proposal, move: ast.Call | None) -> None:
    if move is None or not isinstance(move.func, ast.Attribute):
        raise Declined("what is moved is not a factory's tensor in another shape or dtype")
    inner = _origin(proposal, move.func.value)
    assert inner is not None
    name = _factory(proposal, inner)
    proposal.message = f"Make the tensor on its device: {name}(..., device=...)"
    proposal.need("starred", not starred(move), "the arguments of the move are not all written out")
    if move.func.attr == "cuda":
        device, kept = _cuda(proposal, move), ""
    else:
        device, kept = _to(proposal, move)
    _conditions(proposal, inner, name)
    changed = with_keywords(proposal.source.segment(inner), {"device": device})
    source = proposal.source
    (start, end), (first, last) = source.span(inner), source.span(move.func.value)
    text = source.text[first:start] + changed + source.text[end:last]
    proposal.replace_node(move, text + kept)


def _cuda(proposal: Proposal, move: ast.Call) -> str:
    """The device ``.cuda(...)`` means."""
    quote = proposal.source.quote
    given = [*move.args[:1], *(item.value for item in move.keywords if item.arg == "device")]
    if not given:
        return f"{quote}cuda{quote}"
    index = given[0]
    if isinstance(index, ast.Constant) and isinstance(index.value, int):
        return f"{quote}cuda:{index.value}{quote}"
    known = is_device(proposal, index) and not isinstance(index, ast.Name)
    proposal.need(
        "cuda-device", known, "the argument of .cuda() may be None, which means the current GPU"
    )
    return proposal.source.segment(index)


def _to(proposal: Proposal, move: ast.Call) -> tuple[str, str]:
    """The device of ``.to(...)``, and the ``.to(...)`` that stays when it gives a dtype too."""
    source = proposal.source
    written = keyword(move, "device")
    arguments = list(move.args)
    if written is None:
        if not arguments:
            raise Declined("the move names no device")
        written = arguments.pop(0)
        if _is_tensor(proposal, written):
            other = source.segment(written)
            return f"{other}.device", f".to({other})"
        _expect_device(proposal, written)
    dtype = keyword(move, "dtype") or (arguments[0] if arguments else None)
    names = {item.arg for item in move.keywords}
    plain = len(arguments) <= 1 and not names - {"device", "dtype", "non_blocking", "copy"}
    proposal.need("plain-move", plain, "the move says more than device and dtype")
    if dtype is None:
        return source.segment(written), ""
    prefix = "dtype=" if keyword(move, "dtype") is not None else ""
    return source.segment(written), f".to({prefix}{source.segment(dtype)})"


def _is_tensor(proposal: Proposal, node: ast.expr) -> bool:
    return proposal.note("moved_to") == "tensor" and pure(node)


def _expect_device(proposal: Proposal, node: ast.expr) -> None:
    """Decline or doubt unless the only argument of ``.to`` is a device, and not a dtype or a
    tensor.
    """
    if is_device(proposal, node) or proposal.note("moved_to") == "device":
        return
    named = (dotted(node) or "").endswith("device")
    proposal.need("one-device", named, "the argument of .to() may be a dtype or a tensor")
    proposal.safe_if("proven-device", False, f"only its name says that {dotted(node)} is a device")


def _factory(proposal: Proposal, call: ast.Call) -> str:
    name = proposal.names.callee(call)
    if name is None or name not in FACTORIES:
        raise Declined("not one of the factories whose values are the same on every device")
    return name


def _conditions(proposal: Proposal, call: ast.Call, name: str) -> None:
    """What must hold of a factory call before it may get a ``device=``."""
    proposal.need("starred", not starred(call), "the factory's keywords are not all written out")
    proposal.need("no-device", keyword(call, "device") is None, "the factory has a device already")
    grad = keyword(call, "requires_grad")
    leaf = grad is None or (isinstance(grad, ast.Constant) and grad.value is False)
    proposal.need(
        "no-grad", leaf, "with requires_grad the moved tensor is no leaf, the new one would be"
    )
    proposal.need("no-out", keyword(call, "out") is None, "the factory writes into out=")
    pinned = keyword(call, "pin_memory") is None
    proposal.need("not-pinned", pinned, "the host tensor is pinned on purpose")
    proposal.safe_if(
        "integers",
        has_integer_values(proposal, call, name),
        "a range of floats may differ in its last bit between devices",
    )


def _meeting(proposal: Proposal, call: ast.Call) -> None:
    device = proposal.note("meets")
    proposal.message = "Make the tensor where it is used"
    if device is None:
        raise Declined("no tensor it meets is known at this place")
    name = _factory(proposal, call)
    proposal.message = f"Make the tensor where it is used: {name}(..., device={device})"
    met = ast.parse(device, mode="eval").body
    known = isinstance(met, ast.Attribute) and used_as_tensor(proposal, met.value)
    proposal.need("met-tensor", known, "what it meets may be a number")
    there = isinstance(met, ast.Attribute) and at_hand(proposal, met.value)
    proposal.need("at-hand", there, "what it meets may not be there yet, or be None")
    _conditions(proposal, call, name)
    proposal.safe_if(
        "uses",
        proposal.note("uses") == "device" and joins_others(proposal, call),
        "code that wants the new tensor on the host would no longer work on a GPU",
    )
    changed = with_keywords(proposal.source.segment(call), {"device": device})
    proposal.replace_node(call, changed)
