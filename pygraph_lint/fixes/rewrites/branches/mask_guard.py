"""Write where a mask selects without asking before whether it selects anything.

    if bad.any(): x[bad] = 0            ->  x[bad] = 0
    if torch.isnan(x).any(): print(x); x = torch.where(torch.isnan(x), 0, x)
    ->  if not torch.compiler.is_compiling() and torch.isnan(x).any(): print(x)
        x = torch.where(torch.isnan(x), 0, x)

Always unsafe: where the mask selects nothing, the write is made, too, and may raise.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import compared, dotted, is_zero, method_name, negated
from pygraph_lint.fixes.engine.build import Line, conjunction
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.computable import SINGLE, is_written_out, shape_of
from pygraph_lint.fixes.shared.conditions import ASKED_ANYWAY, asked_anyway, is_within, operands
from pygraph_lint.fixes.shared.factories import literal_number
from pygraph_lint.fixes.shared.guards import not_compiling, says
from pygraph_lint.fixes.shared.masks import index_of, is_elementwise, is_mask, masked_reads, reduced


class MaskGuard(Rewrite):
    """PG201, PG204, PG301, PG307: ``if mask.any()`` around writes under this mask."""

    codes = ("PG201", "PG204", "PG301", "PG307")
    message = "Write where the mask selects, without asking whether it selects anything"
    kinds = (ast.If,)
    order = 39

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.If)
        parts = operands(node.test)
        asked = [part for part in parts if _any_of(site, part) is not None]
        mask = _any_of(site, asked[0]) if len(asked) == 1 else None
        if mask is None or node.orelse or not is_within(site, node.test):
            raise Declined
        said = [each for each in node.body if says(site, each, False)]
        writes = [each for each in node.body if each not in said]
        under = bool(writes) and all(_is_under(site, each, mask) for each in writes)
        # A message that stands behind a write, and will stand in front, shows nothing of it.
        first = node.body[: len(said)] == said
        under &= first or not any(map(_shows, said))
        under &= not any(_divides(site, each, mask) for it in writes for each in ast.walk(it))
        site.require("under", under, "")
        certain = is_mask(site, mask) and site.ask.is_pure(node.test)
        site.require("mask", certain, "what is asked is not certainly a mask, or has an effect")
        site.safe_only_if(
            "fits",
            False,
            "the write is made where the mask selects nothing, too: it has to fit there, and what "
            "it makes is another tensor",
        )
        site.safe_only_if("fits", not asked_anyway(site, node.test, asked[0]), ASKED_ANYWAY)
        lines: list[Line] = [site.statement_node(each) for each in writes]
        if said:
            site.safe_only_if("said", False, "compiled code no longer says this")
            test = conjunction([not_compiling(site), site.expression_node(asked[0])])
            body = cst.IndentedBlock([site.statement_node(each) for each in said])
            lines.insert(0, cst.If(test=test, body=body))
        site.put_branch(node, lines, [part for part in parts if part is not asked[0]])


def _any_of(site: Site, node: ast.expr) -> ast.expr | None:
    """``m`` of ``m.any()``, ``torch.any(m).item()``, ``m.sum() > 0``; ``~m`` of ``not m.all()``."""
    opposite = negated(node)
    if opposite is not None:
        inner = reduced(site, opposite, "all")
        return None if inner is None else ast.UnaryOp(ast.Invert(), inner)
    left, operator, right = compared(node) or (node, None, node)
    if operator is None:
        return reduced(site, node, "any")
    some = isinstance(operator, (ast.Gt, ast.NotEq)) and is_zero(right)
    return reduced(site, left, "sum") if some else None


def _is_under(site: Site, statement: ast.stmt, mask: ast.expr) -> bool:
    """Whether a statement changes what a mask selects alone, and nothing where it is empty:
    ``x[m] = y[m]``, ``x[m, 0] = 1``, ``x = torch.where(m, 0, x)``, ``x = x.masked_fill(m, 0)``.
    """
    if isinstance(statement, ast.Expr):
        filled = statement.value
        return method_name(filled) == "masked_fill_" and _fills(site, filled, mask)
    target: ast.expr | None = statement.target if isinstance(statement, ast.AugAssign) else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    value = getattr(statement, "value", None)
    if isinstance(target, ast.Subscript) and isinstance(value, ast.expr):
        index = index_of(target)
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        same = _same(parts[0], mask) and all(map(is_written_out, parts[1:]))
        # What a module holds is not of the size that a mask selects in one call.
        fits = is_elementwise(site, value, index) or (dotted(value) or "").startswith("self.")
        return same and fits and site.ask.is_pure(target.value)
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call):
        return False
    if method_name(value) == "masked_fill":
        return isinstance(statement, ast.Assign) and _fills(site, value, mask, target.id)
    if method_name(value) == "clone":
        return ast.unparse(value) == f"{target.id}.clone()"
    chosen = site.ask.callee(value) == "torch.where" and len(value.args) == 3
    if not chosen or value.keywords or not isinstance(statement, ast.Assign):
        return False
    asked, new, old = value.args
    fits = shape_of(site, new) in (SINGLE, target.id)
    return _same(asked, mask) and fits and ast.unparse(old) == target.id


def _shows(statement: ast.stmt) -> bool:
    """Whether a message has more than what is written out."""
    call = getattr(statement, "value", None)
    given = [*call.args, *call.keywords] if isinstance(call, ast.Call) else []
    return any(isinstance(it, (ast.Name, ast.Attribute)) for each in given for it in ast.walk(each))


def _divides(site: Site, node: ast.AST, mask: ast.expr) -> bool:
    """Whether numbers are divided, which may raise."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Div, ast.Pow)):
        return False
    literal = isinstance(node.op, ast.Div) and literal_number(node.right)
    return not literal and not masked_reads(node, mask) and not site.ask.is_tensor(node)


def _fills(site: Site, node: ast.expr, mask: ast.expr, name: str | None = None) -> bool:
    """Whether a call fills a tensor, ``name``, with a number under a mask."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    filled = node.func.value
    plain = len(node.args) == 2 and not node.keywords and site.ask.is_pure(filled)
    own = name is None or ast.unparse(filled) == name
    return plain and own and _same(node.args[0], mask) and _is_number(site, node.args[1])


def _is_number(site: Site, node: ast.expr) -> bool:
    return site.ask.known(node).must_be(Type.NUMBER)


def _same(node: ast.expr, mask: ast.expr) -> bool:
    return ast.dump(node) == ast.dump(mask)
