"""Whether the tensor that a new one meets later is there, and a tensor, where that one is made."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import parameters, parents, stores
from pygraph_lint.fixes.proposal import Proposal
from pygraph_lint.fixes.source import FUNCTIONS, Function


def at_hand(proposal: Proposal, met: ast.expr) -> bool:
    """Whether ``met``, a name or an attribute of ``self``, surely holds a tensor at the finding: it
    stands in the same statement, or nothing says that it may be None, and its only binding is
    behind us.
    """
    function = proposal.function
    if function is None:
        return False
    text = ast.unparse(met)
    simple = not hasattr(proposal.statement, "body")
    if simple and any(_same(node, text) for node in ast.walk(proposal.statement)):
        return not _conditional(proposal)
    owner = next((node for node in proposal.path if isinstance(node, ast.ClassDef)), None)
    scopes = [function] if isinstance(met, ast.Name) or owner is None else [function, owner]
    if any(_may_be_none(scope, text) for scope in scopes):
        return False
    return not isinstance(met, ast.Name) or _bound_before(proposal, function, met.id)


def _same(node: ast.AST, text: str) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) == text


def _conditional(proposal: Proposal) -> bool:
    """Whether an operand of the statement may be left out, as the one that is met then may be."""
    around = proposal.path[proposal.path.index(proposal.statement) :]
    return any(isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda)) for node in around)


def _may_be_none(scope: ast.AST, text: str) -> bool:
    """Whether a function or class asks for it, or makes it None."""
    for node in ast.walk(scope):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            if _asked(node.test, text):
                return True
        elif isinstance(node, ast.BoolOp):
            if any(_asked(value, text) for value in node.values):
                return True
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_same(target, text) for target in targets) and _none_in(node.value):
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            named = node.args[:1]
            registered = node.func.attr in ("register_parameter", "register_buffer")
            if registered and named and isinstance(named[0], ast.Constant):
                given = [*node.args[1:], *(item.value for item in node.keywords)]
                if text == f"self.{named[0].value!s}" and any(map(_none_in, given)):
                    return True
    return False


def _asked(test: ast.expr, text: str) -> bool:
    """Whether a condition is about a value itself, not about what it holds."""
    if isinstance(test, ast.UnaryOp):
        return _asked(test.operand, text)
    if isinstance(test, ast.BoolOp):
        return any(_asked(value, text) for value in test.values)
    if isinstance(test, ast.Compare):
        sides = [test.left, *test.comparators]
        identity = any(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops)
        return identity and any(_same(side, text) for side in sides)
    if isinstance(test, ast.Call):  # isinstance(x, ...), hasattr(x, ...), torch.is_tensor(x)
        return isinstance(test.func, (ast.Name, ast.Attribute)) and any(
            _same(value, text) for value in test.args
        )
    return _same(test, text)


def _none_in(value: ast.expr | None) -> bool:
    return value is None or any(
        isinstance(node, ast.Constant) and node.value is None for node in ast.walk(value)
    )


def _bound_before(proposal: Proposal, function: Function, name: str) -> bool:
    """Whether a name's only binding comes before the finding on every way there: a parameter that
    is a tensor and nothing else by its annotation, or has none and no default, or an assignment
    in a block around it.
    """
    found = stores(function, name)
    argument = next((item for item in parameters(function) if item.arg == name), None)
    if argument is not None:
        several = argument in (function.args.vararg, function.args.kwarg)
        if several or _has_default(function, argument):
            return False
        if argument.annotation is not None:
            return ast.unparse(argument.annotation) in ("Tensor", "torch.Tensor")
        return len(found) == 1
    if len(found) != 1:
        return False
    above = parents(function)
    statement: ast.AST = found[0]
    while not isinstance(statement, ast.stmt):
        statement = above[statement]
    place = (proposal.statement.lineno, proposal.statement.col_offset)
    assigned = isinstance(statement, (ast.Assign, ast.AnnAssign))
    around = above.get(statement, function)
    in_block = around is function or around in proposal.path
    orelse = getattr(around, "orelse", []) or getattr(around, "handlers", [])
    return (
        assigned
        and in_block
        and (not orelse or isinstance(around, FUNCTIONS))
        and (statement.lineno, statement.col_offset) < place
    )


def _has_default(function: Function, argument: ast.arg) -> bool:
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    if argument in plain:
        return plain.index(argument) >= len(plain) - len(arguments.defaults)
    return arguments.kw_defaults[arguments.kwonlyargs.index(argument)] is not None
