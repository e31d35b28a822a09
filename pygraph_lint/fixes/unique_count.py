"""Whether a tensor has more than one value is asked of its neighbours, without a list of values.

if len(torch.unique_consecutive(counts)) > 1:
->
if (counts[1:] != counts[:-1]).any():

Safe: the answer is the same, also for nan and for no values. It stays a tensor, so that what the
branch does can be mended next.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import loads
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import one_line, written

CODES = ("PG403",)
_UNIQUE = ("torch.unique", "torch.unique_consecutive")


def propose(proposal: Proposal) -> None:
    """Compare each value with the one before it."""
    node, source = proposal.around(ast.If), proposal.source
    test = node.test if node is not None else None
    if node is None or not isinstance(test, ast.Compare) or ast.unparse(test).count(" > 1") != 1:
        raise Declined
    unique = _counted(test.left)
    if len(test.ops) != 1 or ast.unparse(test.comparators[0]) != "1" or unique is None:
        raise Declined
    if proposal.names.callee(unique) not in _UNIQUE or proposal.names.taken("len"):
        raise Declined
    proposal.message = "Compare neighbours instead of listing the values"
    plain = len(unique.args) == 1 and not unique.keywords
    proposal.need("all-values", plain, "rows are compared, or more is returned")
    first = not source.text.startswith("elif", source.span(node)[0])
    proposal.need("not-elif", first, "the branch is an elif")
    if not source.alone(node.body[0]):
        raise Declined("the branch is written on one line")
    name = _new_name(proposal)
    value = one_line(source.segment(unique.args[0]))
    atom = isinstance(unique.args[0], (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    form = value if atom else f"({value})"
    line = written(proposal, source.indent(node), [f"{name} = {form}.flatten()"])
    start = source.line_start(node.lineno)
    proposal.replace(start, start, line + source.newline)
    proposal.replace_node(test, f"({name}[1:] != {name}[:-1]).any()")


def _new_name(proposal: Proposal) -> str:
    """A name that means nothing here, and that nothing reads: ``import *`` may bind it."""
    names = ("values", *(f"values_{number}" for number in range(2, 99)))
    return next(
        name
        for name in names
        if not proposal.names.taken(name) and not loads(proposal.source.tree, name)
    )


def _counted(node: ast.expr) -> ast.Call | None:
    """``u`` of ``len(u)``, ``u.numel()``, ``u.shape[0]`` or ``u.size(0)``."""
    found: ast.expr | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        form = f"{node.func.attr}({', '.join(map(ast.unparse, node.args))})"
        found = node.func.value if form in ("numel()", "size(0)") else None
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "len" and len(node.args) == 1:
        found = node.args[0]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "0":
        held = node.value
        shape = isinstance(held, ast.Attribute) and held.attr == "shape"
        found = held.value if shape and isinstance(held, ast.Attribute) else None
    return found if isinstance(found, ast.Call) else None
