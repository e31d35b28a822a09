"""Say or check something every 50 steps of a training loop, where that waits for the device.

    for step, x in enumerate(loader):         for step, x in enumerate(loader):
        print(loss.item())               ->       if step % 50 == 0:
                                                      print(loss.item())
        if torch.isnan(loss):                     if step % 50 == 0 and torch.isnan(loss):
            raise ValueError                          raise ValueError

Always unsafe: less is said, and what is checked is found out later. The loop must count its steps.
"""

from __future__ import annotations

import ast
import itertools
from functools import partial

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import dotted, method_name
from pygraph_lint.fixes.engine.build import conjunction, expression
from pygraph_lint.fixes.engine.names import stores
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.guards import changes_something, says

STEPS = 50
# Of progress bars, of wandb, tensorboard and the like.
_SHOWING = frozenset(("set_postfix", "set_description", "set_postfix_str", "add_scalar", "log"))
_WAITING = frozenset(("torch.cuda.synchronize", "torch.cuda.empty_cache"))


class SaySometimes(Rewrite):
    """PG701 to PG703, PG705, PG706: a statement that shows or checks a value on each step, or waits
    for the device and gives nothing.
    """

    codes = ("PG701", "PG702", "PG703", "PG705", "PG706")
    message = f"Do this every {STEPS} steps"
    order = 60
    in_strings = True

    def rewrite(self, site: Site) -> None:
        shown = site.statement
        checks = isinstance(shown, ast.If) and _only_stops(site, shown)
        if not (checks or says(site, shown, False) or _shows(site, shown)):
            raise Declined
        loop = next((n for n in site.ask.path(shown) if isinstance(n, (ast.For, ast.While))), None)
        step = _counter(site, loop)
        site.require("counted", step is not None, "the loop does not count its steps")
        quiet = not any(map(changes_something, _evaluated(shown)))
        site.require("only-says", quiet, "what it is given is computed by what has an effect")
        site.safe_only_if("less", False, f"it is done in one of {STEPS} steps")
        test = expression(f"{step} % {STEPS} == 0")
        if isinstance(shown, ast.If):
            site.put(shown.test, conjunction([test, site.expression_node(shown.test)]), bare=True)
            return
        together = [shown, *itertools.takewhile(partial(_is_shown, site), site.behind(shown))]
        first, *rest = map(site.statement_node, together)
        body = cst.IndentedBlock([first.with_changes(leading_lines=()), *rest])
        site.put_statements(together, [cst.If(test=test, body=body)])


def _is_shown(site: Site, statement: ast.stmt) -> bool:
    """Whether a statement does what is meant here, too, and was found."""
    start, end = site.source.span(statement)
    found = (it for it in site.findings if it.code in SaySometimes.codes)
    meant = any(start <= site.source.at(it.location) < end for it in found)
    quiet = not any(map(changes_something, _evaluated(statement)))
    shows = says(site, statement, False) or _shows(site, statement)
    return meant and quiet and shows and site.source.alone(statement)


def _only_stops(site: Site, node: ast.If) -> bool:
    """Whether all that depends on a condition is an error, or something that is said."""
    inside = any(node.test is each or node.test in site.ask.path(each) for each in site.path)
    stops = all(isinstance(each, ast.Raise) or says(site, each, False) for each in node.body)
    return inside and stops and not node.orelse


def _shows(site: Site, statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    return method_name(call) in _SHOWING or site.ask.callee(call) in _WAITING


def _evaluated(statement: ast.stmt) -> list[ast.AST]:
    """What is evaluated for a statement on each step."""
    if isinstance(statement, ast.If):
        return [statement.test]
    call = statement.value if isinstance(statement, ast.Expr) else None
    return [*call.args, *call.keywords] if isinstance(call, ast.Call) else []


def _counter(site: Site, loop: ast.AST | None) -> str | None:
    """The name that ``enumerate`` or ``range`` gives the number of a step, also below a progress
    bar that has a name.
    """
    if not isinstance(loop, ast.For):
        return None
    bar = site.ask.only_value(loop.iter) if isinstance(loop.iter, ast.Name) else None
    iterated, target = bar or loop.iter, loop.target
    called = dotted(iterated.func) or "" if isinstance(iterated, ast.Call) else ""
    if isinstance(iterated, ast.Call) and called.endswith("tqdm") and iterated.args:
        iterated = iterated.args[0]
    name = site.ask.callee(iterated)
    if name == "builtins.enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif name != "builtins.range" and not called.endswith("trange"):
        return None
    by_step = name != "builtins.enumerate" and len(getattr(iterated, "args", ())) > 2
    if by_step or not isinstance(target, ast.Name):
        return None
    changed = any(stores(each, target.id) for each in loop.body)
    return None if changed else target.id
