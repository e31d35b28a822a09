"""A whole number that a module keeps as a tensor, and only uses as a number, stays a number.

self.register_buffer("stride", torch.tensor(stride), persistent=False) -> self.stride = stride, and
torch.ceil(n / self.stride).to(torch.int64) -> math.ceil(n / self.stride)

Each read of such a buffer as a number asks the device for its value; a number is known while
tracing, and is right on the meta device too. Unsafe: other files get numbers where there were
tensors, and Python divides in double precision.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.held_numbers import (
    HeldNumbers,
    Scope,
    converts,
    held_numbers,
    registrations,
)
from pygraph_lint.fixes.imports import use_module
from pygraph_lint.fixes.number_kinds import ROUNDED, WHOLE
from pygraph_lint.fixes.number_setters import may_go, only_for, written_out
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG201", "PG202", "PG206", "PG301", "PG407")


def propose(proposal: Proposal) -> None:
    """Keep the number."""
    proposal.message = "Keep the number as a number"
    owner = proposal.around(ast.ClassDef)
    constructor = next(
        (
            item
            for item in (owner.body if owner is not None else ())
            if isinstance(item, ast.FunctionDef) and item.name == "__init__"
        ),
        None,
    )
    if owner is None or constructor is None or not _may_hold(constructor):
        raise Declined
    held = held_numbers(proposal.source, proposal.file_names, owner, constructor)
    if not held.buffers or not held.concerns(proposal.path[-1], proposal.function):
        raise Declined
    saved = [name for name, call in held.buffers.items() if not _unsaved(call)]
    proposal.need("not-saved", not saved, "the buffer is saved with the model")
    proposal.need("whole", held.all_whole(), "the number is not certainly whole")
    proposal.need("never-set", not held.set_elsewhere(), "the number is also set elsewhere")
    proposal.need("not-by-name", not held.by_name(), "the number is also read by its name")
    misused = held.misused()
    proposal.need("number-like", misused is None, f"{misused} may be wanted as a tensor")
    proposal.safe_if(
        "never",
        False,
        "other files get a number where there was a tensor, the module has these buffers no longer,"
        " and a division rounds in double precision, not in single",
    )
    _rewrite(proposal, held)


def _may_hold(constructor: ast.FunctionDef) -> bool:
    """Whether a constructor registers buffers, and calls something named ``tensor``: a quick look,
    since most classes do not.
    """
    return any(registrations(constructor)) and any(
        isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == "tensor"
        for node in ast.walk(constructor)
    )


def _unsaved(call: ast.Call) -> bool:
    """Whether a buffer is left out of the state that is saved."""
    asked = [item.value for item in call.keywords if item.arg == "persistent"] or call.args[2:3]
    return bool(asked) and isinstance(asked[0], ast.Constant) and asked[0].value is False


def _rewrite(proposal: Proposal, held: HeldNumbers) -> None:
    """Note all changes."""
    source = proposal.source
    values = [call.args[1] for call in held.buffers.values()]
    values += [value for *_, value in held.setters]
    values += [wrap.args[0] for wrap in held.wraps]
    if any(value.lineno != value.end_lineno for value in values):
        raise Declined("the number is written over several lines")
    for name, call in held.buffers.items():
        start, end = source.span(call)
        first, last = source.span(call.args[1])
        proposal.replace(start, first, f"self.{name} = ")
        proposal.replace(last, end, "")
    gone = _take_branches(proposal, held)
    for statement, target, value in held.setters:
        if statement in gone:
            continue
        start, end = source.span(statement)
        first, last = source.span(value)
        proposal.replace(start, first, f"{source.segment(target)} = ")
        proposal.replace(last, end, "")
    for wrap in held.wraps - gone:
        _unwrap(proposal, held, wrap)
    module = use_module(proposal, "math") if _rounds(held) else ""
    for scope in held.scopes:
        _in_python(proposal, held, scope, module)


def _take_branches(proposal: Proposal, held: HeldNumbers) -> set[ast.AST]:
    """Take out branches that only fill the buffers with what the constructor put there;
    returns all that goes.
    """
    source = proposal.source
    again: set[ast.stmt] = {
        statement for statement, *values in held.setters if _same(held, *values)
    }
    name = held.owner.name
    bases = {name, *map(ast.unparse, held.owner.bases), "nn.Module", "object"}
    gone: set[ast.AST] = set()
    for branch in {held.above[statement] for statement in again}:
        function = held.function(branch)
        if not isinstance(branch, ast.If) or function is None:
            continue
        if only_for(branch, again, function) and may_go(branch, held.above, name, bases):
            last = branch.body[-1].end_lineno or branch.lineno
            start, end = source.line_start(branch.lineno), source.line_start(last + 1)
            proposal.replace(start, end, "")
            gone |= {node for part in branch.body for node in ast.walk(part)}
    return gone


def _same(held: HeldNumbers, target: ast.expr, value: ast.expr) -> bool:
    """Whether a value that a buffer is filled with is the one that the constructor gave it."""
    scopes = {scope.function: scope for scope in held.scopes}
    inside = held.function(value)
    made = held.buffers.get(target.attr) if isinstance(target, ast.Attribute) else None
    if inside is None or made is None or not isinstance(target, ast.Attribute):
        return False
    first = written_out(scopes[held.constructor].after, made.args[1], "self")
    second = written_out(scopes[inside].after, value, ast.unparse(target.value))
    return first is not None and first == second


def _unwrap(proposal: Proposal, held: HeldNumbers, call: ast.Call) -> None:
    """Leave of a call only its argument."""
    inner = call.args[0]
    start, end = proposal.source.span(call)
    first, last = proposal.source.span(inner)
    around = isinstance(held.above[call], (ast.BinOp, ast.UnaryOp, ast.Attribute))
    simple = isinstance(inner, (ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.Subscript))
    opened, closed = ("(", ")") if around and not simple else ("", "")
    proposal.replace(start, first, opened)
    proposal.replace(last, end, closed)


def _rounds(held: HeldNumbers) -> bool:
    """Whether something is rounded that becomes a number."""
    return any(
        scope.after.rounded(node) is not None
        for scope in held.scopes
        for node in held.converted[scope.function]
    )


def _in_python(proposal: Proposal, held: HeldNumbers, scope: Scope, module: str) -> None:
    """Round as Python does, and say that the method returns a number."""
    for node in held.converted[scope.function]:
        inner = scope.after.rounded(node)
        if inner is not None:
            proposal.replace_node(inner.func, f"{module}.{ROUNDED[scope.after.callee(inner)]}")
            end = proposal.source.span(inner)[1]
            proposal.replace(end, proposal.source.span(node)[1], "")
    result = scope.function.returns
    if result is not None and converts(scope, held.returned):
        kind = held.returned[True][scope.function.name]
        proposal.replace_node(result, "int" if kind == WHOLE else "float")
