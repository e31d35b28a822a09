"""CPU values that are computed from nothing, or from sizes alone: a mask that a model makes on the
CPU, the scale of an `interpolate` with dynamic shapes, the root of a `torch.tensor(64.0)`.

Programs compute them anew on each call. A region has a graph for each set of sizes, so there they
are constants: computed once for these sizes, on the CPU as in eager, and read from memory that
stays where it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import fake_tensor
from torch.fx.experimental import symbolic_shapes

from pygraph_rt.host_values.ops import DTYPES, MODULES, SIZE_VALUES, Program
from pygraph_rt.replaced_operators import is_replaced

aten, prims = torch.ops.aten, torch.ops.prims

# Bytes of what may be computed on the way to a value, and elements that a program may hold.
_LARGEST, _MOST_HELD = 1 << 20, 256


def sizes_of(root: fx.Node) -> list[fx.Node] | None:
    """The integers that a CPU tensor is computed from; None where it takes more than integers."""
    if not _is_on_host(root.meta.get("val")):
        return None
    found: dict[fx.Node, None] = {}
    seen, waiting = {root}, [root]
    while waiting:
        node = waiting.pop()
        value = node.meta.get("val")
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            if symbolic_shapes.free_unbacked_symbols(value):
                return None
            if node.op == "placeholder" or isinstance(node.target, torch._ops.OpOverload):
                found[node] = None
                continue
        if is_held(node):
            if _held(node) is None:
                return None
            continue
        if node.op != "call_function" or not _is_arithmetic(node):
            return None
        new = [n for n in node.all_input_nodes if n not in seen]
        seen.update(new)
        waiting += new
    return list(found)


def attribute(node: fx.Node) -> Any:
    """What a `get_attr` node stands for; None where the module has none of that name."""
    found: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        found = getattr(found, name, None)
    return found


def is_held(node: fx.Node) -> bool:
    """Whether a node stands for a tensor that the graph holds, such as `torch.tensor([1.0])`."""
    return node.target is aten.lift_fresh_copy.default and node.all_input_nodes[0].op == "get_attr"


def _held(node: fx.Node) -> torch.Tensor | None:
    """A small CPU tensor of numbers that the graph holds; None for any other."""
    found = attribute(node.all_input_nodes[0])
    if not isinstance(found, torch.Tensor) or isinstance(found, fake_tensor.FakeTensor):
        return None
    small = _is_on_host(found) and 0 < found.numel() <= _MOST_HELD
    return found if small else None


def _is_on_host(value: Any) -> bool:
    """Whether a value is a CPU tensor of numbers of fixed size, and no large one."""
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return False
    if value.dtype not in DTYPES:
        return False
    fixed = value.layout is torch.strided and all(isinstance(n, int) for n in value.shape)
    return fixed and value.numel() * value.element_size() <= _LARGEST


def _is_arithmetic(node: fx.Node) -> bool:
    """Whether a node is a number, or a CPU tensor, and the same for the same arguments: what an
    operator of the program's own does, nobody knows.
    """
    value, target = node.meta.get("val"), node.target
    if isinstance(target, torch._ops.OpOverload):
        own = target.namespace in ("aten", "prims") and not is_replaced(target, "CPU")
        seeded = torch.Tag.nondeterministic_seeded in target.tags
        return own and _is_on_host(value) and not target._schema.is_mutable and not seeded
    named = getattr(target, "__module__", None) in MODULES
    return named and isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool))


def program(roots: Sequence[fx.Node]) -> tuple[Program, list[fx.Node]]:
    """What computes these tensors (of one dtype), and the integers that it takes, in order."""
    leaves = {leaf for root in roots for leaf in sizes_of(root) or ()}
    needed, waiting = set(leaves), list(roots)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += [] if is_held(node) else node.all_input_nodes
    nodes = [node for node in roots[0].graph.nodes if node in needed]
    taken = [node for node in nodes if node in leaves]
    graph = fx.Graph()
    copies = {node: graph.placeholder(f"size_{i}") for i, node in enumerate(taken)}
    for node in nodes:
        if node in leaves:
            continue
        if is_held(node) and (held := _held(node)) is not None:
            like: dict[str, Any] = {"dtype": held.dtype, "device": held.device}
            copies[node] = graph.call_function(torch.tensor, (held.tolist(),), like)
            continue
        given = fx.map_arg((node.args, node.kwargs), copies.__getitem__)
        # No name that generated code has for something else.
        name = f"value_{len(copies)}"
        copy = copies[node] = graph.create_node(node.op, node.target, *given, name=name)
        if copy.target is prims.convert_element_type.default:
            # The same, and ten times as fast when it is run as it is.
            source, dtype = copy.args
            copy.target, copy.args = aten._to_copy.default, (source,)
            copy.kwargs = {"dtype": dtype}
    graph.output(tuple(copies[root] for root in roots))
    made = [root.meta["val"] for root in roots]
    elements = sum(value.numel() for value in made)
    return Program(json.dumps(graph.python_code("self").src), elements, made[0].dtype), taken


def number(root: fx.Node) -> bool | int | float | None:
    """What a CPU scalar always is; None where it is not a number, or not always the same one."""
    known = root.meta.get("val")
    if not isinstance(known, torch.Tensor) or known.dim() or known.dtype not in DTYPES:
        return None
    if sizes_of(root) != []:
        return None
    found, _ = program([root])
    try:
        (made,) = SIZE_VALUES().compute(found.source, ())
    except RuntimeError:  # it is the program that is to see it
        return None
    value: bool | int | float = made.item()
    return value if math.isfinite(value) else None
