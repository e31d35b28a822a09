"""Where host tensors meet tensors on the device in a graph that Dynamo hands to a backend."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from pygraph_rt.host_values.crossings import frames_of
from pygraph_rt.trace.model import Frame

# These take only a shape, a dtype or a device from a tensor of the other side.
_ASK_ONLY = frozenset(("expand_as", "view_as", "reshape_as", "type_as", "size", "broadcast_to"))
_FROM_DATA = frozenset(("tensor", "as_tensor", "asarray", "new_tensor"))
_COPIES = frozenset(("to", "cuda", "type", "type_as", "copy_"))
_INDEXING = (operator.getitem, operator.setitem)
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float)

Stack = tuple[Frame, ...]


@dataclass(frozen=True)
class Meeting:
    """One host tensor that a graph uses with the device.

    stack: the user's frames, outermost first: where the graph makes the host tensor, else where it
    meets the device.
    """

    stack: Stack
    reason: str
    operation: str


def meetings(graph: GraphModule) -> list[Meeting]:
    """The host tensors of a graph and of the graphs in it, each statement once.

    Reads what Dynamo has noted at the nodes; nothing is run or changed.
    """
    found: dict[Stack, Meeting] = {}
    for part in graph.modules():
        if isinstance(part, GraphModule):
            for node in part.graph.nodes:
                for one in _at(node):
                    found.setdefault(one.stack, one)
    return list(found.values())


def _at(node: Node) -> Iterator[Meeting]:
    name = _name(node)
    if name is None:
        return
    inputs = [one for one in node.all_input_nodes if _side(one) is not None]
    host = [one for one in inputs if _side(one) == "host"]
    if name in _COPIES and _side(node) == "device" and host:
        yield Meeting(_stack(node), f"`{name}` copies a host tensor to the device", name)
        yield from _made(host, name)
    elif len(host) < len(inputs) and host and not _asks_only(name):
        made = list(_made(host, name))
        yield from made
        if len(made) < len(host):
            reason = f"`{name}` gets a host tensor and tensors on the device"
            yield Meeting(_stack(node), reason, name)
    elif _side(node) == "device" and name in _FROM_DATA and inputs in ([], [_self(node)]):
        yield Meeting(_stack(node), f"`{name}` builds a tensor on the host and copies it", name)
    elif node.target in _INDEXING and _side(node.args[0]) == "device" and _has_list(node.args[1]):
        reason = "indexing with a list builds a tensor on the host and copies it"
        yield Meeting(_stack(node), reason, name)


def _made(host: list[Node], where: str) -> Iterator[Meeting]:
    """For each host tensor that this graph makes from nothing: where it does."""
    for one in host:
        origin = _origin(one)
        if origin is not None:
            name = _name(origin) or ""
            reason = f"`{name}` makes a tensor on the host, which meets the device in `{where}`"
            yield Meeting(_stack(origin), reason, name)


def _origin(node: Node) -> Node | None:
    """The first operation that made a tensor's values; None where they come into the graph."""
    seen = {node}
    todo, first = [node], None
    while todo:
        first = todo.pop()
        if first.op not in ("call_function", "call_method"):
            return None
        before = [n for n in first.all_input_nodes if n not in seen and not _is_number(n)]
        seen.update(before)
        todo += before
    return first


def _name(node: Node) -> str | None:
    """What a node calls; None for other nodes, and for operators that only call other graphs."""
    if node.op == "call_method":
        return str(node.target)
    if node.op != "call_function" or isinstance(node.target, torch._ops.HigherOrderOperator):
        return None
    return str(getattr(node.target, "__name__", node.target))


def _self(node: Node) -> Any:
    """The tensor whose method a node calls: `new_tensor` takes only its device and dtype."""
    return node.args[0] if node.op == "call_method" else None


def _asks_only(name: str) -> bool:
    return name in _ASK_ONLY or name in _COPIES or name.startswith("new_") or name.endswith("_like")


def _side(node: Any) -> str | None:
    """Where a node's tensor is; None where it is no tensor."""
    value = node.meta.get("example_value") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    return "host" if value.device.type == "cpu" else "device"


def _is_number(node: Node) -> bool:
    return isinstance(node.meta.get("example_value"), _NUMBERS)


def _has_list(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    lists = [tree_leaves(part) for part in parts if isinstance(part, list)]
    return any(all(isinstance(one, int) for one in leaves) for leaves in lists)


def _stack(node: Node) -> Stack:
    return tuple(Frame(file, int(line), function) for file, line, function in frames_of(node))
