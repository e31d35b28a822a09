"""The guard against inf and nan becomes a selection.

if x.dtype == torch.float16 and torch.isinf(x).any(): x = torch.clamp(x, min=-limit, max=limit)

becomes

if x.dtype == torch.float16: x = torch.where(torch.isinf(x).any(), torch.clamp(x, min=-limit,
max=limit), x)

Safe where clamping keeps the dtype (bounds are numbers, x is certainly floating), where nobody
can tell the copy from x itself, and where what moved out of the branch only reads
``torch.finfo``. The gradient is the branch's: clamp masks it, and ``where`` gives the arm not
taken zeros that no infinity multiplies.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.conditions import joined, operands, with_parentheses
from pygraph_lint.fixes.flow import binding, fresh, is_norm_call, used_outside
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted, pure, shared
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import line_span, one_line, written

CODES = ("PG307", "PG309")
_TESTS = frozenset({"torch.isinf", "torch.isnan", "torch.isfinite"})
_FLOATING = frozenset(
    f"torch.{name}"
    for name in ("float16", "half", "bfloat16", "float32", "float", "float64", "double")
)

_HALF_MAX = 65504


class _Guard(NamedTuple):
    """The parts of ``if statics and finite test: temporaries; name = value``."""

    node: ast.If
    statics: list[ast.expr]
    tests: list[ast.expr]
    update: ast.Assign
    name: str
    clamp: ast.Call


def propose(proposal: Proposal) -> None:
    """Replace the branch by ``torch.where``."""
    guard = _read(proposal)
    proposal.message = "Clamp behind torch.where instead of a branch on the tensor's values"
    _conditions(proposal, guard)
    condition, negated = _condition(proposal, guard)
    source = proposal.source
    value = one_line(source.segment(guard.update.value))
    arms = (guard.name, value) if negated else (value, guard.name)
    torch = use_torch(proposal)
    selection = f"{guard.name} = {torch}.where({condition}, {arms[0]}, {arms[1]})"
    if guard.statics:
        _keep_branch(proposal, guard, selection)
    else:
        _dissolve(proposal, guard, selection)


def _read(proposal: Proposal) -> _Guard:
    node = proposal.around(ast.If)
    if node is None or node.orelse:
        raise Declined("not an if without else")
    parts = operands(node.test)
    tests = [part for part in parts if _finite_test(proposal, part) is not None]
    statics = [part for part in parts if part not in tests]
    if not tests or any(_mentions_test(proposal, part) for part in statics):
        raise Declined("the condition is not a plain test for inf or nan")
    _same_order(proposal, parts, tests)
    if not all(isinstance(item, ast.Assign) for item in node.body):
        raise Declined("the branch does more than assign names")
    update = node.body[-1]
    assert isinstance(update, ast.Assign)
    target = update.targets[0]
    if len(update.targets) != 1 or not isinstance(target, ast.Name):
        raise Declined("the branch does not end in an assignment to one name")
    if not isinstance(update.value, ast.Call):
        raise Declined("the branch does not end in a clamp")
    return _Guard(node, statics, tests, update, target.id, update.value)


def _same_order(proposal: Proposal, parts: list[ast.expr], tests: list[ast.expr]) -> None:
    """Decline where something that can do more than give a value is evaluated at other times: the
    selection makes every test, and looks at all else before.
    """
    behind = parts[parts.index(tests[0]) + 1 :]
    if not all(part in tests or _calm(part) for part in behind):
        raise Declined("the condition calls something behind the test for inf or nan")
    tested = [
        _tested(proposal, node)
        for test in tests
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and _is_test(proposal, node)
    ]
    if (behind or len(tested) > 1) and not all(map(pure, tested)):
        raise Declined("what is tested for inf or nan is computed in the condition")


def _calm(node: ast.expr) -> bool:
    """Whether an operand only looks at what is there, and is unlikely to raise: an order of two
    values is not among them.
    """
    if isinstance(node, ast.BoolOp):
        return all(map(_calm, node.values))
    if isinstance(node, ast.UnaryOp):
        return _calm(node.operand)
    if isinstance(node, ast.Compare):
        plain = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
        calm = all(isinstance(item, plain) for item in node.ops)
        return calm and all(map(_calm, [node.left, *node.comparators]))
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(map(_calm, node.elts))
    return pure(node)


def _finite_test(proposal: Proposal, node: ast.expr) -> tuple[str, bool] | None:
    """``(source, negated)`` of a 0-d boolean tensor: isinf(x).any() and the like, joined by or,
    or negated.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _finite_test(proposal, node.operand)
        return (inner[0], not inner[1]) if inner is not None else None
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        each = [_finite_test(proposal, value) for value in node.values]
        if any(item is None for item in each):
            return None
        texts = [_inverted(item) for item in each if item is not None]
        return " | ".join(texts), False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        if node.func.attr == "item" and not node.args:
            return _finite_test(proposal, node.func.value)
        reduced = _reduced(proposal, node)
        if reduced is not None and _is_test(proposal, reduced):
            return proposal.source.segment(node), False
    return None


