"""A captured graph as plain data, and the reasons not to take one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.cuda.structures import (
    EMPTY,
    KERNEL,
    MEMCPY,
    MEMSET,
    NODE_KINDS,
    KernelNode,
    MemcpyParams,
    MemsetParams,
    Params,
    RawNode,
    access_window_bytes,
    fields_of,
)
from pygraph_rt.errors import Unprovable
from pygraph_rt.plan.graph import Capture, Edge, Node
from pygraph_rt.plan.memory_blocks import AddressMap

_NOTHING = KernelNode("", (), b"", (), 0, ())
_MEMORY_DEVICE, _MEMORY_UNIFIED = 2, 4


def read_graph(driver: Driver, graph: int, blocks: AddressMap) -> Capture:
    """A captured graph as plain data, each node after those that it waits for. Raises Unprovable
    for nodes that cannot be replayed elsewhere, by name.
    """
    found = driver.edges(graph)
    handles = in_order(driver.nodes(graph), [(a, b) for a, b, _ in found])
    nodes = tuple([_read_node(driver, handle) for handle in handles])
    index = {handle: i for i, handle in enumerate(handles)}
    edges = frozenset(Edge(index[a], index[b], data) for a, b, data in found)
    return Capture(nodes, edges, blocks, graph)


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


def _read_node(driver: Driver, handle: int) -> Node:
    kind = driver.node_type(handle)
    params: Params
    if kind == KERNEL:
        params = driver.kernel_node(handle)
        found = _kernel(params)
    elif kind == MEMCPY:
        params = driver.memcpy_node(handle)
        found = _memcpy(driver, params)
    elif kind == MEMSET:
        params = driver.memset_node(handle)
        found = _memset(params)
    elif kind == EMPTY:
        params, found = _NOTHING, Node("empty", "", (), ())
    else:
        raise Unprovable(
            f"it records a {NODE_KINDS.get(kind, 'unknown')} node, which cannot be replayed at "
            "other addresses; keep that operator out of the compiled region"
        )
    return found._replace(fields=fields_of(params), raw=RawNode(handle, params))


def _kernel(kernel: KernelNode) -> Node:
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
    return Node("kernel", kernel.name, kernel.identity, ())


def _memset(fill: MemsetParams) -> Node:
    if fill.height > 1:
        raise Unprovable(
            "it sets two-dimensional memory, which cannot be updated; keep that operator out "
            "of the compiled region"
        )
    identity = (fill.pitch, fill.value, fill.element_size, fill.width, fill.height)
    return Node("memory set", "", identity, ())


def _memcpy(driver: Driver, copy: MemcpyParams) -> Node:
    for kind, address in ((copy.src_type, copy.src_device), (copy.dst_type, copy.dst_device)):
        unified = kind == _MEMORY_UNIFIED and driver.memory_kind(address) == "device"
        if kind != _MEMORY_DEVICE and not unified:
            raise Unprovable(
                "it copies to or from host memory, which may be reused before the graph runs; move "
                "that copy out of the compiled region"
            )
    if copy.height > 1 or copy.depth > 1:
        raise Unprovable(
            "it copies two-dimensional memory, which cannot be updated; keep that operator out "
            "of the compiled region"
        )
    start = (copy.src_x, copy.dst_x, copy.src_type, copy.dst_type)
    return Node("memory copy", "", (*start, copy.width, copy.height, copy.depth), ())
