"""A uniform draw on the host that is only compared -> ``torch.rand([])``.

Unsafe: another random stream is drawn from.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.engine.build import expression
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.names import assigned_values, loads
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.rewrites.branches.random_skip import asked

_UNIFORM = frozenset({"random.random", "numpy.random.random", "numpy.random.rand"})
_BOUNDED = frozenset({"random.uniform", "numpy.random.uniform"})


class HostRandom(Rewrite):
    """PG504, PG517: a draw of Python or numpy."""

    codes = ("PG504", "PG517")
    message = "Draw from torch's generator, which the graph takes along"
    order = 60

    def rewrite(self, site: Site) -> None:
        call = site.around(ast.Call)
        if call is None or site.function is None:
            raise Declined()
        name = site.ask.callee(call)
        unit = name in _UNIFORM and not call.args
        unit = unit or (name in _BOUNDED and [_constant(arg) for arg in call.args] == [0, 1])
        site.require("uniform", unit and not call.keywords, "not one draw between 0 and 1")
        compared = _only_compared(site, call)
        site.require("compared", compared, "the number is used for more than a comparison")
        site.require(
            "decides",
            _may_be_decided(site, call),
            "the branch would wait for a tensor: the graph would break there as well",
        )
        site.safe_only_if(
            "stream", False, "the number comes from torch's random stream, not from the host's"
        )
        site.adds = ("PG306",)  # the branch asks a tensor now: there is a rewrite for that
        site.put(call, expression(f"{use_torch(site)}.rand([])"))


def _may_be_decided(site: Site, call: ast.Call) -> bool:
    """Whether a later fix may decide the branch while tracing, or select between its arms: what is
    compared is a condition, or a name's value, that does not ask for the probability already; and
    where statements depend on it, the probability is not written out.
    """
    compare = site.ask.parent(call)
    if not isinstance(compare, ast.Compare):
        return True
    test: ast.expr = compare
    around = site.ask.parent(test)
    while isinstance(around, (ast.BoolOp, ast.UnaryOp)):
        test, around = around, site.ask.parent(around)
    if isinstance(around, (ast.If, ast.While, ast.IfExp)):
        sides = (compare.left, *compare.comparators)
        texts = [site.source.segment(side) for side in sides if side is not call]
        fixed = any(_constant(side) is not None for side in sides)
        open_one = isinstance(around, ast.IfExp) or not fixed
        asked_for = any(asked(site, test, text) for text in texts)
        return around.test is test and open_one and not asked_for
    return isinstance(around, (ast.Assign, ast.AnnAssign))


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _only_compared(site: Site, call: ast.Call) -> bool:
    function = site.function
    assert function is not None
    parent = site.ask.parent(call)
    if isinstance(parent, ast.Compare):
        return True
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    values = assigned_values(function, name)
    only = len(parent.targets) == 1 and values is not None and len(values) == 1
    used = map(site.ask.parent, loads(function, name))
    return only and all(isinstance(each, ast.Compare) for each in used)
