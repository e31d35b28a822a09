"""A tensor that each turn of a comprehension copies to the host is copied once, before it.

parts = [torch.split(x, sizes.tolist()) for x in (q, k)]
->
sizes_list = sizes.tolist()
parts = [torch.split(x, sizes_list) for x in (q, k)]

Safe: the comprehension has turns, and nothing in them can change the tensor or keep the list.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import loads, parents, pure
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG203",)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def propose(proposal: Proposal) -> None:
    """Name the list in front of the statement."""
    read = _copied(proposal.path[-1])
    turns = proposal.around(ast.ListComp)
    statement = proposal.statement
    if turns is None or read is None:
        raise Declined("")
    proposal.message = "Copy the tensor to the host once, not in each turn"
    proposal.remains = True
    direct = isinstance(statement, (ast.Assign, ast.Return)) and statement.value is turns
    proposal.need("first", direct, "other code may run before the comprehension does")
    proposal.need("alone", proposal.source.alone(statement), "the line holds more than this")
    turn = turns.generators[0]
    parts = turn.iter.elts if isinstance(turn.iter, (ast.List, ast.Tuple)) else []
    once = len(turns.generators) == 1 and not turn.ifs
    proposal.need("turns", len(parts) > 1 and once, "it is not known how many turns there are")
    bound = {*_bound(turn.target), *_bound(turns.elt)}
    proposal.need("same", read.id not in bound, "it is another tensor in each turn")
    above = parents(turns)
    reads = [node for node in ast.walk(turns.elt) if getattr(_copied(node), "id", "") == read.id]
    runs = any(_always_runs(above, node) for node in reads)
    proposal.need("runs", runs, "a turn may do without the copy")
    passed = all(_is_passed(above, node) for node in reads)
    proposal.need("passed", passed, "a turn may keep the list, which is then that of all turns")
    calm = all(_leaves_alone(proposal, node) for node in ast.walk(turns.elt))
    still = calm and all(map(pure, parts))
    proposal.need("unchanged", still, "what a turn does may change the tensor")
    name = f"{read.id}_list"
    free = not proposal.names.taken(name) and not loads(proposal.source.tree, name)
    proposal.need("free", free, f"the name {name} is used for something else")
    source = proposal.source
    start = source.line_start(statement.lineno)
    line = f"{source.indent(statement)}{name} = {read.id}.tolist(){source.newline}"
    proposal.replace(start, start, line)
    for node in reads:
        proposal.replace_node(node, name)


def _copied(node: ast.AST) -> ast.Name | None:
    """The name in ``name.tolist()``."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr == "tolist":
        return called.value if isinstance(called.value, ast.Name) else None
    return None


def _bound(node: ast.AST) -> set[str]:
    """The names that a target, or what is inside an expression, binds."""
    return {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def _always_runs(above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether each turn of the comprehension on top comes to a part of its element."""
    parent = above[node]
    while parent in above:
        if isinstance(parent, ast.IfExp):
            certain = node is parent.test
        elif isinstance(parent, ast.BoolOp):
            certain = node is parent.values[0]
        elif isinstance(parent, ast.Compare):
            certain = node in (parent.left, parent.comparators[0])
        else:
            certain = not isinstance(parent, (*_COMPREHENSIONS, ast.comprehension))
        if not certain:
            return False
        node, parent = parent, above[parent]
    return True


def _is_passed(above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a list, or an element of it, is an argument of a call and nothing else."""
    parent = above[node]
    while isinstance(parent, ast.Subscript) and parent.value is node:
        node, parent = parent, above[parent]
    if isinstance(parent, ast.keyword):
        return True
    return isinstance(parent, ast.Call) and node in parent.args


def _leaves_alone(proposal: Proposal, node: ast.AST) -> bool:
    """Whether a part of a turn can neither change a tensor nor keep what it is given."""
    if isinstance(node, (ast.NamedExpr, ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom)):
        return False
    if not isinstance(node, ast.Call) or _copied(node) is not None:
        return True
    name = proposal.names.callee(node) or ""
    torch = name.startswith("torch.") and name.count(".") == 1 and not name.endswith("_")
    return torch and all(item.arg is not None and item.arg != "out" for item in node.keywords)
