"""Collectives: all ranks of a process group run them in one order, and each of them once.

A graph is captured twice and compared with compiled code, at a call that each rank chooses for
itself. So compiled code is cut at every collective: what is between them can be a graph, and the
collectives run as they do without graphs, in the order of default mode.
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


@contextlib.contextmanager
def cut_at_collectives(nodes: Iterable[Any]) -> Iterator[None]:
    """While a graph of these nodes is compiled: Inductor makes no partition with a collective in
    it, and moves nothing across one to have fewer partitions. Operators that the program wants to
    be cut at stay so.
    """
    from torch._inductor import config

    if not any(is_collective(node.target) for node in nodes):
        yield
        return
    wanted = [*config.custom_should_partition_ops, *operators()]
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
