"""Say something that is said once while tracing, through a function that compiled code calls.

    logger.warning_once("text")  ->  _warning_once("text"), with

    @torch.compiler.assume_constant_result
    def _warning_once(message):
        logger.warning_once(message)

Always unsafe: the record names the new function and its line, and a logger that tells messages
apart by the line that says them takes all for one. Values in the text are constants of the trace.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.fixes.engine.build import Line
from pygraph_lint.fixes.engine.build import statement as statement_of
from pygraph_lint.fixes.engine.imports import imported_above, use_torch
from pygraph_lint.fixes.engine.names import loads
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site

_METHODS = ("debug_once", "error_once", "info_once", "warning_once")


class LogOnce(Rewrite):
    """PG502: ``logger.warning_once("text")``."""

    codes = ("PG502",)
    message = "Say this while tracing"
    order = 65

    def rewrite(self, site: Site) -> None:
        statement = site.statement
        call = statement.value if isinstance(statement, ast.Expr) else None
        function = call.func if isinstance(call, ast.Call) else None
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            raise Declined
        assert isinstance(call, ast.Call)
        inside = site.function is not None
        site.require("in-function", inside, "the code runs when the module is imported")
        site.require("once", function.attr in _METHODS, "it is said in every call")
        text = call.args[0] if len(call.args) == 1 and not call.keywords else None
        written = isinstance(text, ast.Constant) and isinstance(text.value, str)
        said = written or isinstance(text, ast.JoinedStr)
        site.require("text", said, "what is said is not written out as one text")
        site.safe_only_if("record", False, "the record names another function and line")
        logger = function.value.id
        made = _made(site, logger)
        name = f"_{function.attr}" if logger == "logger" else f"_{function.attr}_{logger}"
        torch = use_torch(site)
        site.require(
            "torch-first", imported_above(site, torch, made), "torch is not imported above"
        )
        template = (
            f"@{torch}.compiler.assume_constant_result\n"
            f"def {name}(message):\n    {logger}.{function.attr}(message)\n"
        )
        if not _is_there(site, name, template):
            free = not _is_used(site, name)
            site.require("free", free, f"the name {name} is used for something else")
            _add(site, made, statement_of(template))
        site.put(function, cst.Name(name))


def _made(site: Site, logger: str) -> ast.Assign:
    """The module's statement that makes the logger, the only one that binds its name."""
    tree = site.source.tree
    names = (node for node in site.ask.of_kind(ast.Name) if node.id == logger)
    bindings: list[ast.AST] = [node for node in names if not isinstance(node.ctx, ast.Load)]
    bindings += [node for node in site.ask.of_kind(ast.arg) if node.arg == logger]
    imported = site.ask.of_kind(ast.alias)
    bindings += [node for node in imported if (node.asname or node.name) == logger]
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets == bindings and site.source.alone(node):
            return node
    raise Declined("the logger is not made once, at the top of the module")


def _is_there(site: Site, name: str, template: str) -> bool:
    """Whether the module has the function already."""
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == name
        and ast.unparse(node) == ast.unparse(ast.parse(template))
        for node in site.source.tree.body
    )


def _is_used(site: Site, name: str) -> bool:
    tree = site.source.tree
    functions = {node.name for node in site.ask.of_kind(ast.FunctionDef)}
    classes = {node.name for node in site.ask.of_kind(ast.ClassDef)}
    return site.taken(name) or bool(loads(tree, name)) or name in functions | classes


def _add(site: Site, made: ast.Assign, function: Line) -> None:
    """Write the function below the statement that makes the logger, two empty lines around it."""
    empty = cst.EmptyLine(indent=False)
    rows = site.source.text.split(site.source.newline)[made.end_lineno or made.lineno :]
    kept = next((number for number, row in enumerate(rows) if row.strip()), None)
    function = cst.ensure_type(function, cst.FunctionDef).with_changes(leading_lines=[empty] * 2)
    if kept is not None:
        block = cst.ensure_type(function.body, cst.IndentedBlock)
        function = function.with_changes(body=block.with_changes(footer=[empty] * max(0, 2 - kept)))
    site.put_statements([made], [site.statement_node(made), function], whole=False)
