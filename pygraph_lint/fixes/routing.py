"""Loops over experts: which tokens a router gave to one, and where its results go."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.site import Site


def where_mask(site: Site, node: ast.expr | None) -> ast.expr | None:
    """The mask of ``torch.where(mask)``, ``torch.nonzero(mask, as_tuple=True)``."""
    if not isinstance(node, ast.Call):
        return None
    name = site.ask.callee(node)
    asked = [item.arg for item in node.keywords] == ["as_tuple"]
    if name == "torch.where" and len(node.args) == 1:
        return node.args[0]
    if name == "torch.nonzero" and len(node.args) == 1 and asked:
        return node.args[0]
    method = name is None and isinstance(node.func, ast.Attribute) and not node.args and asked
    if method and isinstance(node.func, ast.Attribute) and node.func.attr == "nonzero":
        return node.func.value
    return None


def is_token(loop: ast.For, name: str) -> bool:
    """Whether a name is what rows are added up by."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and added_by(node) is not None:
            by = added_by(node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            by = node.slice
        else:
            continue
        if isinstance(by, ast.Name) and by.id == name:
            return True
    return False


def added_by(node: ast.AST) -> ast.expr | None:
    """The rows of ``out.index_add_(0, rows, values)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    plain = node.func.attr == "index_add_" and len(node.args) == 3 and not node.keywords
    first = plain and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
    return node.args[1] if first else None


def classes_of(site: Site, mask: ast.expr) -> ast.expr | None:
    """``n`` of ``one_hot(index, num_classes=n)`` that the mask comes from."""
    names = [node for node in ast.walk(mask) if isinstance(node, ast.Name)]
    seen: list[ast.AST] = list(names)
    for node in seen:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            values = site.ask.values(node) or []
            seen += [inner for value in values for inner in ast.walk(value) if inner not in seen]
        if isinstance(node, ast.Call) and (site.ask.callee(node) or "").endswith(".one_hot"):
            given = [item.value for item in node.keywords if item.arg == "num_classes"]
            return next(iter([*given, *node.args[1:]]), None)
    return None


_MIXING = frozenset(
    (
        *("sum", "mean", "max", "min", "amax", "amin", "prod", "std", "var", "norm", "cumsum"),
        *("softmax", "log_softmax", "sort", "argsort", "topk", "any", "all", "flip", "roll"),
    )
)


def mixes_rows(node: ast.AST) -> bool:
    """Whether a node visibly computes over the rows of a tensor: ``y.mean(0)``, ``y.sum()``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    given = [*node.args, *(item.value for item in node.keywords)]
    last = any(ast.unparse(each) in ("-1", "(-1,)", "1") for each in given)
    return node.func.attr in _MIXING and not last


def writes(node: ast.AST) -> bool:
    """Whether a node writes to a tensor: ``y.mul_(2)``, ``y[0] = 1``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr.endswith("_") and not node.func.attr.endswith("__")
    return isinstance(node, (ast.AugAssign, ast.Subscript)) and isinstance(
        getattr(node, "ctx", ast.Store()), ast.Store
    )
