"""Say something every 50 steps of a training loop, where saying it waits for the device.

    for step, x in enumerate(loader):         for step, x in enumerate(loader):
        print(loss.item())               ->       if step % 50 == 0:
                                                      print(loss.item())

Always unsafe: less is said. The loop must count its steps.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.fixes.build import expression
from pygraph_lint.fixes.guards import changes_something
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.saying import says
from pygraph_lint.fixes.site import Rewrite, Site

STEPS = 50
# Of progress bars, of wandb, tensorboard and the like.
_SHOWING = frozenset(("set_postfix", "set_description", "set_postfix_str", "add_scalar", "log"))


class SaySometimes(Rewrite):
    """PG701, PG702: a statement that shows a value on each step."""

    codes = ("PG701", "PG702")
    message = f"Say this every {STEPS} steps"
    order = 60
    in_strings = True

    def rewrite(self, site: Site) -> None:
        shown = site.statement
        if not says(site, shown, False) and not _shows(shown):
            raise Declined
        loop = next((n for n in site.ask.path(shown) if isinstance(n, (ast.For, ast.While))), None)
        step = _counter(site, loop)
        site.require("counted", step is not None, "the loop does not count its steps")
        call = shown.value if isinstance(shown, ast.Expr) else None
        given = [*call.args, *call.keywords] if isinstance(call, ast.Call) else []
        quiet = not any(map(changes_something, given))
        site.require("only-says", quiet, "what it is given is computed by what has an effect")
        site.safe_only_if("less", False, f"it is said in one of {STEPS} steps")
        node = site.statement_node(shown)
        body = cst.IndentedBlock([node.with_changes(leading_lines=())])
        test = expression(f"{step} % {STEPS} == 0")
        site.put_statements([shown], [cst.If(test=test, body=body)])


def _shows(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    named = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    return named and call.func.attr in _SHOWING  # type: ignore[union-attr]


def _counter(site: Site, loop: ast.AST | None) -> str | None:
    """The name that ``enumerate`` or ``range`` gives the number of a step."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    iterated: ast.expr = loop.iter
    if isinstance(iterated, ast.Call) and ast.unparse(iterated.func).endswith(("tqdm", "trange")):
        named = ast.unparse(iterated.func).endswith("trange")
        iterated = iterated if named else (iterated.args or [iterated])[0]
    name = site.ask.callee(iterated)
    target: ast.expr | None = loop.target
    if name == "builtins.enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif name != "builtins.range":
        target = None
    return target.id if isinstance(target, ast.Name) else None
