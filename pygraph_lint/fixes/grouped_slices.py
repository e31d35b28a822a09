"""A loop that multiplies slice after slice by a matrix of its own multiplies in blocks of one
length instead.

ends = torch.cat((torch.zeros(1, dtype=torch.long), sizes.cumsum(0)))
for i in range(weights.shape[0]): output[ends[i] : ends[i + 1]] = rows[ends[i] : ends[i + 1]] @
weights[i]

becomes output = grouped_matmul(rows, weights, sizes).

Unsafe: products are rounded otherwise, and the matrix of each block is copied.
"""

from __future__ import annotations

import ast
import copy
from typing import NamedTuple

from pygraph_lint.fixes.blocks import use_grouped_matmul
from pygraph_lint.fixes.names import (
    all_nodes,
    assigned_values,
    dotted,
    loads,
    parameters,
    parents,
    stores,
)
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Function
from pygraph_lint.fixes.statements import line_span, one_line, written
from pygraph_lint.fixes.unused import no_longer_used, take_out

CODES = ("PG407",)


class _Loop(NamedTuple):
    """``for number in range(...): output[from:to] = rows[from:to] @ weights[number]``."""

    node: ast.For
    output: str
    rows: str
    weights: str
    ends: str


def propose(proposal: Proposal) -> None:
    """Multiply in blocks."""
    proposal.message = "Multiply groups of rows in blocks of a fixed length"
    node, function = proposal.around(ast.For), proposal.function
    loop = _loop(proposal, node) if node is not None else None
    if loop is None or function is None or isinstance(function, ast.Lambda):
        raise Declined
    sizes = _sizes(proposal, function, loop.ends)
    if sizes is None:
        raise Declined("the bounds are not the sums of sizes")
    counted = f"range({loop.weights}.shape[0])", f"range({loop.weights}.size(0))"
    every = ast.unparse(loop.node.iter) in (*counted, f"range(len({loop.weights}))")
    proposal.need("every-group", every, "nothing shows that every group is multiplied")
    proposal.need(
        "new-output",
        _only_filled(proposal, function, loop),
        "what is written to is used for more than the result",
    )
    proposal.need(
        "dtype",
        _of_their_dtype(function, loop),
        "nothing shows that what is written to has the dtype of the product",
    )
    proposal.safe_if(
        "blocks",
        False,
        "products of rows (vectors, as many as the sizes add up to) are rounded otherwise, under"
        " autocast they keep its dtype, and the matrix of each block is copied, which makes it"
        " slower on a CPU",
    )
    _rewrite(proposal, function, loop, sizes)


def _rewrite(
    proposal: Proposal, function: ast.FunctionDef | ast.AsyncFunctionDef, loop: _Loop, sizes: str
) -> None:
    source = proposal.source
    helper = use_grouped_matmul(proposal)
    line = f"{loop.output} = {helper}({loop.rows}, {loop.weights}, {sizes})"
    start, end = line_span(source, loop.node, loop.node)
    proposal.replace(start, end, written(proposal, source.indent(loop.node), [line]))
    filled = stores(function, loop.output)
    made = [item for item in function.body if set(filled) & set(ast.walk(item))]
    unused = no_longer_used(proposal, function.body, [loop.node, *made])
    take_out(proposal, function.body, [*made, *unused])
    _keep_on_device(proposal, function, sizes)


def _loop(proposal: Proposal, node: ast.For) -> _Loop | None:
    """The parts of a loop of that form, its local names replaced by what they stand for."""
    number = node.target.id if isinstance(node.target, ast.Name) else None
    if number is None or node.orelse:
        return None
    known: dict[str, ast.expr] = {}
    target: ast.expr = node.target
    value: ast.expr = node.iter
    for statement in node.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target, value = statement.targets[0], statement.value
        value = _Inlined(known).visit(copy.deepcopy(value))
        if isinstance(target, ast.Name):
            known[target.id] = value
        elif statement is not node.body[-1]:
            return None
    if not isinstance(target, ast.Subscript):
        return None
    written_to = _Inlined(known).visit(copy.deepcopy(target))
    factors = _factors(proposal, value)
    bounds, output = written_to.slice, dotted(written_to.value)
    ends = _ends(bounds, number)
    if factors is None or ends is None or output is None:
        return None
    part, weight = factors
    cut = isinstance(part, ast.Subscript) and ast.dump(part.slice) == ast.dump(bounds)
    numbered = isinstance(weight, ast.Subscript) and ast.unparse(weight.slice) == number
    if not cut or not numbered:
        return None
    assert isinstance(part, ast.Subscript) and isinstance(weight, ast.Subscript)
    rows, weights = dotted(part.value), dotted(weight.value)
    if rows is None or weights is None:
        return None
    return _Loop(node, output, rows, weights, ends)


