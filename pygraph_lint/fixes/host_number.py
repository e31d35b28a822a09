"""Numbers that numpy works out of Python numbers are worked out by Python.

np.sum(sizes) -> sum(sizes)
np.ceil(np.log1p(n)).astype("int").item() -> math.ceil(math.log1p(n))

Safe where the numbers are sizes, or a list that is proven to hold single numbers and not to be
empty: numpy makes a float of nothing, which is no size.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_module
from pygraph_lint.fixes.lists import Lists, is_size
from pygraph_lint.fixes.names import loads, parents
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG520",)
_BUILTIN = {"sum": "sum", "max": "max", "amax": "max", "min": "min", "amin": "min"}
# Of a size, these are the same to the last bit that rounding up or down can see.
_FUNCTIONS = {"numpy.log1p": "log1p", "numpy.sqrt": "sqrt"}
_WHOLE = ("int", "np.int64", "numpy.int64", "'int'", "'int64'")


def propose(proposal: Proposal) -> None:
    """Replace the call of numpy."""
    call = proposal.path[-1]
    if not isinstance(call, ast.Call) or proposal.function is None:
        raise Declined("not a call in a function")
    proposal.message = "Work the number out in Python"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "item":
        _rounded(proposal, call)
    else:
        _reduced(proposal, call)


def _reduced(proposal: Proposal, call: ast.Call) -> None:
    """A sum, a product or an extreme of several numbers."""
    assert proposal.function is not None
    name = (proposal.names.callee(call) or "").rpartition(".")[2]
    plain = len(call.args) == 1 and not call.keywords
    proposal.need("plain", plain, "numpy is asked for more than the one number")
    whole = _taken_out(proposal, call)
    python = not _asks_numpy(proposal, whole)
    proposal.need("python", python, "what numpy gives is asked for more than a number has")
    lists = Lists(proposal.source.tree, proposal.finding.own)
    numbers = lists.holds_numbers(proposal.function, call.args[0])
    proposal.need("numbers", numbers, "it is not proven to be a list of single numbers")
    number = _is_converted(proposal, whole) or name not in ("sum", "prod")
    filled = number or lists.is_filled(proposal.function, call.args[0])
    proposal.safe_if("filled", filled, "of an empty list numpy makes a float, which is no size")
    callers = not lists.others_may_call
    proposal.safe_if("callers", callers, "callers in other files may give it something else")
    builtin = _BUILTIN.get(name)
    if builtin is not None and proposal.names.taken(builtin):
        raise Declined(f"the name {builtin} means something else here")
    written = builtin or f"{use_module(proposal, 'math')}.prod"
    if whole is call:
        proposal.replace_node(call.func, written)
    else:
        argument = proposal.source.segment(call.args[0])
        proposal.replace_node(whole, f"{written}({argument})")


def _taken_out(proposal: Proposal, call: ast.Call) -> ast.Call:
    """The call with ``.item()`` behind it, which Python's own numbers do not have."""
    attribute = proposal.parent(call)
    taken = proposal.parent(attribute) if isinstance(attribute, ast.Attribute) else None
    if not isinstance(taken, ast.Call) or attribute.attr != "item":  # type: ignore[union-attr]
        return call
    return call if taken.args or taken.keywords else taken


def _asks_numpy(proposal: Proposal, call: ast.Call) -> bool:
    """Whether something of the number is asked for by a dot or an index, here or by its name."""
    assert proposal.function is not None
    above = parents(proposal.function)
    node: ast.AST = call
    while isinstance(above.get(node), (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.NamedExpr)):
        node = above[node]
    reads: list[ast.AST] = [node]
    statement = above.get(node)
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            name = target.id if isinstance(target, ast.Name) else ""
            reads += loads(proposal.function, name)
    return any(
        isinstance(above.get(read), (ast.Attribute, ast.Subscript)) and above[read].value is read  # type: ignore[attr-defined]
        for read in reads
    )


def _is_converted(proposal: Proposal, call: ast.Call) -> bool:
    """Whether the result goes through ``int(...)``, which is the same for a float."""
    above = proposal.parent(call)
    return isinstance(above, ast.Call) and ast.unparse(above.func) == "int"


def _rounded(proposal: Proposal, call: ast.Call) -> None:
    """A number rounded by numpy and taken out of it."""
    cast = call.func.value if isinstance(call.func, ast.Attribute) else None
    rounding = cast.func.value if _converts_to_whole(cast) else None  # type: ignore[union-attr]
    if not isinstance(rounding, ast.Call):
        raise Declined("the number is not converted to a whole one")
    rounds = proposal.names.callee(rounding) or ""
    known = rounds in ("numpy.ceil", "numpy.floor")
    proposal.need("rounding", known, "the number is not rounded up or down")
    name = rounds.rpartition(".")[2]
    plain = len(rounding.args) == 1 and not rounding.keywords and not call.args
    proposal.need("alone", plain, "numpy is asked for more than the one number")
    argument = rounding.args[0]
    text = _in_python(proposal, argument)
    proposal.need("size", text is not None, "what is rounded is not worked out of sizes alone")
    proposal.replace_node(call, f"{use_module(proposal, 'math')}.{name}({text})")


def _converts_to_whole(node: ast.AST | None) -> bool:
    """``.astype(int)``, in any of its spellings."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "astype"
        and len(node.args) == 1
        and not node.keywords
        and ast.unparse(node.args[0]) in _WHOLE
    )


def _in_python(proposal: Proposal, node: ast.expr) -> str | None:
    """An expression of sizes with Python's own functions; None if it is more than that."""
    assert proposal.function is not None
    name = _FUNCTIONS.get(proposal.names.callee(node) or "")
    if name is not None and isinstance(node, ast.Call):
        single = len(node.args) == 1 and not node.keywords
        if single and is_size(proposal.function, node.args[0]):
            inner = proposal.source.segment(node.args[0])
            return f"{use_module(proposal, 'math')}.{name}({inner})"
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        sides = (node.left, node.right)
        if all(is_size(proposal.function, side) for side in sides):
            return proposal.source.segment(node)
    return None
