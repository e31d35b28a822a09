"""What has to run once a call, and in its order: collectives, of which all ranks of a process group
run the same ones, and operators that are registered with an ordered effect.

A graph is captured twice and compared with compiled code, at a call that each rank chooses for
itself, and runs nothing on the host afterwards. So compiled code is cut at every one of them: what
is between them can be a graph, and they run as they do without graphs, in the order of default
mode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

NAMESPACES = (
    "_c10d_functional",
    "_c10d_functional_autograd",
    "_dtensor",
    "c10d",
    "c10d_functional",
    "symm_mem",
)
"""Of torch's operators that communicate, waiting included."""


def is_collective(target: Any) -> bool:
    """Whether an FX node's target communicates."""
    return isinstance(target, torch._ops.OpOverload) and target.namespace in NAMESPACES


def effectful(node: Any) -> str:
    """The name of the operator with an effect that an FX node runs; "" where it runs none."""
    from torch._higher_order_ops.effects import with_effects

    if node.target is not with_effects:
        return ""
    _token, operator, *_ = node.args
    named = isinstance(operator, torch._ops.OpOverload)
    return str(operator.name()) if named else ""


def in_nested_region(module: Any, inside: bool = False) -> str:
    """The name of an operator in a nested region (`torch.compiler.nested_compile_region`) that has
    to run on each call: compiled code cannot be cut there. "" where there is none.
    """
    for node in module.graph.nodes:
        target = node.target
        unsafe = torch.Tag.cudagraph_unsafe in getattr(target, "tags", ())
        found = effectful(node) or (str(target) if is_collective(target) or unsafe else "")
        if inside and found:
            return found
        for region in _nested_regions(module, node):
            if found := in_nested_region(region, inside=True):
                return found
    return ""


def _nested_regions(module: Any, node: Any) -> list[Any]:
    """The graphs of the nested regions that a node calls."""
    from torch._higher_order_ops.invoke_subgraph import invoke_subgraph

    if not any(each is invoke_subgraph for each in (node.target, *node.args)):
        return []
    given = [getattr(module, n.target, None) for n in node.all_input_nodes if n.op == "get_attr"]
    return [each for each in given if isinstance(each, torch.fx.GraphModule)]


@contextlib.contextmanager
def cut_at_what_runs_once(nodes: Iterable[Any]) -> Iterator[None]:
    """While a graph of these nodes is compiled: Inductor makes no partition with a collective or an
    effect in it, and moves nothing across one to have fewer partitions. Operators that the program
    wants to be cut at stay so.
    """
    from torch._inductor import config

    found = [*nodes]
    names = {effectful(node) for node in found} - {""}
    if any(is_collective(node.target) for node in found):
        names.update(operators())
    if not names:
        yield
        return
    wanted = [*config.custom_should_partition_ops, *sorted(names)]
    settings = {
        "custom_should_partition_ops": wanted,
        "triton.reorder_for_reducing_graph_partitions": False,
    }
    with config.patch(settings):
        yield


def operators() -> tuple[str, ...]:
    """The names of all operators in NAMESPACES, as `namespace::name` or with `.overload`; a program
    may register more of them by an import.
    """
    prefixes = tuple(f"{namespace}::" for namespace in NAMESPACES)
    found = torch._C._dispatch_get_all_op_names()
    return tuple(sorted(name for name in found if name.startswith(prefixes)))
