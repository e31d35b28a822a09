"""Rows split by group, each part times the group's matrix, are multiplied in blocks of one length.

sizes = sizes.tolist() parts = rows.split(sizes, dim=0) results = [] for i in range(groups):
results.append(F.linear(parts[i], self.weight[i])) y = torch.cat(results, dim=0)

becomes y = grouped_matmul(rows, self.weight.transpose(1, 2), sizes), and the sizes stay on the
device. Where they are made and where they are used may be different functions of the file.

Unsafe: products are rounded otherwise, the matrix of each block is copied, and who gets the sizes
in another file gets a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from pygraph_lint.fixes.blocks import use_grouped_matmul
from pygraph_lint.fixes.names import all_nodes, dotted, loads, parameters, parents, pure
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import FUNCTIONS
from pygraph_lint.fixes.statements import line_span, written
from pygraph_lint.fixes.unused import take_out

CODES = ("PG203",)
_PRODUCTS = {"torch.nn.functional.linear": True, "torch.matmul": False, "torch.mm": False}


class Split(NamedTuple):
    """The statements that split, multiply and join, and what they are about."""

    function: ast.FunctionDef
    statements: list[ast.stmt]
    sizes: ast.Name
    rows: ast.expr
    groups: ast.expr
    weights: ast.expr
    transposed: bool


def propose(proposal: Proposal) -> None:
    """Leave the sizes on the device, and multiply in blocks."""
    proposal.message = "Multiply groups of rows in blocks of a fixed length"
    statement = proposal.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call):
        raise Declined
    read = value.func
    if not isinstance(read, ast.Attribute) or dotted(read.value) != target.id:
        raise Declined
    if statement not in getattr(proposal.function, "body", []):
        raise Declined("the sizes are read under a condition")
    splits = list(_splits(proposal, target.id))
    if not splits:
        raise Declined("no rows are split by these sizes and multiplied group by group")
    passed = _only_passed_on(proposal, statement, target.id, splits)
    proposal.need("passed-on", passed, "the sizes are used for more than to split rows")
    named = _named_alike(proposal, target.id)
    proposal.need("named-alike", named, "the sizes get another name where they are received")
    every = all(_every_group(proposal, split) for split in splits)
    proposal.need("every-group", every, "nothing shows that every group is multiplied")
    proposal.safe_if(
        "blocks",
        False,
        "products of rows (vectors, as many as the sizes add up to) are rounded otherwise, the"
        " matrix of each block is copied, which makes it slower on a CPU, and other files get the"
        " sizes as a tensor",
    )
    for split in splits:
        _multiply(proposal, split)
    assert proposal.function is not None and not isinstance(proposal.function, ast.Lambda)
    take_out(proposal, proposal.function.body, [statement])


def _splits(proposal: Proposal, name: str) -> Iterator[Split]:
    """The functions of the file that take sizes of that name and split rows by them."""
    for function in all_nodes(proposal.source.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        if name in {item.arg for item in parameters(function)} or function is proposal.function:
            for number in range(len(function.body) - 3):
                found = _split(proposal, function, function.body[number : number + 4])
                if found is not None and found.sizes.id == name:
                    yield found


def _split(
    proposal: Proposal, function: ast.FunctionDef, statements: list[ast.stmt]
) -> Split | None:
    first, empty, loop, last = statements
    taken_apart = _assigned(first)
    collected = _assigned(empty)
    joined = _assigned(last)
    if taken_apart is None or collected is None or joined is None or not isinstance(loop, ast.For):
        return None
    (parts, cut), (results, nothing), (_, join) = taken_apart, collected, joined
    rows, sizes = _cut(proposal, cut)
    product = _appended(loop, results)
    if rows is None or sizes is None or product is None or not isinstance(loop.target, ast.Name):
        return None
    alone = ast.unparse(nothing) == "[]" and _joins(proposal, join, results)
    elsewhere = len(loads(function, parts)) > 1 or len(loads(function, results)) > 2
    groups = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else None
    factors = _factors(proposal, product)
    if not alone or elsewhere or factors is None or groups is None or not pure(rows):
        return None
    part, weight, transposed = factors
    number = loop.target.id
    if ast.unparse(loop.iter) != f"range({ast.unparse(groups)})":
        return None
    if ast.unparse(part) != f"{parts}[{number}]" or not isinstance(weight, ast.Subscript):
        return None
    if ast.unparse(weight.slice) != number or dotted(weight.value) is None:
        return None
    return Split(function, statements, sizes, rows, groups, weight.value, transposed)


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            return target.id, statement.value
    return None


def _cut(proposal: Proposal, node: ast.expr) -> tuple[ast.expr | None, ast.Name | None]:
    """The rows and the sizes of ``rows.split(sizes, dim=0)`` or ``torch.split(rows, sizes)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None, None
    given = list(node.args)
    if proposal.names.callee(node) != "torch.split":
        given.insert(0, node.func.value)
    if node.func.attr != "split" or not _along_rows(node, given[2:]):
        return None, None
    sizes = given[1] if len(given) > 1 else None
    return given[0], sizes if isinstance(sizes, ast.Name) else None


def _along_rows(call: ast.Call, more: list[ast.expr]) -> bool:
    """Whether what follows the first arguments says nothing but that the dimension is the first."""
    given = [*map(ast.unparse, more), *map(ast.unparse, call.keywords)]
    return given in ([], ["0"], ["dim=0"])


def _joins(proposal: Proposal, node: ast.expr, results: str) -> bool:
    if not isinstance(node, ast.Call) or proposal.names.callee(node) != "torch.cat":
        return False
    return bool(node.args) and dotted(node.args[0]) == results and _along_rows(node, node.args[1:])


