"""Python's arithmetic on tensors is done by torch.

math.sqrt(x.sum()) -> torch.sqrt(x.sum()).detach()
max(x.amax(), y) -> torch.maximum(x.amax(), y)

The result has to go into arithmetic with tensors. Unsafe: a 0-d tensor may promote differently than
the number, and where both values are equal, max gives the gradient to the first alone.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import one_line
from pygraph_lint.fixes.tensors import joins_others, used_as_tensor, visibly_tensor

CODES = ("PG206",)
_SAME_NAME = frozenset(
    (
        *("sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh"),
        *("asin", "acos", "atan", "sinh", "cosh", "erf", "erfc", "lgamma"),
    )
)
_PAIRS = {"max": "maximum", "min": "minimum"}


def propose(proposal: Proposal) -> None:
    """Call torch's function."""
    call = proposal.around(ast.Call)
    if call is None or call.keywords or any(isinstance(it, ast.Starred) for it in call.args):
        raise Declined("not a plain call")
    proposal.message = "Compute with torch instead of reading the tensor back"
    function = _function(proposal, call)
    known = {
        name
        for item in ast.walk(call)
        if isinstance(item, ast.expr)
        and (name := dotted(item)) is not None
        and used_as_tensor(proposal, item)
    }
    tensors = all(visibly_tensor(proposal, item, known) for item in call.args)
    proposal.need("tensors", tensors, "nothing proves that all arguments are tensors")
    joined = joins_others(proposal, call)
    proposal.need("joined", joined, "the result is used outside arithmetic with tensors")
    proposal.safe_if(
        "promotion", False, "a 0-d tensor may lead to another dtype than the number did"
    )
    arguments = ", ".join(one_line(proposal.source.segment(item)) for item in call.args)
    text = f"{use_torch(proposal)}.{function}({arguments})"
    proposal.replace_node(call, text if function in _PAIRS.values() else f"{text}.detach()")


def _function(proposal: Proposal, call: ast.Call) -> str:
    """torch's name for what is called."""
    name = proposal.names.callee(call) or ""
    module, _, tail = name.rpartition(".")
    if module == "math" and tail in _SAME_NAME and len(call.args) == 1:
        return tail
    builtin = call.func.id if isinstance(call.func, ast.Name) else ""
    if builtin in _PAIRS and len(call.args) == 2 and not proposal.names.taken(builtin):
        return _PAIRS[builtin]
    raise Declined("torch has no function that does the same")
