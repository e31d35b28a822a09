"""Conditions: which operands read a tensor's value, and whether they are tensors."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.syntax.nodes import dotted, method_name
from pygraph_lint.fixes.engine.site import Declined, Site
from pygraph_lint.fixes.shared.factories import is_integer

_REDUCING = frozenset(("any", "all", "item", "sum", "max", "min", "mean"))
PLAIN = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ASKING = frozenset(("isfinite", "isnan", "isinf"))
ASKED_ANYWAY = "what the condition asks last is asked in any case, and may raise"
_SYNCHRONOUS = frozenset(("item", "tolist", "cpu", "numpy"))


def operands(test: ast.expr) -> list[ast.expr]:
    """The operands of an ``and``, or the test alone."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return test.values
    return [test]


def is_elif(site: Site, node: ast.If) -> bool:
    """Whether a branch is written as ``elif``."""
    return site.source.text.startswith("elif", site.source.span(node)[0])


def is_within(site: Site, test: ast.expr) -> bool:
    """Whether the finding is inside a condition."""
    start, end = site.source.span(test)
    return start <= site.source.at(site.finding.location) < end


def tested_operands(site: Site, test: ast.expr) -> list[ast.expr]:
    """The operands of an ``and`` that need a tensor's value: what is a tensor or reduces one, and
    where the finding is, unless it is the whole condition's.
    """
    place = site.source.at(site.finding.location)
    whole = place == site.source.span(test)[0]
    found, here = [], []
    for part in operands(test):
        start, end = site.source.with_parentheses(part, site.ask.parent(test) or test)
        if _reads(part) or site.ask.is_tensor(part):
            found.append(part)
        elif start <= place < end:
            here.append(part)
            found += here * (not whole)
    return found or here


def asked_anyway(site: Site, test: ast.expr, first: ast.expr) -> bool:
    """Whether what a condition asks behind an operand may raise: without that operand in front it
    is asked in any case. Raises Declined where asking has an effect.
    """
    parts = operands(test)
    behind = parts[parts.index(first) + 1 :]
    if not all(map(site.ask.is_pure, behind)):
        raise Declined("what the condition asks last has an effect")
    inner = [(each, site.ask.is_tensor(part)) for part in behind for each in ast.walk(part)]
    return any(
        isinstance(each, (ast.Subscript, ast.BinOp))
        or (isinstance(each, ast.Compare) and not isinstance(each.ops[0], _ANY))
        or (isinstance(each, (ast.Call, ast.Attribute)) and not (tensor or _is_own(each)))
        for each, tensor in inner
    )


_ANY = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)  # these compare anything


def _is_own(node: ast.AST) -> bool:
    """Whether a node is an attribute of ``self``."""
    return ast.unparse(getattr(node, "value", node)) == "self"


def _reads(node: ast.expr) -> bool:
    """Whether an operand visibly reads a tensor: it reduces one."""
    return any(method_name(inner) in _REDUCING for inner in ast.walk(node))


def single_elements(test: ast.expr) -> set[str]:
    """The names that have one element each where a condition holds or not: asking for the truth of
    what is computed of them element by element raises otherwise.
    """
    found: set[str] = set()
    stack: list[ast.expr] = [test]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.BoolOp):
            stack += node.values
        elif isinstance(node, ast.UnaryOp):
            stack.append(node.operand)
        elif isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            stack += [node.left, node.right]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], PLAIN):
            stack += [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and (asked := asked_of(node)) is not None:
            stack.append(asked)
    return found


def asked_of(call: ast.Call) -> ast.expr | None:
    """``x`` of ``torch.isfinite(x)`` or ``x.isfinite()``, which only tensors can be asked."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _ASKING:
        return None
    if ast.unparse(function.value) == "torch":
        return call.args[0] if len(call.args) == 1 else None
    return function.value if not call.args else None


def is_truth(site: Site, node: ast.expr) -> bool:
    """Whether an operand is a tensor on every run that says true or false: one comparison, or a
    reduction by any or all, that the host need not wait for.
    """
    attributes = (part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute))
    if not _SYNCHRONOUS.isdisjoint(attributes) or not site.ask.is_tensor(node):
        return False
    if isinstance(node, ast.Compare):
        plain = len(node.ops) == 1 and isinstance(node.ops[0], PLAIN)
        return plain and not _may_compare_sizes(site, node)
    return method_name(node) in ("any", "all")


def _may_compare_sizes(site: Site, node: ast.Compare) -> bool:
    """Whether a size is compared with an element of a parameter: that may be a shape, whatever its
    annotation says.
    """
    sides = [node.left, *node.comparators]
    sizes = [
        each for each in sides if not isinstance(each, ast.Constant) and is_integer(site, each)
    ]
    return bool(sizes) and any(_is_element(site, each) for each in sides if each not in sizes)


def _is_element(site: Site, node: ast.expr) -> bool:
    """Whether a value is computed of an element of a parameter."""
    reaching = site.ask.definitions.reaching
    values = [each.value for each in reaching(node)] if isinstance(node, ast.Name) else [node]
    parts = (part for each in values if each is not None for part in ast.walk(each))
    owners = (part.value for part in parts if isinstance(part, ast.Subscript))
    found = (each for owner in owners if isinstance(owner, ast.Name) for each in reaching(owner))
    return any(isinstance(each.node, ast.arg) for each in found)


def is_limit(site: Site, node: ast.AST) -> bool:
    """Whether an expression is a limit of a tensor's dtype: ``torch.finfo(x.dtype).max``."""
    limits = node.value if isinstance(node, ast.Attribute) else None
    asked = site.ask.callee(limits) if isinstance(limits, ast.Call) else None
    if not isinstance(limits, ast.Call) or asked not in ("torch.finfo", "torch.iinfo"):
        return False
    return all((dotted(each) or "").endswith(".dtype") for each in limits.args)
