"""Values of training loops that come from several places, and parts of values."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.loop_calls import HOST, is_batch, on_device
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
    modules = [each for each in known if each.flags & v.MODULE]
    symbols = [each for each in known if each.needs]
    batches = [each for each in known if is_batch(each)]
    for group in (modules, symbols, batches):
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
