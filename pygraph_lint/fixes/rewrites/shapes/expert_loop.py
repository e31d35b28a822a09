"""Let each expert work on every token, and keep what the router chose.

    for e in hit:                                    for e in range(self.num_experts):
        pos, token = torch.where(mask[e])                chosen = mask[e].T
        y = self.experts[e](x[token])            ->      y = self.experts[e](x)
        y = y * weights[token, pos, None]                y = y * (weights * chosen).sum(-1, ...)
        out.index_add_(0, token, y)                      out.add_(torch.where(any, y, 0))

Always unsafe: the experts do the work of all tokens, and each must treat a row on its own. Looking
for the experts that were hit, and leaving out those that were not, is gone.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.queries.interface import Device
from pygraph_lint.analysis.syntax.nodes import is_constant
from pygraph_lint.fixes.engine.build import (
    Change,
    Line,
    assign,
    bare,
    call,
    changed,
    expression,
    names_in,
    operand,
    statement,
)
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.experts import (
    Chosen,
    added_by,
    classes_of,
    has_as_many,
    is_token,
    mixes_rows,
    picked_by,
    where_mask,
    writes,
)

# What makes numbers of tokens, or of a row of `nonzero`.
_NUMBERS = frozenset(("tolist", "cpu", "item", "numpy", "squeeze"))


class ExpertLoop(Rewrite):
    """PG401: ``torch.where(mask[e])`` or ``torch.where(index == e)`` in a loop over experts."""

    codes = ("PG401",)
    message = "Let each expert work on every token, and select"
    kinds = (ast.For, ast.AsyncFor)
    order = 30

    def rewrite(self, site: Site) -> None:
        loop = site.tree
        assert isinstance(loop, ast.For)
        chosen = _selection(site, loop)
        if chosen is None:
            raise Declined
        moved = site.ask.known(chosen.mask).device is not Device.HOST
        site.require("moved", moved, "the host has what was chosen: rows of the device are not")
        chosen.dynamic = _looked_for(site, chosen, loop.iter)
        body = [line for each in loop.body for line in _line(site, chosen, each)]
        inner = [node for each in loop.body for node in ast.walk(each)]
        bound = {
            node.id
            for node in inner
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        outside = any(site.ask.used_outside(name, [loop]) for name in bound - chosen.written)
        site.require("inside", not outside, "a value of one turn is used behind the loop")
        if not chosen.written:
            raise Declined("no result is added up by token")
        alone = not any(mixes_rows(node) for node in ast.walk(loop))
        site.require("row-wise", alone, "what is computed of a row depends on the others")
        site.safe_only_if(
            "all-tokens",
            False,
            "every expert that can be counted works on every token, row by row; sums are rounded"
            " otherwise",
        )
        node = cst.ensure_type(site.statement_node(loop), cst.For)
        if chosen.dynamic:
            node = node.with_changes(iter=_range(site, chosen, loop))
        for made in chosen.removed:
            site.put_statements([made], [])
        block = cst.ensure_type(node.body, cst.IndentedBlock)
        site.put_statements([loop], [node.with_changes(body=block.with_changes(body=body))])


def _selection(site: Site, loop: ast.For) -> Chosen | None:
    """The statement ``pos, token = torch.where(mask)`` of a loop."""
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    for each in loop.body:
        value = each.value if isinstance(each, ast.Assign) else None
        names = each.targets[0] if isinstance(each, ast.Assign) else None
        if not isinstance(names, ast.Tuple) or not isinstance(target, ast.Name):
            continue
        if len(names.elts) != 2 or not all(isinstance(name, ast.Name) for name in names.elts):
            continue
        mask = where_mask(site, value)
        if mask is None or not _differs(site, loop, mask, target.id):
            continue
        first, second = (name.id for name in names.elts if isinstance(name, ast.Name))
        turned = is_token(loop, second)
        if turned == is_token(loop, first):
            continue
        token, place = (second, first) if turned else (first, second)
        assert isinstance(each, ast.Assign)
        name = site.free("chosen")
        return Chosen(each, mask, target.id, {token}, {place}, turned, name)
    return None


def _differs(site: Site, loop: ast.For, mask: ast.expr, expert: str) -> bool:
    """Whether a mask, perhaps under a name that the loop's body gives it, is one of an expert."""
    made = site.ask.only_definition(mask) if isinstance(mask, ast.Name) else None
    inside = made is not None and site.ask.statement(made.node) in loop.body
    value = made.value if made is not None and made.value is not None and inside else mask
    return any(isinstance(node, ast.Name) and node.id == expert for node in ast.walk(value))


