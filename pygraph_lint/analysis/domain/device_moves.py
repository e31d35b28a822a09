"""Calls that move tensors between the host and a device, told by how they are written."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.syntax.nodes import last_part

_MOVING = re.compile(r"to_(device|gpu|cuda)$")
_OF_DEVICES = frozenset(("dev", "gpu", "gpus", "rank", "cuda"))
_DEVICES = ("cuda", "xpu", "mps", "npu", "hpu", "xla")


def moves_to_host(call: ast.Call) -> bool:
    """Whether a method call copies a tensor to the host and gives a tensor: ``.cpu()``,
    ``.to("cpu")``.
    """
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "cpu":
        return not call.args
    return call.func.attr == "to" and any(map(_names_host, _targets(call)))


def moves_to_device(call: ast.Call) -> bool:
    """Whether a method call moves something to a device that is not the host: ``.cuda()``,
    ``.to(device)``, told by how the device is written.
    """
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "cuda":
        return True
    if moves_to_host(call):
        return False
    return call.func.attr == "to" and any(_names_device(each) for each in _targets(call))


def only_moves(value: ast.expr) -> bool:
    """Whether an expression only says where something is."""
    return isinstance(value, ast.Call) and (moves_to_device(value) or moves_to_host(value))


def moved_by(node: ast.AST) -> list[ast.expr]:
    """What a call moves to the device: ``x.to(device)``, or a helper: ``to_device(x, device)``."""
    if not isinstance(node, ast.Call):
        return []
    if moves_to_device(node):
        return [node.func]
    return node.args[:1] if is_moving(node) else []


def is_moving(call: ast.Call) -> bool:
    """Whether a function moves tensors, by its name: ``to_device(x, device)``."""
    return _MOVING.search(_last(call.func)) is not None


def waits_for_copy(call: ast.Call) -> bool:
    """Whether a copy to the device is not asked to be asynchronous."""
    given = [item.value for item in call.keywords if item.arg in ("non_blocking", "async")]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        given += call.args[2:3]
    return not given or (isinstance(given[0], ast.Constant) and given[0].value is False)


def names_cuda(of: Callable[[ast.expr], Value], call: ast.Call) -> bool:
    """Whether ``x.type(t)`` asks for a type of tensors of the device."""
    given = call.args[0] if len(call.args) == 1 else None
    if isinstance(given, ast.Constant):
        return isinstance(given.value, str) and given.value.startswith("torch.cuda.")
    return given is not None and of(given).cls.startswith("torch.cuda.")


def _names_host(node: ast.expr) -> bool:
    """``"cpu"``, ``torch.device("cpu")``"""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        return _last(node.func) == "device" and _names_host(node.args[0])
    return isinstance(node, ast.Constant) and node.value == "cpu"


def _names_device(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return _names_device(node.values[0]) if node.values else False
    if isinstance(node, ast.Constant):
        said = node.value
        return isinstance(said, str) and said != "cpu" and said.partition(":")[0] in _DEVICES
    if isinstance(node, (ast.Call, ast.Subscript)):
        return _names_device(node.func if isinstance(node, ast.Call) else node.value)
    last = _last(node)
    return "device" in last or not _OF_DEVICES.isdisjoint(last.split("_"))


def _targets(call: ast.Call) -> list[ast.expr]:
    named = [item.value for item in call.keywords if item.arg == "device"]
    return [*call.args[:1], *named]


def _last(node: ast.expr) -> str:
    """The last part of a name."""
    return last_part(node).lower()
