"""A number is filled on the device it is asked for instead of being copied there.

torch.tensor(0.0, dtype=x.dtype, device=x.device) -> torch.full((), 0.0, dtype=x.dtype,
device=x.device)

Safe for numbers written out, whose dtype ``full`` infers as ``tensor`` does, and for the limits of
the dtype asked for. A capture can record the fill; it cannot record the copy.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.conditions import with_parentheses
from pygraph_lint.fixes.factories import keyword, literal_number
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG104",)
_LARGEST = 3.4e38
_WORDS = frozenset(("inf", "+inf", "-inf", "nan", "infinity", "-infinity"))


def propose(proposal: Proposal) -> None:
    """Replace ``torch.tensor(number, device=...)`` by a fill."""
    call = proposal.around(ast.Call)
    if call is None or proposal.names.callee(call) != "torch.tensor":
        raise Declined("not a call of torch.tensor")
    proposal.message = "Fill a 0-d tensor on the device instead of copying a number there"
    keywords = {item.arg: item.value for item in call.keywords}
    plain = len(call.args) == 1 and keywords.keys() <= {"dtype", "device"}
    proposal.need("plain", plain, "more than a value, a dtype and a device is asked for")
    proposal.need("device", "device" in keywords, "no device is asked for")
    value, dtype = call.args[0], keyword(call, "dtype")
    written = _written(proposal, value, dtype)
    noted = proposal.note("number") is not None
    proposal.need("number", written or noted, "nothing shows that the value is a number")
    typed = written or dtype is not None
    proposal.need("typed", typed, "the dtype follows from a value that is not written out")
    proposal.safe_if(
        "written", written, "a number that the dtype cannot hold is refused instead of overflowing"
    )
    proposal.replace_node(call.func, f"{use_torch(proposal)}.full")
    start, _ = with_parentheses(proposal.source, value, call)
    proposal.replace(start, start, "(), ")


def _written(proposal: Proposal, node: ast.expr, dtype: ast.expr | None) -> bool:
    """A literal, ``float("inf")``, or a limit of the dtype that is asked for."""
    number = literal_number(node)
    if number is not None:
        return abs(number) <= _LARGEST
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _written(proposal, node.operand, dtype)
    if isinstance(node, ast.Call):
        text = node.args[0] if len(node.args) == 1 and not node.keywords else None
        named = isinstance(node.func, ast.Name) and node.func.id == "float"
        word = text.value if isinstance(text, ast.Constant) else None
        return named and word in _WORDS and not proposal.names.taken("float")
    if not isinstance(node, ast.Attribute) or node.attr not in ("max", "min", "eps", "tiny"):
        return False
    limits = node.value
    if proposal.names.callee(limits) not in ("torch.finfo", "torch.iinfo") or dtype is None:
        return False
    assert isinstance(limits, ast.Call)
    return len(limits.args) == 1 and ast.dump(limits.args[0]) == ast.dump(dtype)