def _looked_for(site: Site, chosen: Chosen, node: ast.expr) -> bool:
    """Whether an expression, perhaps under a name that only stands here, finds the experts that
    were hit; the name's statement then goes.
    """
    found = site.ask.only_definition(node) if isinstance(node, ast.Name) else None
    value = found.value if found is not None else node
    asked = value is not None and any(
        isinstance(each, ast.Attribute) and each.attr == "nonzero" for each in ast.walk(value)
    )
    if asked and found is not None:
        made = site.ask.statement(found.node)
        alone = len(getattr(site.ask.parent(made), "body", [])) < 2
        if alone or site.ask.uses(found) != [node]:
            raise Declined("the experts that were hit are asked for elsewhere, too")
        chosen.removed.append(made)
    return asked


def _range(site: Site, chosen: Chosen, loop: ast.For) -> cst.BaseExpression:
    """``range(n)`` over all experts."""
    classes = classes_of(site, chosen.mask)
    if classes is None:
        raise Declined("the number of experts is not found")
    if chosen.extra is not None:
        last = ast.unparse(chosen.extra)
        same = ast.unparse(classes) in (last, f"{last} + 1")
        site.require("extra", same, "another expert than the last one is left out")
        classes = chosen.extra
    bound = site.expression_node(classes)
    picked = picked_by(loop, chosen.expert, chosen.mask)
    counted = all(has_as_many(site, each, classes) for each in picked)
    site.require("counted", counted, "there may be fewer experts than classes")
    if not site.ask.is_builtin("range", site.path[-1]):
        raise Declined("the name range means something else here")
    return call("range", bound)


# -- the statements of the loop


