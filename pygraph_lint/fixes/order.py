"""Whether a device can be asked for before a tensor is made: no error comes before another one."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.nodes import receiver
from pygraph_lint.fixes.factories import FACTORIES, is_integer, literal_number
from pygraph_lint.fixes.site import Site

# Methods that raise for no shape.
_ANY_SHAPE = frozenset(
    (
        *("contiguous", "logical_not", "bool", "short", "int", "long", "half", "bfloat16"),
        *("float", "double"),
    )
)


_ONE_OF = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.comprehension)


def is_there(site: Site, device: ast.expr, chain: ast.expr) -> bool:
    """Whether a device can be asked for before ``chain`` is evaluated: it has a name, or is that of
    a tensor for certain, or of something whose shape was asked for before, or is by the chain.
    """
    if not isinstance(device, ast.Attribute):
        return isinstance(device, (ast.Name, ast.Constant))
    owner = device.value
    if site.proven_tensor(owner):
        return True
    asked = (f"{ast.unparse(owner)}.shape", f"{ast.unparse(owner)}.size")
    inner = set(ast.walk(chain))
    certain = not any(isinstance(part, _ONE_OF) for part in inner)
    return any(
        isinstance(part, ast.Attribute)
        and ast.unparse(part) in asked
        and ((certain and part in inner) or site.ask.runs_before(part, device))
        and site.ask.same_value(owner, part)
        for step in [*site.ask.steps_before(device), chain]
        for part in ast.walk(step)
    )


def never_raises(site: Site, node: ast.expr) -> bool:
    """Whether a factory, and what follows it in one expression, raises for no size: all of them
    are counted or written out.
    """
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(never_raises(site, each) for each in node.elts)
    if isinstance(node, ast.Subscript):
        return never_raises(site, node.value)
    if isinstance(node, ast.BinOp) and not is_integer(site, node, count=True):
        return never_raises(site, node.left) and never_raises(site, node.right)
    if not isinstance(node, ast.Call) or is_integer(site, node, count=True):
        return literal_number(node) is not None or is_integer(site, node, count=True)
    given = [*node.args, *(item.value for item in node.keywords if item.arg != "dtype")]
    if site.ask.callee(node) in FACTORIES:
        return all(never_raises(site, each) for each in given)
    before = receiver(node, _ANY_SHAPE)
    return before is not None and not given and never_raises(site, before)
