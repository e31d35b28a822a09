"""A number in arithmetic is filled on the device instead of being copied there.

x * torch.tensor(2.0) -> x * torch.full((), 2.0, device=x.device)

A 0-d tensor on the device promotes like one on the host, so dtypes stay. Values may not: a kernel
reads a 0-d host tensor at its arithmetic precision, and a 0-d device tensor at the dtype of the
operation, so a number that the narrowest dtypes cannot hold may be rounded differently.
"""

from __future__ import annotations

import ast
import struct

from pygraph_lint.fixes.at_hand import at_hand
from pygraph_lint.fixes.factories import keyword
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.tensors import joins_others, used_as_tensor

CODES = ("PG103",)


def propose(proposal: Proposal) -> None:
    """Replace ``torch.tensor(number)`` by a fill on the device of the tensor it meets."""
    call = proposal.around(ast.Call)
    if call is None or proposal.names.callee(call) != "torch.tensor":
        raise Declined("not a call of torch.tensor")
    device = proposal.note("meets")
    proposal.message = "Fill a 0-d tensor on the device instead of copying a number there"
    if device is None:
        raise Declined("no tensor it meets is known at this place")
    met = ast.parse(device, mode="eval").body
    known = isinstance(met, ast.Attribute) and used_as_tensor(proposal, met.value)
    proposal.need("met-tensor", known, "what it meets may be a number")
    there = isinstance(met, ast.Attribute) and at_hand(proposal, met.value)
    proposal.need("at-hand", there, "what it meets may not be there yet, or be None")
    plain = all(item.arg in ("dtype", "data") for item in call.keywords) and len(call.args) <= 1
    proposal.need("plain", plain, "more than a value and a dtype is asked for")
    value = call.args[0] if call.args else keyword(call, "data")
    if value is None:
        raise Declined("there is no number")
    number = literal_number(value)
    proposal.need("number", number is not None, "the value is not written as a number")
    proposal.safe_if(
        "exact",
        number is not None and _exact(number),
        "half precision cannot hold the number exactly, and would round it before the operation",
    )
    proposal.safe_if(
        "uses",
        joins_others(proposal, call),
        "code that wants the new tensor on the host would no longer work on a GPU",
    )
    dtype = keyword(call, "dtype")
    kept = f", dtype={proposal.source.segment(dtype)}" if dtype is not None else ""
    proposal.replace_node(
        call,
        f"{use_torch(proposal)}.full((), {proposal.source.segment(value)}{kept}, device={device})",
    )


def literal_number(node: ast.expr) -> int | float | None:
    """The real number a literal stands for, None for other expressions."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = literal_number(node.operand)
        if inner is None:
            return None
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    return None


def _exact(number: int | float) -> bool:
    """Whether float16 and bfloat16 both hold the number, and so does every wider dtype."""
    try:
        half: float = struct.unpack("<e", struct.pack("<e", number))[0]
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
    except (OverflowError, struct.error):
        return False
    return half == number and bits & 0xFFFF == 0