def _line(site: Site, chosen: Chosen, each: ast.stmt) -> list[Line]:
    """What becomes of one statement."""
    if each is chosen.index:
        return [_choice(site, chosen)]
    if _skips(chosen, each) or _renames(chosen, each):
        return []
    node = site.statement_node(each)
    if isinstance(each, ast.If) and _has_tokens(chosen, each) and _bare_block(node):
        lines = [line for inner in each.body for line in _line(site, chosen, inner)]
        above = [*node.leading_lines, *lines[0].leading_lines] if lines else []
        return [lines[0].with_changes(leading_lines=above), *lines[1:]] if lines else []
    changes: dict[cst.CSTNode, Change] = {}
    for inner in ast.walk(each):
        if isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Load):
            template = _read(chosen, inner)
            if template is not None:
                changes[site.expression_node(inner)] = _filled(template, chosen)
    made = _added(site, chosen, each, changes)
    if made is None:
        changed_rows = any(map(writes, ast.walk(each)))
        site.require("new", not changed_rows, "rows are written to, which are no longer a copy")
        made = changed(node, changes)
    unknown = not names_in(made).isdisjoint(chosen.tokens | chosen.places)
    site.require("known", not unknown, "the tokens are used for more than rows")
    assert isinstance(made, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    return [made]


def _choice(site: Site, chosen: Chosen) -> Line:
    """``chosen = mask[e].T``: by token and place, what the router chose."""
    mask = chosen.mask
    if chosen.dynamic and isinstance(mask, ast.Call):
        method = mask.func if isinstance(mask.func, ast.Attribute) else None
        if method is not None and method.attr == "squeeze":
            mask = method.value
    value = site.expression_node(mask)
    if chosen.turned:
        value = expression("{value}.T", value=operand(value))
    above = site.statement_node(chosen.index).leading_lines
    return assign(chosen.name, bare(value)).with_changes(leading_lines=above)


def _skips(chosen: Chosen, each: ast.stmt) -> bool:
    """``if token.numel() == 0: continue``, ``if e == n: continue``."""
    if not isinstance(each, ast.If) or each.orelse or not isinstance(each.body[0], ast.Continue):
        return False
    names = {node.id for node in ast.walk(each.test) if isinstance(node, ast.Name)}
    if names & (chosen.tokens | chosen.places):
        return True
    test = each.test
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    if ast.unparse(test.left) == chosen.expert and chosen.dynamic:
        chosen.extra = test.comparators[0]
        return True
    return False


def _has_tokens(chosen: Chosen, each: ast.If) -> bool:
    """``if token.numel() > 0:`` without else."""
    test = each.test
    if isinstance(test, ast.Compare):
        (more, *_), (none, *_) = test.ops, test.comparators
        if not isinstance(more, ast.Gt | ast.NotEq) or not is_constant(none, 0):
            return False
        test = test.left
    names = chosen.tokens | chosen.places
    sizes = ("{}.numel()", "{}.shape[0]", "{}.size(0)", "len({})")
    return not each.orelse and ast.unparse(test) in {s.format(n) for s in sizes for n in names}


def _bare_block(node: cst.CSTNode) -> bool:
    """Whether an ``if`` has no comments that would go with it."""
    block = cst.ensure_type(node, cst.If).body
    if not isinstance(block, cst.IndentedBlock) or block.header.comment is not None:
        return False
    return not any(line.comment for line in block.footer)


def _renames(chosen: Chosen, each: ast.stmt) -> bool:
    """``e = e[0]``, ``rows = token.tolist()``."""
    if not isinstance(each, ast.Assign) or not isinstance(each.targets[0], ast.Name):
        return False
    value: ast.expr = each.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in _NUMBERS:
            return False
        value = value.func.value
    if chosen.dynamic and isinstance(value, ast.Subscript):
        value = value.value
    name, new = value.id if isinstance(value, ast.Name) else "", each.targets[0].id
    for group in (chosen.tokens, chosen.places):
        if name in group:
            group.add(new)
            return True
    return chosen.dynamic and name == new == chosen.expert


def _read(chosen: Chosen, node: ast.Subscript) -> str | None:
    """A template for ``x[token]`` and the like; None for another index."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    kinds = "".join(chosen.kind(part) for part in parts)
    templates = {"t": "{x}", "t:": "{x}", "nt": "{x}[None]", "nt:": "{x}[None]"}
    weights = f"({{x}} * {chosen.name}).sum(-1"
    templates |= {"tp": f"{weights})", "tpn": f"{weights}, keepdim=True)"}
    own = isinstance(node.value, ast.Name) and node.value.id == chosen.expert
    if own and chosen.dynamic and ast.unparse(node.slice) == "0":
        return "{x}"
    return templates.get(kinds)


def _filled(template: str, chosen: Chosen) -> Change:
    def made(new: cst.CSTNode) -> cst.CSTNode:
        value = cst.ensure_type(new, cst.Subscript).value
        return value if template == "{x}" else expression(template, x=operand(value))

    return made


def _added(
    site: Site, chosen: Chosen, each: ast.stmt, changes: dict[cst.CSTNode, Change]
) -> cst.CSTNode | None:
    """``out.index_add_(0, token, y)``, ``out[token] += y`` for all tokens; None for other code."""
    value, target = getattr(each, "value", None), getattr(each, "target", None)
    if isinstance(each, ast.Expr) and isinstance(value, ast.Call) and added_by(value) is not None:
        rows, out, added = value.args[1], value.func.value, value.args[2]  # type: ignore[attr-defined]
        template = "{out}.add_({torch}.where({rows}, {y}, 0))"
    elif isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add):
        if not isinstance(target, ast.Subscript) or _read(chosen, target) != "{x}":
            return None
        rows, out, added = target.slice, target.value, each.value
        template = "{out} += {torch}.where({rows}, {y}, 0)"
    else:
        return None
    if chosen.kind(rows.elts[0] if isinstance(rows, ast.Tuple) else rows) != "t":
        return None
    if isinstance(out, ast.Name):
        chosen.written.add(out.id)
    y = changed(site.expression_node(added), changes)
    assert isinstance(y, cst.BaseExpression)
    parts = {
        "out": site.expression_node(out),
        "torch": cst.parse_expression(use_torch(site)),
        "rows": expression(f"{chosen.name}.any(-1, keepdim=True)"),
        "y": y,
    }
    above = site.statement_node(each).leading_lines
    return statement(template, **parts).with_changes(leading_lines=above)
