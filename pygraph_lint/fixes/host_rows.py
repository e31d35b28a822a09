"""Rows of numbers that a loop takes from a tensor, to use them as sizes, are read at once.

for t, h, w in grid: torch.arange(h).expand(w, -1) -> for t, h, w in grid.tolist(): ...

The host waits once before the loop, and not for each number in each turn. Unsafe: the rows can only
be those of a tensor then, and Python's whole numbers do not wrap.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.fixes.names import stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.size_uses import Sizes
from pygraph_lint.fixes.tensors import shown_in

CODES = ("PG407",)


def propose(proposal: Proposal) -> None:
    """Read the rows before the loop."""
    proposal.message = "Read the rows at once, before the loop"
    loop = next((node for node in reversed(proposal.path) if isinstance(node, ast.For)), None)
    function = proposal.function
    if loop is None or not isinstance(function, ast.FunctionDef) or loop.iter in proposal.path:
        raise Declined
    used = {node.id for node in ast.walk(proposal.path[-1]) if isinstance(node, ast.Name)}
    rows = [
        (names, source)
        for names, source in _rows(proposal, loop)
        if used & _derived(loop, names) and _is_tensor(proposal, function, source)
    ]
    if not rows:
        raise Declined
    sizes = Sizes(proposal, function)
    for names, source in rows:
        inside = [node for part in (*loop.body, *loop.orelse) for node in ast.walk(part)]
        again = any(isinstance(node, ast.Name) and node.id == source.id for node in inside)
        proposal.need("only-rows", not again, f"the loop uses {source.id} itself too")
        misused = next((name for name in names if not sizes.only(name)), None)
        proposal.need("sizes", misused is None, f"{misused} is used for more than sizes")
        proposal.replace_node(source, f"{source.id}.tolist()")
    proposal.adds = ("PG203",) * len(rows)
    proposal.safe_if(
        "never",
        False,
        "what is looped over has to be a tensor, and sums and products of its numbers no longer"
        " wrap in its dtype",
    )


def _rows(proposal: Proposal, loop: ast.For) -> Iterator[tuple[list[str], ast.Name]]:
    """What a loop takes apart: the names that its target binds, and where they come from."""
    targets, sources = [loop.target], [loop.iter]
    call = loop.iter
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        if call.keywords or proposal.names.taken(call.func.id):
            return
        if not isinstance(loop.target, (ast.Tuple, ast.List)):
            return
        targets, sources = list(loop.target.elts), list(call.args)
        if call.func.id == "enumerate":
            targets = targets[1:]
        elif call.func.id != "zip":
            return
    if len(targets) != len(sources):
        return
    for target, source in zip(targets, sources, strict=True):
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        if isinstance(source, ast.Name) and len(names) == len(parts):
            yield names, source


def _derived(loop: ast.For, names: list[str]) -> set[str]:
    """The names, and those that the loop's body computes from them."""
    found = set(names)
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            read = {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}
            if isinstance(target, ast.Name) and read & found:
                found.add(target.id)
    return found


def _is_tensor(proposal: Proposal, function: ast.FunctionDef, source: ast.Name) -> bool:
    """Whether the function shows that a name holds a tensor, or the analysis says that callers
    pass one.
    """
    event = proposal.finding.event
    passed = {need.name.partition("|")[0] for need in event.needs} if event is not None else set()
    indexed = any(
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Tuple)
        and isinstance(node.value, ast.Name)
        and node.value.id == source.id
        for node in ast.walk(function)
    )
    single = len(stores(function, source.id)) == 1
    return single and (indexed or source.id in passed or shown_in(function, source.id))
