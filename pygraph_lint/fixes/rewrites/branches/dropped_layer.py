"""A layer that a draw may drop always runs, and its result is selected.

    if not skip: x = layer(x)  ->  if isinstance(skip, torch.Tensor):
                                       output = layer(x)
                                       x = torch.where(skip.to(x.device), x, output)
                                   elif not skip: x = layer(x)

``skip`` may be set in a branch on the draw, ``if draw < p: skip = True``; the draw may be compared
where the layer is run, ``if not self.training or draw > p: x = layer(x)``. Always unsafe: the layer
runs where it was dropped.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import negated
from pygraph_lint.fixes.engine.build import Line, assign, expression, operand
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.names import all_nodes, assigned_values, changes_in_place, loads
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site


class _Update(NamedTuple):
    """``if kept or others: name = value``, where ``kept`` depends on the draw."""

    branch: ast.If
    kept: ast.expr
    others: list[ast.expr]
    name: str
    value: ast.expr


class DroppedLayer(Rewrite):
    """PG301, PG306: a branch on a draw that runs a layer."""

    codes = ("PG301", "PG306")
    message = "Run the layer always, and select its result with torch.where"
    kinds = (ast.If,)
    order = 42

    def rewrite(self, site: Site) -> None:
        branch = site.tree
        assert isinstance(branch, ast.If)
        setter = _setter(site, branch)
        update = _update(_asked_behind(site, branch, setter) if setter is not None else branch)
        drawn = _is_drawn(site, branch.test if setter is not None else update.kept)
        site.require("drawn", drawn, "")
        read = [each.id for each in ast.walk(update.value) if isinstance(each, ast.Name)]
        runs = isinstance(update.value, (ast.Call, ast.Subscript)) and update.name in read
        site.require("carried", runs, "")
        changed = _changed_later(site, update)
        site.require("kept", not changed, "the result is changed in place")
        pure = all(map(site.ask.is_pure, (update.kept, *update.others)))
        site.require("pure", pure, "the condition calls what is not known")
        site.safe_only_if(
            "always",
            False,
            "a dropped layer runs: it draws its random numbers, has its other effects, and gets"
            f" zero gradients instead of none; `{update.name}` must be a tensor and keep its shape",
        )
        if setter is not None:
            line = assign(setter, site.expression_node(branch.test))
            comment = getattr(site.statement_node(branch).body, "header", line.trailing_whitespace)
            site.put_statements([branch], [line.with_changes(trailing_whitespace=comment)])
        site.put_statements([update.branch], _selected(site, update))


def _setter(site: Site, branch: ast.If) -> str | None:
    """The name that a branch only sets to True, which is False in front of it."""
    found = _assigned(branch)
    if found is None or site.function is None:
        return None
    values = assigned_values(site.function, found[0]) or []
    told = [each.value for each in values if isinstance(each, ast.Constant)]
    return found[0] if sorted(map(str, told)) == ["False", "True"] and told[0] is False else None


def _assigned(branch: ast.If) -> tuple[str, ast.expr] | None:
    """The name and the value of the assignment that is all of a branch without ``else``."""
    line = branch.body[0]
    target = line.targets[0] if isinstance(line, ast.Assign) and len(line.targets) == 1 else None
    if not isinstance(target, ast.Name) or len(branch.body) > 1 or branch.orelse:
        return None
    return target.id, line.value  # type: ignore[attr-defined]


def _asked_behind(site: Site, branch: ast.If, name: str) -> ast.If:
    """The branch that asks for a name, the only place that reads it, in the block in which the name
    is False before.
    """
    found = loads(site.function or branch, name)
    asked = site.ask.statement(found[0]) if len(found) == 1 else None
    block = getattr(site.ask.parent(asked), "body", ()) if asked is not None else ()
    targets = [target for each in block for target in getattr(each, "targets", ())]
    cleared = [target for target in targets if isinstance(target, ast.Name) and target.id == name]
    if not isinstance(asked, ast.If) or len(cleared) != 1:
        raise Declined
    return asked


def _update(branch: ast.If) -> _Update:
    """What a branch does if it only runs a layer."""
    assigned, test = _assigned(branch), branch.test
    joined = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    parts = test.values if joined else [test]  # type: ignore[attr-defined]
    found = [each for each in parts if _skipped(each) or isinstance(each, ast.Compare)]
    if assigned is None or not found:
        raise Declined
    kept = found[-1]
    return _Update(branch, kept, [each for each in parts if each is not kept], *assigned)


def _skipped(kept: ast.expr) -> ast.Name | None:
    """``skip`` of ``not skip``."""
    name = negated(kept)
    return name if isinstance(name, ast.Name) else None


def _is_drawn(site: Site, node: ast.expr, depth: int = 2) -> bool:
    """Whether an expression reads a draw of torch, under a name or not."""
    for each in ast.walk(node):
        named = isinstance(each, ast.Name) and depth and site.function is not None
        values = assigned_values(site.function, each.id) if named else []  # type: ignore
        drawn = (site.ask.callee(each) or "").startswith("torch.rand")
        if drawn or any(_is_drawn(site, value, depth - 1) for value in values or ()):
            return True
    return False


def _changed_later(site: Site, update: _Update) -> bool:
    """Whether the result is changed in place behind the branch, or in a loop around it: where the
    layer is dropped, that would have changed what the layer was given, too.
    """
    loops = (
        each for each in site.ask.path(update.branch) if isinstance(each, (ast.For, ast.While))
    )
    start = min((each.lineno for each in loops), default=update.branch.lineno)
    nodes = all_nodes(site.function or update.branch)
    later = (each for each in nodes if getattr(each, "lineno", 0) >= start)
    return any(changes_in_place(each, update.name) for each in later)


def _selected(site: Site, update: _Update) -> list[Line]:
    """The layer's call, and the choice between its result and what it was given."""
    torch, output = use_torch(site), site.free("output")
    branch = site.statement_node(update.branch).with_changes(leading_lines=())
    assert isinstance(branch, cst.If)
    skipped = _skipped(update.kept)
    kept = skipped or update.kept
    arms = f"{update.name}, {output}" if skipped else f"{output}, {update.name}"
    chosen = expression(
        f"{torch}.where({{kept}}.to({update.name}.device), {arms})",
        kept=operand(site.expression_node(kept)),
    )
    parts = {f"p{n}": site.expression_node(each) for n, each in enumerate(update.others)}
    always = expression(" or ".join(f"{{{name}}}" for name in parts), **parts) if parts else None
    if skipped and always:
        chosen = cst.IfExp(test=always, body=cst.Name(output), orelse=chosen)
    run = assign(output, site.expression_node(update.value))
    lines: list[Line] = [run, assign(update.name, chosen)]
    if skipped:
        test = expression(f"isinstance({skipped.id}, {torch}.Tensor)")
        return [cst.If(test=test, body=cst.IndentedBlock(lines), orelse=branch)]
    rest = cst.Else(cst.IndentedBlock(lines))
    return [branch.with_changes(test=always, orelse=rest)] if always else lines
