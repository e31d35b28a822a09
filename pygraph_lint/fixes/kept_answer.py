"""What a cached function without parameters gives is asked once, when the file is imported.

if available(): -> if _AVAILABLE:, with _AVAILABLE = available() below the imports

Safe: the cache gives the same object in every call, and the imports above have called the function
already. torch.compile looks through the cache and traces the function in each call; a name of the
module is a constant to it.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.answers import only_imports
from pygraph_lint.fixes.names import all_nodes
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import FUNCTIONS, Source

CODES = ("PG522",)


def propose(proposal: Proposal) -> None:
    """Read a name of the module instead of calling."""
    call = proposal.path[-1]
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise Declined("not a call by name")
    proposal.message = "Ask once, when the file is imported"
    name = call.func.id
    asked = proposal.finding.event is not None and proposal.finding.event.kind.endswith(
        "asked-call"
    )
    proposal.need("asked", asked, "nothing proves that the imports above have called it already")
    inside = any(isinstance(node, FUNCTIONS) for node in proposal.path)
    proposal.need("in-function", inside, "the code runs when the module is imported")
    imports = _binding(proposal.source.tree, name)
    kept = _kept(proposal.source.tree, name)
    if kept is None:
        kept = f"_{name.strip('_').upper()}"
        free = not _is_written(proposal.source.tree, kept)
        proposal.need("free", free, f"the name {kept} is used for something else")
        _add(proposal, imports, f"{kept} = {name}()")
    proposal.need("seen", not _is_hidden(proposal, kept), f"{kept} is another name here")
    proposal.replace_node(call, kept)


def _binding(tree: ast.Module, name: str) -> ast.stmt:
    """The import at the top of the file that alone binds a name."""
    bound = [
        node
        for node in all_nodes(tree)
        if (isinstance(node, ast.alias) and (node.asname or node.name).split(".")[0] == name)
        or (isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg) and node.arg == name)
        or (isinstance(node, (*FUNCTIONS, ast.ClassDef)) and getattr(node, "name", "") == name)
    ]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and len(bound) == 1 and bound[0] in node.names:
            return node
    raise Declined("the name is not bound by one import at the top of the file")


def _kept(tree: ast.Module, name: str) -> str | None:
    """The name the module keeps the answer under already."""
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name):
            continue
        asks = ast.unparse(node.value) == f"{name}()" and len(node.targets) == 1
        if asks and _is_written(tree, target.id) == 1:
            return target.id
    return None


def _is_written(tree: ast.Module, name: str) -> int:
    """How often a file binds a name, or asks for it while nothing binds it."""
    stores = [
        node
        for node in all_nodes(tree)
        if (isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.alias) and (node.asname or node.name) == name)
        or (isinstance(node, (*FUNCTIONS, ast.ClassDef)) and getattr(node, "name", "") == name)
    ]
    read = any(isinstance(node, ast.Name) and node.id == name for node in all_nodes(tree))
    return len(stores) or int(read)


def _is_hidden(proposal: Proposal, name: str) -> bool:
    """Whether a function around the finding has a parameter or local of that name."""
    return any(
        name in proposal.file_names.scope(node)[0]
        for node in proposal.path
        if isinstance(node, FUNCTIONS)
    )


def _add(proposal: Proposal, imports: ast.stmt, line: str) -> None:
    """Write a line below the imports: above another assignment, or as far from them as what
    follows is.
    """
    source = proposal.source
    body = source.tree.body
    last = _end_of_imports(body, imports)
    proposal.need("own-line", source.alone(last), "the import shares its line")
    assert last.end_lineno is not None
    gap = _empty_lines(source, last.end_lineno + 1)
    follows = body[body.index(last) + 1 : body.index(last) + 2]
    below = last.end_lineno + gap + 1
    if follows and isinstance(follows[0], ast.Assign) and follows[0].lineno == below and gap:
        start = source.line_start(below)
        proposal.replace(start, start, line + source.newline)
        return
    end = source.line_start(last.end_lineno) + len(source.line(last.end_lineno))
    proposal.replace(end, end, source.newline * (max(1, gap) + 1) + line)


def _end_of_imports(body: list[ast.stmt], imports: ast.stmt) -> ast.stmt:
    """The last statement of the block of imports that ``imports`` stands in."""
    last = imports
    for node in body[body.index(imports) + 1 :]:
        if not only_imports([node]):
            break
        last = node
    return last


def _empty_lines(source: Source, first: int) -> int:
    """How many lines are empty from a 1-based line on."""
    count = 0
    while source.line_start(first + count) < len(source.text) and not source.line(first + count):
        count += 1
    return count