class _Inlined(ast.NodeTransformer):
    """Names of a loop's body replaced by what they were assigned."""

    def __init__(self, known: dict[str, ast.expr]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._known.get(node.id, node))


def _factors(proposal: Proposal, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if not isinstance(node, ast.Call) or len(node.args) != 2 or node.keywords:
        return None
    if proposal.names.callee(node) not in ("torch.matmul", "torch.mm"):
        return None
    return node.args[0], node.args[1]


def _ends(bounds: ast.expr, number: str) -> str | None:
    """``ends`` of ``ends[number] : ends[number + 1]``."""
    lower = bounds.lower if isinstance(bounds, ast.Slice) and bounds.step is None else None
    if not isinstance(lower, ast.Subscript):
        return None
    ends = dotted(lower.value)
    return ends if ast.unparse(bounds) == f"{ends}[{number}]:{ends}[{number} + 1]" else None


def _sizes(proposal: Proposal, function: Function, ends: str) -> str | None:
    """The tensor whose sums, behind a zero, are the bounds."""
    values = assigned_values(function, ends) or []
    joined = values[-1] if values else None
    if not isinstance(joined, ast.Call) or proposal.names.callee(joined) != "torch.cat":
        return None
    pair = joined.args[0] if joined.args else None
    along = [*map(ast.unparse, joined.args[1:]), *map(ast.unparse, joined.keywords)]
    if not isinstance(pair, (ast.Tuple, ast.List)) or len(pair.elts) != 2:
        return None
    if along not in ([], ["0"], ["dim=0"]):
        return None
    zero, sums = pair.elts
    if dotted(sums) == ends and len(values) == 2:
        sums = values[0]
    elif len(values) != 1:
        return None
    if isinstance(zero, ast.Name):
        made = assigned_values(function, zero.id) or []
        zero = made[0] if len(made) == 1 else zero
    if not isinstance(zero, ast.Call) or proposal.names.callee(zero) != "torch.zeros":
        return None
    if [ast.unparse(item) for item in zero.args] not in (["1"], ["(1,)"], ["[1]"]):
        return None
    return _summed(proposal, sums)


def _summed(proposal: Proposal, node: ast.expr) -> str | None:
    """``sizes`` of ``sizes.cumsum(0)`` or ``torch.cumsum(sizes, dim=0)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    given = list(node.args)
    if proposal.names.callee(node) != "torch.cumsum":
        given.insert(0, node.func.value)
    along = [*map(ast.unparse, given[1:]), *map(ast.unparse, node.keywords)]
    if node.func.attr != "cumsum" or along not in (["0"], ["dim=0"], ["-1"], ["dim=-1"]):
        return None
    return dotted(given[0])


def _only_filled(proposal: Proposal, function: Function, loop: _Loop) -> bool:
    """Whether the output is made of zeros right in the function, and not read before the loop."""
    made = assigned_values(function, loop.output) or []
    if len(made) != 1 or proposal.names.callee(made[0]) not in ("torch.zeros", "torch.empty"):
        return False
    inside = set(ast.walk(loop.node))
    reads = [item for item in loads(function, loop.output) if item not in inside]
    assert loop.node.end_lineno is not None
    return all(item.lineno > loop.node.end_lineno for item in reads)


def _of_their_dtype(function: Function, loop: _Loop) -> bool:
    """Whether the output is made with the dtype of one of the factors."""
    made = assigned_values(function, loop.output) or []
    keywords = [item for call in made if isinstance(call, ast.Call) for item in call.keywords]
    asked = [item.value for item in keywords if item.arg == "dtype"]
    return [dotted(item) for item in asked] in ([f"{loop.rows}.dtype"], [f"{loop.weights}.dtype"])


def _keep_on_device(
    proposal: Proposal, function: ast.FunctionDef | ast.AsyncFunctionDef, sizes: str
) -> None:
    """Take ``.cpu()`` off what the calls of the file pass as sizes: they no longer bound slices."""
    names = [item.arg for item in parameters(function)]
    if sizes not in names or parents(proposal.source.tree).get(function) is not proposal.path[0]:
        return
    place = names.index(sizes)
    for call in all_nodes(proposal.source.tree):
        if not isinstance(call, ast.Call) or dotted(call.func) != function.name:
            continue
        given = call.args[place] if len(call.args) > place else None
        copied = given.func if isinstance(given, ast.Call) and not given.args else None
        if isinstance(copied, ast.Attribute) and copied.attr == "cpu" and given is not None:
            proposal.replace_node(given, one_line(proposal.source.segment(copied.value)))
