"""A number read from a tensor only to go back into tensor arithmetic stays a tensor.

x * scale.item() -> x * scale.detach()

Unsafe: a 0-d tensor may lead to another dtype than the number, and a tensor of one element with
dimensions to another shape.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.build import expression, operand
from pygraph_lint.fixes.names import assigned_values, loads, parents, stores
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class ItemArithmetic(Rewrite):
    """PG201, PG202: ``t.item()``, ``float(t)`` in arithmetic."""

    codes = ("PG201", "PG202")
    message = "Keep the number on the device"
    order = 52

    def rewrite(self, site: Site) -> None:
        call = site.around(ast.Call)
        if call is None or site.function is None:
            raise Declined("not a call inside a function")
        tensor = _read_tensor(site, call)
        if tensor is None:
            raise Declined("not t.item() or float(t)")
        site.require(
            "arithmetic",
            _only_arithmetic(site, call),
            "the number is used outside tensor arithmetic",
        )
        site.safe_only_if(
            "promotion",
            False,
            "a tensor may lead to another dtype or shape than the number did",
        )
        kept = operand(site.expression_node(tensor))
        site.put(call, expression("{tensor}.detach()", tensor=kept))


def _read_tensor(site: Site, call: ast.Call) -> ast.expr | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.value if call.func.attr == "item" and not call.args else None
    plain = site.ask.callee(call) == "builtins.float" and len(call.args) == 1
    return call.args[0] if plain else None


def _only_arithmetic(site: Site, call: ast.Call) -> bool:
    """Whether the number, at once or under a name, only meets tensors in arithmetic."""
    function = site.function
    assert function is not None
    above = parents(function)
    if _meets_tensor(site, above, call):
        return True
    parent = above.get(call)
    named = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if not isinstance(named, ast.Name) or len(stores(function, named.id)) != 1:
        return False
    if assigned_values(function, named.id) != [call]:
        return False
    reads = loads(function, named.id)
    return bool(reads) and all(_meets_tensor(site, above, read) for read in reads)


def _meets_tensor(site: Site, above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    parent = above.get(node)
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, _ARITHMETIC):
        return False
    other = parent.right if parent.left is node else parent.left
    return isinstance(other, ast.expr) and site.ask.is_tensor(other)
