"""Values of training loops that come from several places, and parts of values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import any_of
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.loops.calls import HOST, is_batch, on_device
from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.syntax.nodes import dotted, walk, without_not

_COUNT = re.compile(r"(^|_)(count|num|n|size|samples)(_|$)")
# The evidence for a parameter, before its name.
PASSED = "a caller passes a tensor of the device as "


def either(reasons: list[str]) -> str:
    """The evidence for a value that one of several makes a tensor of the device."""
    different = list(dict.fromkeys(reasons))
    if len(different) > 1 and all(each.startswith(PASSED) for each in different):
        return PASSED + " or ".join(each.removeprefix(PASSED) for each in different)
    return " or ".join(different[:2])


def is_open(value: Value) -> bool:
    """Whether a value may still be a tensor of the device."""
    return bool(value.kinds & v.UNKNOWN or value.needs) or value == HOST


def joined(values: list[Value]) -> Value:
    """What a name may be that gets one of several values: a tensor of the device counts."""
    certain = [each for each in values if on_device(each) and not each.needs]
    if certain:
        return certain[0]
    if len(values) == 1:
        return values[0]
    known = [each for each in values if each.kinds not in (v.UNKNOWN, v.NONE)]
    if not known:
        return v.UNKNOWN_VALUE
    if len(known) == 1 or all(each == known[0] for each in known):
        return known[0]
    constructors = [each for each in known if each.cls.startswith("torch.cuda.")]
    modules = [each for each in known if each.flags & v.MODULE]
    symbols = [each for each in known if each.needs]
    batches = [each for each in known if is_batch(each)]
    for group in (constructors, modules, symbols, batches):
        if group:
            return group[0]
    return v.join_all(known)


def part(value: Value, path: tuple[int, ...]) -> Value:
    """The element of a value that unpacking along ``path`` gives."""
    for place in path:
        if is_batch(value) or (value.is_tensor and not value.needs):
            return value
        if value.needs and value.flags & v.SYMBOL:
            need = value.needs[0]
            further = need._replace(name=f"{need.name}|{place}")
            value = value._replace(needs=(further,))
        elif value.items is not None and place < len(value.items):
            value = value.items[place]
        else:
            value = v.element(value)
    return value


def entry(value: Value, key: ast.expr) -> Value:
    """What a subscript of a parameter or a result gives: a part of a tensor, or what is kept by
    that key.
    """
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return value
    kept = value.needs[0]._replace(name=f"{value.needs[0].name}|{key.value}")
    return value._replace(flags=value.flags & ~v.SYMBOL, needs=any_of(value.needs, (kept,)))


def path_to(root: ast.AST, target: ast.AST) -> tuple[int, ...] | None:
    """The positions that lead from an assignment's target to a name in it."""
    if root is target:
        return ()
    if isinstance(root, ast.Starred):
        return path_to(root.value, target)
    for index, item in enumerate(getattr(root, "elts", [])):
        path = path_to(item, target)
        if path is not None:
            return (index, *path)
    return None


def is_prepared(value: ast.expr) -> bool:
    """Whether a value comes from accelerate's ``prepare`` or Fabric's ``setup_dataloaders``."""
    called = value.func if isinstance(value, ast.Call) else None
    prepared = ("prepare", "setup_dataloaders", "prepare_data_loader")
    return isinstance(called, ast.Attribute) and called.attr in prepared


def is_count(queries: FileQueries, target: ast.AST, value: ast.expr) -> bool:
    """Whether one of several results of a call is a number of things, by its name and as no method
    of it is called.
    """
    name = getattr(target, "id", "")
    if not isinstance(value, ast.Call) or _COUNT.search(name) is None:
        return False
    nodes = (node for node in walk(queries.scope(target)) if isinstance(node, ast.Attribute))
    return not any(dotted(node.value) == name for node in nodes)


def appended(queries: FileQueries, node: ast.AST) -> list[ast.expr]:
    """What a list that begins empty gets by ``append`` on the name it is bound to."""
    name = _bound(queries, node)
    return [
        each
        for call in (walk(queries.scope(node)) if name else ())
        if isinstance(call, ast.Call) and dotted(call.func) == f"{name}.append"
        for each in call.args
    ]


def stored(queries: FileQueries, node: ast.AST) -> list[ast.expr]:
    """What a mapping that begins empty gets by key, by the name it is bound to."""
    name = _bound(queries, node)
    return [
        each.value
        for each in (walk(queries.scope(node)) if name else ())
        if isinstance(each, ast.Assign)
        and isinstance(each.targets[0], ast.Subscript)
        and dotted(each.targets[0].value) == name
    ]


def _bound(queries: FileQueries, node: ast.AST) -> str:
    """The name that an expression is assigned to, alone or as one of several."""
    statement = queries.statement(node)
    path = path_to(statement.value, node) if isinstance(statement, ast.Assign) else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    for place in path or ():
        parts = getattr(target, "elts", ())
        target = parts[place] if place < len(parts) else None
    if path is None:
        return ""
    return target.id if isinstance(target, ast.Name) else ""


def is_of_other_type(queries: FileQueries, node: ast.Name) -> bool:
    """Whether a name stands where tests of its type have said that it is no tensor."""
    inside: ast.AST = node
    for each in queries.path(node):
        if isinstance(each, FUNCTIONS):
            return any(_left_before(each, inside, node.id))
        if isinstance(each, (ast.If, ast.IfExp)) and inside is not each.test:
            held = inside in each.body if isinstance(each, ast.If) else inside is each.body
            if _says_no_tensor(each.test, node.id, held):
                return True
        if any(_left_before(each, inside, node.id)):
            return True
        if isinstance(each, ast.BoolOp):
            before = each.values[: each.values.index(inside)]  # type: ignore[arg-type]
            outcome = isinstance(each.op, ast.And)
            if any(_says_no_tensor(test, node.id, outcome) for test in before):
                return True
        inside = each
    return False


def _left_before(block: ast.AST, inside: ast.AST, name: str) -> Iterator[bool]:
    """For each branch that leaves a block before a statement: whether it does for a tensor."""
    for body in (getattr(block, "body", []), getattr(block, "orelse", [])):
        if not isinstance(body, list) or inside not in body:
            continue
        for before in body[: body.index(inside)]:
            branch = before
            while isinstance(branch, ast.If):
                leaves = isinstance(branch.body[-1], (ast.Return, ast.Raise, ast.Continue))
                yield leaves and _says_no_tensor(branch.test, name, False)
                branch = branch.orelse[0] if leaves and len(branch.orelse) == 1 else None


def _says_no_tensor(test: ast.expr, name: str, outcome: bool) -> bool:
    """Whether a name is no tensor where a test comes out as said."""
    test, outcome = without_not(test, outcome)
    if isinstance(test, ast.BoolOp):
        decides = isinstance(test.op, ast.And) == outcome  # then all parts came out so
        return decides and any(_says_no_tensor(each, name, outcome) for each in test.values)
    if not isinstance(test, ast.Call) or not test.args or dotted(test.args[0]) != name:
        return False
    asked = dotted(test.func)
    if asked == "torch.is_tensor":
        return not outcome
    if asked != "isinstance" or len(test.args) != 2:
        return False
    types = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
    named = [(dotted(each) or "tensor").lower() for each in types]
    if outcome:
        return not any("tensor" in each for each in named)
    return any(each.rpartition(".")[2] == "tensor" and dotted(types[0]) for each in named)