def _inverted(item: tuple[str, bool]) -> str:
    text, negated = item
    return f"~({text})" if negated and " | " in text else f"~{text}" if negated else text


def _reduced(proposal: Proposal, node: ast.Call) -> ast.expr | None:
    """What ``t.any()`` or ``torch.any(t)`` reduces to one element."""
    name = proposal.names.callee(node)
    if name in ("torch.any", "torch.all"):
        return node.args[0] if len(node.args) == 1 else None
    assert isinstance(node.func, ast.Attribute)
    return node.func.value if node.func.attr in ("any", "all") and not node.args else None


def _is_test(proposal: Proposal, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    method = isinstance(node.func, ast.Attribute) and node.func.attr in (
        "isinf",
        "isnan",
        "isfinite",
    )
    return proposal.names.callee(node) in _TESTS or (method and not node.args)


def _tested(proposal: Proposal, node: ast.Call) -> ast.expr:
    """``x`` of ``torch.isinf(x)`` or ``x.isinf()``."""
    if proposal.names.callee(node) in _TESTS and len(node.args) == 1 and not node.keywords:
        return node.args[0]
    return node.func.value if isinstance(node.func, ast.Attribute) else node


def _mentions_test(proposal: Proposal, node: ast.expr) -> bool:
    return any(
        isinstance(inner, ast.expr) and _is_test(proposal, inner) for inner in ast.walk(node)
    )


def _condition(proposal: Proposal, guard: _Guard) -> tuple[str, bool]:
    found = [_finite_test(proposal, test) for test in guard.tests]
    texts = [item for item in found if item is not None]
    if len(texts) == 1:
        return one_line(texts[0][0]), texts[0][1]
    parts = [
        f"({text})" if " | " in text and not negated else _inverted((text, negated))
        for text, negated in texts
    ]
    return one_line(" & ".join(parts)), False


def _conditions(proposal: Proposal, guard: _Guard) -> None:
    function = proposal.function
    if function is None:
        raise Declined("the code is not in a function")
    source = proposal.source
    proposal.need(
        "same-name",
        _clamped(proposal, guard) == guard.name,
        "the branch does not clamp the name it assigns",
    )
    temporaries = guard.node.body[:-1]
    for item in temporaries:
        assert isinstance(item, ast.Assign)
        name = item.targets[0].id if isinstance(item.targets[0], ast.Name) else None
        local = (
            name is not None
            and not shared(function, name)
            and not used_outside(function, name, guard.node)
        )
        proposal.need(
            "local", local and len(item.targets) == 1, "what the branch computes is used behind it"
        )
        proposal.need(
            "static", _number(proposal, guard, item.value), "the branch computes more than bounds"
        )
    alone = all(source.alone(item) for item in guard.node.body)
    proposal.need("alone", alone, "the branch is written on one line")
    free = bool(guard.statics) or not _is_elif(proposal, guard.node)
    proposal.need("else-if", free, "the branch is an elif")
    bounds = [
        *guard.clamp.args[_skipped(proposal, guard) :],
        *(item.value for item in guard.clamp.keywords),
    ]
    numbers = all(_fits(proposal, guard, bound) for bound in bounds)
    proposal.safe_if(
        "number-bounds", numbers, "the bounds may not be numbers that every floating dtype holds"
    )
    is_new = fresh(proposal, guard.node, guard.name)
    floating = any(_says_floating(proposal, part, guard.name) for part in guard.statics)
    bound = binding(proposal, guard.node, guard.name)
    normed = bound is not None and is_norm_call(proposal, bound.value)
    proposal.safe_if(
        "floating",
        floating or normed,
        f"nothing here proves that {guard.name} is a floating-point tensor",
    )
    proposal.safe_if(
        "fresh", is_new, f"{guard.name} becomes a copy, and the caller may hold the original"
    )


def _skipped(proposal: Proposal, guard: _Guard) -> int:
    return 1 if (proposal.names.callee(guard.clamp) or "").startswith("torch.") else 0


def _clamped(proposal: Proposal, guard: _Guard) -> str | None:
    """The name that the branch clamps."""
    call = guard.clamp
    if proposal.names.callee(call) in ("torch.clamp", "torch.clip"):
        return dotted(call.args[0]) if call.args else None
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("clamp", "clip"):
        return dotted(call.func.value)
    raise Declined("the branch does not end in a clamp")


def _number(proposal: Proposal, guard: _Guard, node: ast.expr) -> bool:
    """Whether an expression is a Python number: literals, torch.finfo, the branch's own names,
    arithmetic.
    """
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return _number(proposal, guard, node.operand)
    if isinstance(node, ast.BinOp):
        return _number(proposal, guard, node.left) and _number(proposal, guard, node.right)
    if isinstance(node, ast.Name):
        return _temporary(guard, node.id) is not None
    return _limit(proposal, guard, node)


def _limit(proposal: Proposal, guard: _Guard, node: ast.expr) -> bool:
    """``torch.finfo(x.dtype).max`` and the like, of the guarded tensor's own dtype or a written
    one.
    """
    if not isinstance(node, ast.Attribute) or node.attr not in ("max", "min", "eps", "tiny"):
        return False
    call = node.value
    if not isinstance(call, ast.Call) or proposal.names.callee(call) != "torch.finfo":
        return False
    dtype = call.args[0] if len(call.args) == 1 else None
    if dtype is None:
        return False
    return dotted(dtype) == f"{guard.name}.dtype" or proposal.names.qualified(dtype) in _FLOATING


def _temporary(guard: _Guard, name: str) -> ast.expr | None:
    """What the branch assigns to one of its own names."""
    for item in guard.node.body[:-1]:
        if isinstance(item, ast.Assign) and dotted(item.targets[0]) == name:
            return item.value
    return None


def _fits(proposal: Proposal, guard: _Guard, node: ast.expr) -> bool:
    """Whether a bound is a number that x's dtype can hold: clamp raises for others, also when
    nothing is clamped.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _fits(proposal, guard, node.operand)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and abs(node.value) <= _HALF_MAX
    if isinstance(node, ast.BinOp):
        small = isinstance(node.right, ast.Constant) and _fits(proposal, guard, node.right)
        limit = isinstance(node.left, ast.Attribute) and node.left.attr == "max"
        below = small and limit and isinstance(node.op, ast.Sub)
        return below and _own_limit(proposal, guard, node.left)
    if isinstance(node, ast.Name):
        value = _temporary(guard, node.id)
        return (
            value is not None and not isinstance(value, ast.Name) and _fits(proposal, guard, value)
        )
    return _own_limit(proposal, guard, node)


def _own_limit(proposal: Proposal, guard: _Guard, node: ast.expr) -> bool:
    """A limit of the guarded tensor's own dtype."""
    return _limit(proposal, guard, node) and any(
        dotted(inner) == f"{guard.name}.dtype"
        for inner in ast.walk(node)
        if isinstance(inner, ast.expr)
    )


def _says_floating(proposal: Proposal, node: ast.expr, name: str) -> bool:
    """``x.dtype == torch.float16``, ``x.dtype in (...)``, ``x.is_floating_point()``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.attr == "is_floating_point" and dotted(node.func.value) == name
    if (
        not isinstance(node, ast.Compare)
        or len(node.ops) != 1
        or dotted(node.left) != f"{name}.dtype"
    ):
        return False
    right = node.comparators[0]
    if isinstance(node.ops[0], (ast.Eq, ast.Is)):
        return proposal.names.qualified(right) in _FLOATING
    return (
        isinstance(node.ops[0], ast.In)
        and isinstance(right, (ast.Tuple, ast.List, ast.Set))
        and all(proposal.names.qualified(item) in _FLOATING for item in right.elts)
    )


def _is_elif(proposal: Proposal, node: ast.If) -> bool:
    start, _ = proposal.source.span(node)
    return proposal.source.text.startswith("elif", start)


def _keep_branch(proposal: Proposal, guard: _Guard, selection: str) -> None:
    """Leave the part of the condition that needs no tensor's value."""
    source = proposal.source
    start, end = with_parentheses(source, guard.node.test, guard.node)
    proposal.replace(start, end, one_line(joined(source, guard.statics, guard.node.test)))
    _put(proposal, guard.update, source.indent(guard.update), selection)


def _dissolve(proposal: Proposal, guard: _Guard, selection: str) -> None:
    """Move the branch's statements out to the branch's own indentation."""
    source = proposal.source
    indent = source.indent(guard.node)
    inner = source.indent(guard.node.body[0])
    start, _ = line_span(source, guard.node, guard.node)
    first = source.line_start(guard.node.body[0].lineno)
    assert guard.node.test.end_lineno is not None
    header_end = source.line_start(guard.node.test.end_lineno) + len(
        source.line(guard.node.test.end_lineno)
    )
    between = source.text[header_end:first].removeprefix(source.newline)
    update, end = line_span(source, guard.update, guard.update)
    kept = source.text[first:update]
    comments = between if between.strip() else ""
    moved = [
        indent + line[len(inner) :] if line.startswith(inner) else (indent + line.strip()).rstrip()
        for line in (comments + kept).splitlines()
    ]
    body = source.newline.join([*moved, written(proposal, indent, [selection])])
    proposal.replace(start, end, body + _comment_behind(proposal, guard.update))


def _put(proposal: Proposal, statement: ast.stmt, indent: str, line: str) -> None:
    start, end = line_span(proposal.source, statement, statement)
    comment = _comment_behind(proposal, statement)
    proposal.replace(start, end, written(proposal, indent, [line]) + comment)


def _comment_behind(proposal: Proposal, statement: ast.stmt) -> str:
    """The comment on a statement's last line, with the space in front of it."""
    _, end = proposal.source.span(statement)
    _, line_end = line_span(proposal.source, statement, statement)
    return proposal.source.text[end:line_end].rstrip()
