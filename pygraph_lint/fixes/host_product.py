"""A product or sum of sizes that torch works out is worked out by Python.

torch.prod(torch.tensor(list(x.shape))) -> math.prod(x.shape)

Unsafe: what follows gets a number where it got a tensor; of no sizes torch makes a float.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_module
from pygraph_lint.fixes.lists import Lists, without_copy
from pygraph_lint.fixes.names import loads, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG104",)
_MAKERS = ("torch.tensor", "torch.as_tensor")
_TAKES_NUMBERS = ("torch.arange", "torch.empty", "torch.full", "torch.ones", "torch.zeros")


def propose(proposal: Proposal) -> None:
    """Replace the call that reduces the tensor made here."""
    function, made = proposal.function, proposal.path[-1]
    if not isinstance(function, ast.FunctionDef) or proposal.names.callee(made) not in _MAKERS:
        raise Declined("")
    assert isinstance(made, ast.Call)
    above = parents(function)
    call, name = _reduction(proposal, above, made)
    proposal.message = "Work the size out in Python"
    plain = len(made.args) == 1 and not made.keywords
    proposal.need("plain", plain, "the tensor is made with a dtype or device of its own")
    sizes = without_copy(made.args[0])
    known = Lists(proposal.source.tree).holds_numbers(function, sizes)
    proposal.need("sizes", known, "it is not proven to be a list of single numbers")
    uses = all(_takes_number(proposal, above, use) for use in _uses(function, above, call))
    proposal.need("uses", uses, "the result is used as a tensor")
    proposal.safe_if("number", False, "what follows gets a number where it got a tensor")
    if name == "sum" and proposal.names.taken(name):
        raise Declined(f"the name {name} means something else here")
    written = name if name == "sum" else f"{use_module(proposal, 'math')}.{name}"
    proposal.replace_node(call, f"{written}({proposal.source.segment(sizes)})")


def _reduction(
    proposal: Proposal, above: dict[ast.AST, ast.AST], made: ast.Call
) -> tuple[ast.Call, str]:
    """The call that reduces a new tensor to one number, as a function or a method of it."""
    parent = above.get(made)
    outer = above.get(parent) if isinstance(parent, ast.Attribute) else parent
    if isinstance(outer, ast.Call) and not outer.keywords:
        name = (proposal.names.callee(outer) or "").removeprefix("torch.")
        if isinstance(parent, ast.Attribute):
            name = parent.attr if parent is outer.func and not outer.args else ""
        elif outer.args != [made]:
            name = ""
        if name in ("prod", "sum"):
            return outer, name
    raise Declined("")


def _uses(
    function: ast.FunctionDef, above: dict[ast.AST, ast.AST], call: ast.Call
) -> list[ast.expr]:
    """Where the result is used: the reads of the name it is given, or the place itself."""
    parent = above.get(call)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = parent.targets[0]
        if isinstance(target, ast.Name) and stores(function, target.id) == [target]:
            return list(loads(function, target.id))
    return [call]


def _takes_number(proposal: Proposal, above: dict[ast.AST, ast.AST], use: ast.expr) -> bool:
    """Whether a use is arithmetic, or an argument of a function that wants a number."""
    parent = above.get(use)
    if isinstance(parent, ast.keyword):
        parent = above.get(parent)
    if isinstance(parent, ast.BinOp):
        return True
    return isinstance(parent, ast.Call) and proposal.names.callee(parent) in _TAKES_NUMBERS
