"""What a function sets up once, for each object it is given, is left out of the compiled code.

def prepare(model):                      def prepare(model):
    if model.prepared:                       if model.prepared:
        return                                   return
    with LOCK:                 ->            _prepare(model)
        model.register_forward_hook(...)
        model.prepared = True            @torch.compiler.disable
                                         def _prepare(model):
                                             with LOCK: ...

Safe: locks and hooks are not traced, so this ran in pieces between graph breaks before; now there
is one break, where it is called. The question whether it is done is traced as before.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import all_nodes, dotted, loads, own_nodes
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG513", "PG521")


class _Once(NamedTuple):
    """A function that asks an attribute of its parameter, and what it does if that is not set."""

    function: ast.FunctionDef
    attribute: str
    rest: list[ast.stmt]


def propose(proposal: Proposal) -> None:
    """Move what the function does once into a function of its own."""
    inside = next((node for node in proposal.path if isinstance(node, ast.FunctionDef)), None)
    if inside is None or proposal.parent(inside) is not proposal.source.tree:
        raise Declined("")
    proposal.message = "Leave what is set up once out of compiled code"
    once, reached = _around(proposal.source.tree, inside)
    function = once.function
    nodes = [node for statement in once.rest for node in [statement, *own_nodes(statement)]]
    returns = any(isinstance(node, ast.Return) and node.value is not None for node in nodes)
    yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes)
    proposal.need("nothing-back", not returns and not yields, "it gives something back")
    everything = [*once.rest, *reached]
    done = any(_sets(node, once.attribute) for item in everything for node in ast.walk(item))
    proposal.need("set", done, "nothing shows that this is done once")
    host = not any(_computes(proposal, node) for item in everything for node in ast.walk(item))
    proposal.need("host-only", host, "it also computes with torch")
    name = f"_{function.name}"
    tree = proposal.source.tree
    used = loads(tree, name) or any(getattr(node, "name", "") == name for node in all_nodes(tree))
    free = not used and not proposal.names.taken(name)
    proposal.need("free", free, f"the name {name} is used for something else")
    _write(proposal, once, name, everything)


def _around(tree: ast.Module, inside: ast.FunctionDef) -> tuple[_Once, list[ast.FunctionDef]]:
    """The one function that leads to another and asks first, with all that it calls."""
    found = []
    for node in tree.body:
        once = _asks_first(node)
        reached = _reached(tree, once.rest) if once is not None else []
        if once is not None and (once.function is inside or inside in reached):
            found.append((once, reached))
    if len(found) != 1:
        raise Declined("")
    return found[0]


def _asks_first(node: ast.stmt) -> _Once | None:
    """``def f(x): if x.done: return`` and more, as what it is."""
    if not isinstance(node, ast.FunctionDef):
        return None
    arguments = node.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if len(given) != 1 or arguments.vararg or arguments.kwarg or arguments.defaults:
        return None
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    first = body[0] if len(body) > 1 else None
    if not isinstance(first, ast.If) or first.orelse or len(first.body) != 1:
        return None
    left = first.body[0]
    attribute = _asked(first.test, given[0].arg)
    if attribute is None or not isinstance(left, ast.Return) or left.value is not None:
        return None
    return _Once(node, attribute, body[1:])


def _asked(test: ast.expr, parameter: str) -> str | None:
    """The attribute in ``x.done``, ``getattr(x, "done", False)`` or ``hasattr(x, "done")``."""
    if isinstance(test, ast.Attribute) and ast.unparse(test.value) == parameter:
        return test.attr
    if not isinstance(test, ast.Call) or ast.unparse(test.func) not in ("getattr", "hasattr"):
        return None
    named = [node.value for node in test.args if isinstance(node, ast.Constant)]
    if not named or ast.unparse(test.args[0]) != parameter or not isinstance(named[0], str):
        return None
    return named[0]


def _reached(tree: ast.Module, rest: list[ast.stmt]) -> list[ast.FunctionDef]:
    """The functions of the file that statements call, directly or through each other."""
    known = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found: list[ast.FunctionDef] = []
    pending: list[ast.stmt] = list(rest)
    while pending:
        for node in ast.walk(pending.pop()):
            called = known.get(dotted(node.func) or "") if isinstance(node, ast.Call) else None
            if called is not None and called not in found:
                found.append(called)
                pending.append(called)
    return found


def _sets(node: ast.AST, attribute: str) -> bool:
    """Whether a node sets an attribute, by name or by ``setattr``."""
    if isinstance(node, ast.Attribute):
        return node.attr == attribute and isinstance(node.ctx, ast.Store)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
        name = node.args[1] if len(node.args) == 3 else None
        return isinstance(name, ast.Constant) and name.value == attribute
    return False


def _computes(proposal: Proposal, node: ast.AST) -> bool:
    """Whether a node computes with torch, or says that it takes tensors."""
    if isinstance(node, ast.arg):
        return node.annotation is not None and "Tensor" in ast.unparse(node.annotation)
    name = proposal.names.callee(node) or ""
    return name.startswith("torch.") and not name.startswith("torch.nn.")


def _write(proposal: Proposal, once: _Once, name: str, everything: list[ast.stmt]) -> None:
    """Put the head of the new function above what is set up.

    In a file that can be used without torch, torch is imported where hooks are about to be put on
    modules: it is there then.
    """
    source, newline = proposal.source, proposal.source.newline
    given = ast.unparse(once.function.args)
    parameter = given.partition(":")[0]
    returns = " -> None" if once.function.returns is not None else ""
    indent = source.indent(once.rest[0])
    head = f"def {name}({given}){returns}:"
    try:
        decorator = f"@{use_torch(proposal)}.compiler.disable"
        lines = [f"{indent}{name}({parameter})", "", "", decorator, head]
    except Declined:
        hooks = any(_puts_hooks(node) for item in everything for node in ast.walk(item))
        proposal.need("torch-there", hooks, "the file can be used without torch")
        call = f"{indent}torch.compiler.disable({name})({parameter})"
        lines = [f"{indent}import torch", "", call, "", "", head]
    row = once.rest[0].lineno
    while source.line(row - 1).lstrip().startswith("#"):
        row -= 1
    start = source.line_start(row)
    proposal.replace(start, start, newline.join([*lines, ""]))


def _puts_hooks(node: ast.AST) -> bool:
    """``module.register_forward_hook(...)`` and its like."""
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else ""
    return name.startswith("register_") and name.endswith("_hook")
