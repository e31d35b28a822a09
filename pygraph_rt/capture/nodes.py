"""A captured graph as plain data, and the reasons not to take one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.cuda.nodes import RawNode, fields_of
from pygraph_rt.cuda.structures import (
    EMPTY,
    KERNEL,
    MEMCPY,
    MEMSET,
    NODE_KINDS,
    KernelNode,
    MemcpyParams,
    access_window_bytes,
)
from pygraph_rt.errors import Unprovable
from pygraph_rt.plan.graph import Capture, Edge, Node
from pygraph_rt.plan.memory_blocks import AddressMap

_NOTHING = KernelNode("", (), b"", (), 0, ())
_MEMORY_DEVICE, _MEMORY_UNIFIED = 2, 4


def read_graph(driver: Driver, graph: int, blocks: AddressMap) -> tuple[list[RawNode], Capture]:
    """A captured graph as plain data, each node after those that it waits for. Raises Unprovable
    for nodes that cannot be replayed elsewhere, by name.
    """
    found = driver.edges(graph)
    handles = in_order(driver.nodes(graph), [(a, b) for a, b, _ in found])
    raw: list[RawNode] = []
    nodes: list[Node] = []
    for handle in handles:
        item, node = _read_node(driver, handle)
        raw.append(item)
        nodes.append(node)
    index = {handle: i for i, handle in enumerate(handles)}
    edges = frozenset(Edge(index[a], index[b], data) for a, b, data in found)
    return raw, Capture(tuple(nodes), edges, blocks)


_NCCL = "nccl"
"""Part of the names of all kernels of NCCL."""


def in_order(nodes: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[int]:
    """Nodes so that each one comes after those that it waits for, and else as they were: the driver
    promises no order.
    """
    place = {node: i for i, node in enumerate(nodes)}
    waiting = [0] * len(nodes)
    after: list[list[int]] = [[] for _ in nodes]
    for source, target in edges:
        after[place[source]].append(place[target])
        waiting[place[target]] += 1
    ready = [i for i, count in enumerate(waiting) if not count]
    found = []
    while ready:
        i = heappop(ready)
        found.append(nodes[i])
        for j in after[i]:
            waiting[j] -= 1
            if not waiting[j]:
                heappush(ready, j)
    return found


def _read_node(driver: Driver, handle: int) -> tuple[RawNode, Node]:
    kind = driver.node_type(handle)
    if kind == KERNEL:
        kernel = driver.kernel_node(handle)
        if _NCCL in kernel.name and not kernel.name.startswith("triton"):
            raise Unprovable(
                f"kernel {kernel.name} communicates with other ranks, which capture and compare at "
                "other calls; keep the operator that launches it out of the compiled region"
            )
        if access_window_bytes(kernel.identity[-1] if kernel.identity else ()):
            raise Unprovable(
                f"kernel {kernel.name} sets an L2 access window, an address that cannot be "
                "updated; keep that operator out of the compiled region"
            )
        return RawNode(handle, kernel), Node("kernel", kernel.name, kernel.identity, kernel.fields)
    if kind == MEMCPY:
        copy = driver.memcpy_node(handle)
        return RawNode(handle, copy), _memcpy(driver, copy)
    if kind == MEMSET:
        fill = driver.memset_node(handle)
        if fill.height > 1:
            raise Unprovable(
                "it sets two-dimensional memory, which cannot be updated; keep that operator out "
                "of the compiled region"
            )
        identity = (fill.pitch, fill.value, fill.element_size, fill.width, fill.height)
        return RawNode(handle, fill), Node("memory set", "", identity, fields_of(fill))
    if kind == EMPTY:
        return RawNode(handle, _NOTHING), Node("empty", "", (), ())
    raise Unprovable(
        f"it records a {NODE_KINDS.get(kind, 'unknown')} node, which cannot be replayed at other "
        "addresses; keep that operator out of the compiled region"
    )


def _memcpy(driver: Driver, copy: MemcpyParams) -> Node:
    for kind, address in ((copy.src_type, copy.src_device), (copy.dst_type, copy.dst_device)):
        unified = kind == _MEMORY_UNIFIED and driver.memory_kind(address) == "device"
        if kind != _MEMORY_DEVICE and not unified:
            raise Unprovable(
                "it copies to or from host memory, which may be reused before the graph runs; move "
                "that copy out of "
                "the compiled region"
            )
    if copy.height > 1 or copy.depth > 1:
        raise Unprovable(
            "it copies two-dimensional memory, which cannot be updated; keep that operator out "
            "of the compiled region"
        )
    identity = (
        copy.src_x,
        copy.dst_x,
        copy.src_type,
        copy.dst_type,
        copy.width,
        copy.height,
        copy.depth,
    )
    return Node("memory copy", "", identity, fields_of(copy))
