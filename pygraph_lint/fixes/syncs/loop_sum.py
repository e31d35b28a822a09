"""Add up on the device in a training loop, and read the sum once behind it.

    for x in loader:                          for x in loader:
        total += loss.item()             ->       total += loss.detach()
                                              total = float(total)

Always unsafe: the sum has the tensor's precision. The name must only be added to in the loop.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.fixes.build import expression, operand, statement
from pygraph_lint.fixes.names import stores
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site


class LoopSum(Rewrite):
    """PG701: ``total += loss.item()`` on each step."""

    codes = ("PG701",)
    message = "Add up on the device, and read the sum after the loop"
    order = 40

    def fits(self, tree: ast.AST) -> bool:
        added = isinstance(tree, ast.AugAssign) and isinstance(tree.op, ast.Add)
        return added and isinstance(tree.target, ast.Name)  # type: ignore[attr-defined]

    def rewrite(self, site: Site) -> None:
        added = site.tree
        assert isinstance(added, ast.AugAssign) and isinstance(added.target, ast.Name)
        read = _read(site, added.value)
        loop = next((n for n in site.ask.path(added) if isinstance(n, (ast.For, ast.While))), None)
        if read is None or loop is None or site.function is None:
            raise Declined
        name = added.target.id
        kind = _kind(site, name, loop, read[1])
        site.require("number", kind is not None, f"{name} does not start as a number")
        inside = [node for node in ast.walk(loop) if _means(node, name)]
        only = inside == [added.target]
        site.require("only-added", only, f"{name} is used in the loop itself, too")
        site.safe_only_if("precision", False, "the sum has the precision of the tensor")
        call, tensor = read
        kept = operand(site.expression_node(tensor))
        site.put(call, expression("{tensor}.detach()", tensor=kept))
        end = site.source.line_start((loop.end_lineno or loop.lineno) + 1)
        behind = statement(f"{name} = {kind}({name})")
        line = site.source.indent(loop) + cst.Module([behind]).code.strip()
        if not site.source.text[:end].endswith(("\n", "\r")):
            raise Declined("the loop ends the file without a line ending")
        site.replace(end, end, line + site.source.newline)


def _read(site: Site, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """``loss.item()`` or ``float(loss)``, perhaps times a number, and the tensor read there."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        return _read(site, node.left) or (
            _read(site, node.right) if isinstance(node.op, ast.Mult) else None
        )
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return node, _before_copy(node.func.value)
    plain = site.ask.callee(node) == "builtins.float" and len(node.args) == 1
    return (node, _before_copy(node.args[0])) if plain else None


def _before_copy(node: ast.expr) -> ast.expr:
    """``loss`` of ``loss.detach().cpu()``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in ("detach", "cpu") or node.args:
            return node
        node = node.func.value
    return node


def _kind(site: Site, name: str, loop: ast.stmt, tensor: ast.expr) -> str | None:
    """``float`` or ``int``, as the number is that a name holds in front of the loop and behind."""
    assert site.function is not None
    kinds = set()
    for store in stores(site.function, name):
        parent = site.ask.parent(store)
        if isinstance(parent, ast.AugAssign) and site.ask.statement(parent) in set(ast.walk(loop)):
            continue
        value = parent.value if isinstance(parent, ast.Assign) else None
        number = value.value if isinstance(value, ast.Constant) else None
        kinds.add(type(number).__name__)
    if kinds == {"float"}:
        return "float"
    if kinds != {"int"}:
        return None
    if any(isinstance(node, ast.Compare) for node in ast.walk(tensor)):
        return "int"
    return "float" if _is_float(site, loop, tensor) else None


def _is_float(site: Site, loop: ast.stmt, tensor: ast.expr) -> bool:
    """Whether a tensor is floating: known, or gradients of it are asked for."""
    asked = f"{ast.unparse(tensor)}.backward"
    return site.ask.known(tensor).dtype == "float" or any(
        isinstance(node, ast.Attribute) and ast.unparse(node) == asked for node in ast.walk(loop)
    )


def _means(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
