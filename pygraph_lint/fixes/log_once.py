"""A message that is said once goes through a function that is run while tracing.

logger.warning_once("text") -> _warning_once("text"), with

@torch.compiler.assume_constant_result def _warning_once(message): logger.warning_once(message)

Safe: Python runs the same call. Compiled code runs it while tracing, once for each text, when
Python would have run it; later calls would not have said the text again. Values in the text are
constants of the trace, guarded as any other, or end the graph as before.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import all_nodes, dotted, loads
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import FUNCTIONS

CODES = ("PG502",)
_METHODS = ("debug_once", "error_once", "info_once", "warning_once")


def propose(proposal: Proposal) -> None:
    """Call a function of the module instead of the logger."""
    statement = proposal.statement
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        raise Declined("")
    assert isinstance(call, ast.Call)
    proposal.message = "Say this while tracing"
    inside = any(isinstance(node, FUNCTIONS) for node in proposal.path)
    proposal.need("in-function", inside, "the code runs when the module is imported")
    proposal.need("once", function.attr in _METHODS, "it is said in every call")
    single = len(call.args) == 1 and not call.keywords
    text = call.args[0] if single else None
    written = isinstance(text, ast.Constant) and isinstance(text.value, str)
    said = written or isinstance(text, ast.JoinedStr)
    proposal.need("text", said, "what is said is not written out as one text")
    logger = function.value.id
    made = _made(proposal, logger)
    name = _helper(proposal, logger, function.attr)
    torch = use_torch(proposal)
    proposal.need("torch-first", _is_imported(proposal, torch, made), "torch is not imported above")
    lines = [
        f"@{torch}.compiler.assume_constant_result",
        f"def {name}(message):",
        f"{proposal.source.indent_unit}{logger}.{function.attr}(message)",
    ]
    if not _is_there(proposal, name, lines):
        free = not _is_used(proposal, name)
        proposal.need("free", free, f"the name {name} is used for something else")
        _add(proposal, made, lines)
    proposal.replace_node(function, name)


def _helper(proposal: Proposal, logger: str, method: str) -> str:
    """The name of the function: with the logger's where the file may need one for another."""
    others = any(
        isinstance(node, ast.Attribute) and node.attr == method and dotted(node.value) != logger
        for node in all_nodes(proposal.source.tree)
    )
    return f"_{method}_{logger}" if others and logger != "logger" else f"_{method}"


def _made(proposal: Proposal, logger: str) -> ast.Assign:
    """The module's statement that makes the logger, the only one that binds its name."""
    tree = proposal.source.tree
    bindings = [
        node
        for node in all_nodes(tree)
        if (isinstance(node, ast.Name) and node.id == logger and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg) and node.arg == logger)
        or (isinstance(node, ast.alias) and (node.asname or node.name) == logger)
    ]
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and node.targets == bindings
            and proposal.source.alone(node)
        ):
            return node
    raise Declined("the logger is not made once, at the top of the module")


def _is_imported(proposal: Proposal, torch: str, made: ast.Assign) -> bool:
    """Whether ``import torch`` stands above the logger, without a condition."""
    above = [node for node in proposal.source.tree.body if node.lineno < made.lineno]
    names = [
        alias.asname or alias.name.split(".")[0]
        for node in above
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    ]
    parts = [node.module or "" for node in above if isinstance(node, ast.ImportFrom)]
    return torch in names or any(part.split(".")[0] == "torch" for part in parts)


def _is_there(proposal: Proposal, name: str, lines: list[str]) -> bool:
    """Whether the module has the function already."""
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == name
        and ast.unparse(node) == _same(lines)
        for node in proposal.source.tree.body
    )


def _same(lines: list[str]) -> str:
    return ast.unparse(ast.parse("\n".join(lines)))


def _is_used(proposal: Proposal, name: str) -> bool:
    tree = proposal.source.tree
    return (
        proposal.names.taken(name)
        or bool(loads(tree, name))
        or any(
            isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name
            for node in all_nodes(tree)
        )
    )


def _add(proposal: Proposal, made: ast.Assign, lines: list[str]) -> None:
    """Write the function below the statement that makes the logger, two empty lines around it."""
    source = proposal.source
    assert made.end_lineno is not None
    end = source.line_start(made.end_lineno) + len(source.line(made.end_lineno))
    behind = source.text[end:]
    white = behind[: len(behind) - len(behind.lstrip())]
    missing = max(0, 3 - white.count(source.newline)) if behind.strip() else 0
    newline = source.newline
    proposal.replace(end, end, newline * 3 + newline.join(lines) + newline * missing)
