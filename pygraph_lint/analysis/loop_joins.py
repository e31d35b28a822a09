"""Values of training loops that come from several places, and parts of values."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.loop_calls import HOST, is_batch, on_device
from pygraph_lint.analysis.nodes import dotted
from pygraph_lint.analysis.queries import FileQueries
from pygraph_lint.analysis.statement_graph import FUNCTIONS
from pygraph_lint.analysis.values import Value


def is_open(value: Value) -> bool:
    """Whether a value may still be a tensor of the device."""
    return bool(value.kinds & v.UNKNOWN or value.needs) or value == HOST


def joined(values: list[Value]) -> Value:
    """What a name may be that gets one of several values: a tensor of the device counts."""
    certain = [each for each in values if on_device(each) and not each.needs]
    if certain:
        return certain[0]
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


def is_of_other_type(queries: FileQueries, node: ast.Name) -> bool:
    """Whether a name stands behind an ``isinstance`` of types that are no tensors."""
    inside: ast.AST = node
    for each in queries.path(node):
        if isinstance(each, FUNCTIONS):
            return False
        if isinstance(each, ast.If) and inside in each.body:
            kinds = _types_of(each.test, node.id)
            if kinds and not any("tensor" in kind.lower() for kind in kinds):
                return True
        inside = each
    return False


def _types_of(test: ast.expr, name: str) -> list[str]:
    """The types that ``isinstance(name, ...)`` is asked for."""
    if not isinstance(test, ast.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return []
    types = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
    return [dotted(each) or "tensor" for each in types] if dotted(test.args[0]) == name else []
