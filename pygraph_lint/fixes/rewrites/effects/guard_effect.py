"""Ask for gradients only outside compiled code.

    x.requires_grad = True  ->  if not torch.compiler.is_compiling(): x.requires_grad = True

Always unsafe: compiled code no longer records gradients for that tensor.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.syntax.nodes import dotted, is_constant
from pygraph_lint.fixes.engine.site import Rewrite, Site
from pygraph_lint.fixes.shared.guards import guard


class GuardEffect(Rewrite):
    """PG508: ``requires_grad = True``, ``requires_grad_()``."""

    codes = ("PG508",)
    message = "Ask for gradients only when not compiling"
    order = 80
    in_strings = True

    def rewrite(self, site: Site) -> None:
        statement = site.statement
        site.require("statement", _asks(statement), "it is part of more, or may turn gradients off")
        computed = any(map(_computes_gradient, site.ask.nodes))
        computed |= any(_hands_on(site, each, statement) for each in site.ask.of_kind(ast.Call))
        site.require(
            "kept-out", not computed, "gradients may be asked for later, which would then raise"
        )
        reason = "compiled code no longer records gradients for this tensor; who asks there for its"
        guard(site, statement, _asks, f"{reason} gradient gets an error")


# Names with a "grad" that only say whether gradients are recorded; others may end like these.
_SWITCHES = ("requires_grad", "requires_grad_", "no_grad", "enable_grad")


def _computes_gradient(node: ast.AST) -> bool:
    """Whether a node names what computes a gradient or reads one, here or in another file."""
    name = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)
    if not isinstance(name, str) or "checkpoint" in name:
        return False
    told = name.endswith((*_SWITCHES, "grad_enabled", "grad_checkpointing"))
    return not told and ("grad" in name or name in ("backward", "jacobian", "hessian", "vjp"))


def _hands_on(site: Site, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether a function of the project, which may ask for its gradient, gets the tensor."""
    place = statement.targets[0] if isinstance(statement, ast.Assign) else statement
    asked = {dotted(it.value) for it in ast.walk(place) if isinstance(it, ast.Attribute)} - {None}
    given = {dotted(each) for each in (*call.args, *(item.value for item in call.keywords))}
    name = site.ask.callee(call) or "torch."
    return bool(asked & given) and not name.startswith(("torch.", "builtins."))


def _asks(statement: ast.stmt) -> bool:
    """Whether a statement asks for gradients, and may not turn them off."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        single = len(statement.targets) == 1 and is_constant(statement.value, True)
        return single and isinstance(target, ast.Attribute) and target.attr == "requires_grad"
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    given = [*call.args, *(item.value for item in call.keywords)]
    on = all(is_constant(value, True) for value in given)
    return on and isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_"
