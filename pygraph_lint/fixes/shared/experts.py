"""Loops over experts: which tokens a router gave to one, and where its results go."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from pygraph_lint.analysis.syntax.nodes import is_constant, method_name
from pygraph_lint.fixes.engine.names import stored
from pygraph_lint.fixes.engine.site import Site


@dataclass
class Chosen:
    """How a loop finds the tokens of an expert. ``tokens`` and ``places`` are names for the two
    results of ``torch.where``, ``expert`` the loop's number.
    """

    index: ast.Assign
    mask: ast.expr
    expert: str
    tokens: set[str]
    places: set[str]
    turned: bool
    name: str
    dynamic: bool = False  # the loop is over the experts that were hit
    removed: list[ast.stmt] = field(default_factory=list)
    extra: ast.expr | None = None  # the number behind the last expert, which is left out
    written: set[str] = field(default_factory=set)

    def kind(self, node: ast.expr) -> str:
        """What an index is made of: ``t`` tokens, ``p`` places, ``n`` None, ``:`` all, ``?``."""
        if isinstance(node, ast.Name):
            return "t" if node.id in self.tokens else "p" if node.id in self.places else "?"
        if is_constant(node, None):
            return "n"
        return ":" if isinstance(node, ast.Slice) and ast.unparse(node) == ":" else "?"


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
    if not isinstance(node, ast.Call) or method_name(node) != "index_add_" or node.keywords:
        return None
    first = len(node.args) == 3 and ast.unparse(node.args[0]) == "0"
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


def picked_by(loop: ast.For, expert: str, mask: ast.expr) -> list[ast.expr]:
    """What the number of an expert picks from in a loop, but for the mask: ``self.experts`` of
    ``self.experts[e](x)``, each once.
    """
    aside = set(ast.walk(mask))
    found: dict[str, ast.expr] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.Subscript) and node not in aside:
            names = {part.id for part in ast.walk(node.slice) if isinstance(part, ast.Name)}
            if expert in names and not isinstance(node.slice, ast.Tuple):
                found.setdefault(ast.unparse(node.value), node.value)
    return list(found.values())


def has_as_many(site: Site, node: ast.expr, number: ast.expr) -> bool:
    """Whether the class makes ``self.x`` with so many elements: a ModuleList over their range, or
    a parameter of that size.
    """
    owner = site.ask.owner(node)
    text = ast.unparse(number)
    made = stored(owner, ast.unparse(node)) if owner is not None else []
    names = {text, *(ast.unparse(value) for value in (stored(owner, text) if owner else []))}
    return len(made) == 1 and any(
        isinstance(part, ast.Call)
        and bool(part.args)
        and (
            (site.ask.callee(part) == "builtins.range" and len(part.args) == 1)
            or (site.ask.callee(part) in _SIZED and made[0] is not part)
        )
        and ast.unparse(part.args[0]) in names
        for part in ast.walk(made[0])
    )


_SIZED = frozenset(f"torch.{name}" for name in ("empty", "zeros", "ones", "randn", "rand"))


_MIXING = frozenset(
    """
        sum mean max min amax amin prod std var norm cumsum softmax log_softmax sort argsort topk
        any all flip roll
    """.split()
)


def mixes_rows(node: ast.AST) -> bool:
    """Whether a node visibly computes over the rows of a tensor: ``y.mean(0)``, ``y.sum()``."""
    if not isinstance(node, ast.Call) or method_name(node) not in _MIXING:
        return False
    given = [*node.args, *(item.value for item in node.keywords)]
    return not any(ast.unparse(each) in ("-1", "(-1,)", "1") for each in given)


def writes(node: ast.AST) -> bool:
    """Whether a node writes to a tensor: ``y.mul_(2)``, ``y[0] = 1``."""
    if method_name(node):
        return method_name(node).endswith("_") and not method_name(node).endswith("__")
    return isinstance(node, (ast.AugAssign, ast.Subscript)) and isinstance(
        getattr(node, "ctx", ast.Store()), ast.Store
    )