def _appended(loop: ast.For, results: str) -> ast.expr | None:
    """What the loop appends to a list, if that is all it does."""
    only = loop.body[0] if len(loop.body) == 1 and not loop.orelse else None
    call = only.value if isinstance(only, ast.Expr) else None
    if not isinstance(call, ast.Call) or dotted(call.func) != f"{results}.append":
        return None
    return call.args[0] if len(call.args) == 1 else None


def _factors(proposal: Proposal, node: ast.expr) -> tuple[ast.expr, ast.expr, bool] | None:
    """Both factors of a matrix product, and whether it takes the second one transposed."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right, False
    name = proposal.names.callee(node)
    if not isinstance(node, ast.Call) or name not in _PRODUCTS:
        return None
    if len(node.args) != 2 or node.keywords:
        return None
    return node.args[0], node.args[1], _PRODUCTS[name]


def _only_passed_on(
    proposal: Proposal, statement: ast.stmt, name: str, splits: list[Split]
) -> bool:
    """Whether sizes of that name, once read, only reach calls and tuples, and the splits."""
    above = parents(proposal.source.tree)
    places = {
        [item.arg for item in parameters(split.function)].index(name)
        for split in splits
        if split.function is not proposal.function
    }
    for node in all_nodes(proposal.source.tree):
        if isinstance(node, ast.Attribute) and node.attr == name:
            return False
        if not isinstance(node, ast.Name) or node.id != name or isinstance(node.ctx, ast.Store):
            continue
        if _inside(above, node, proposal.function) and node.lineno <= statement.lineno:
            continue
        parent = above[node]
        given = isinstance(parent, ast.Call) and node in parent.args
        passed = given and _place(parent, node) in places and _own(proposal, parent)
        splits_rows = any(node is split.sizes for split in splits)
        if not passed and not splits_rows and not isinstance(parent, ast.Tuple):
            return False
    return True


def _place(call: ast.AST, node: ast.expr) -> int:
    """Which parameter of a method an argument goes to, ``self`` being the first."""
    return call.args.index(node) + 1 if isinstance(call, ast.Call) else -1


def _own(proposal: Proposal, call: ast.AST) -> bool:
    """A call of something that the object has: ``self.layer(...)``."""
    name = dotted(call.func) if isinstance(call, ast.Call) else None
    return name is not None and name.startswith("self.") and name.count(".") == 1


def _inside(above: dict[ast.AST, ast.AST], node: ast.AST, function: ast.AST | None) -> bool:
    current: ast.AST | None = node
    while current is not None and not isinstance(current, FUNCTIONS):
        current = above.get(current)
    return current is function


def _named_alike(proposal: Proposal, name: str) -> bool:
    """Whether every call in the file of the module that returns the sizes takes its results apart
    and gives the sizes the same name, or none.
    """
    function = proposal.function
    owner = next((node for node in proposal.path if isinstance(node, ast.ClassDef)), None)
    returned = [
        node.value
        for node in ast.walk(function or owner or proposal.source.tree)
        if isinstance(node, ast.Return)
    ]
    places = {
        number
        for value in returned
        if isinstance(value, ast.Tuple)
        for number, item in enumerate(value.elts)
        if dotted(item) == name
    }
    if owner is None or not places:
        return not places
    above = parents(proposal.source.tree)
    for call in _calls_of(proposal.source.tree, owner.name):
        taken = above.get(call)
        target = taken.targets[0] if isinstance(taken, ast.Assign) else None
        if not isinstance(target, ast.Tuple) or len(target.elts) <= max(places):
            return False
        if any(dotted(target.elts[place]) not in (name, "_") for place in places):
            return False
    return True


def _calls_of(tree: ast.Module, owner: str) -> Iterator[ast.Call]:
    """The calls in a file of attributes that hold an instance of one of its classes."""
    holders = {
        dotted(node.targets[0])
        for node in all_nodes(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and dotted(node.value.func) == owner
    }
    for node in all_nodes(tree):
        if isinstance(node, ast.Call) and dotted(node.func) in holders - {None}:
            yield node


def _every_group(proposal: Proposal, split: Split) -> bool:
    """Whether the loop runs as often as there are matrices: it counts them, or the constructor
    makes as many as the attribute says that the loop counts to.
    """
    weights, groups = ast.unparse(split.weights), ast.unparse(split.groups)
    if groups in (f"{weights}.shape[0]", f"{weights}.size(0)", f"len({weights})"):
        return True
    above = parents(proposal.source.tree)
    owner = above.get(split.function)
    assigned = {
        dotted(node.targets[0]): node.value
        for node in ast.walk(owner or split.function)
        if isinstance(node, ast.Assign)
    }
    count, made = assigned.get(groups), assigned.get(weights)
    return count is not None and made is not None and _makes(made, ast.unparse(count))


def _makes(node: ast.expr, count: str) -> bool:
    """Whether a call, or one inside it, makes something whose first size is ``count``."""
    return any(
        isinstance(call, ast.Call) and len(call.args) > 1 and ast.unparse(call.args[0]) == count
        for call in ast.walk(node)
    )


def _multiply(proposal: Proposal, split: Split) -> None:
    source = proposal.source
    first, last = split.statements[0], split.statements[-1]
    result = _assigned(last)
    assert result is not None
    weights = source.segment(split.weights) + (".transpose(1, 2)" if split.transposed else "")
    helper = use_grouped_matmul(proposal)
    line = f"{result[0]} = {helper}({source.segment(split.rows)}, {weights}, {split.sizes.id})"
    start, end = line_span(source, first, last)
    proposal.replace(start, end, written(proposal, source.indent(first), [line]))
