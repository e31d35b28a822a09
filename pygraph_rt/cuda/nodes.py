"""A graph node as the driver returns it."""

from __future__ import annotations

from typing import NamedTuple

from pygraph_rt.cuda.structures import KernelNode, MemcpyParams, MemsetParams

Params = KernelNode | MemcpyParams | MemsetParams


class RawNode(NamedTuple):
    """A node's handle, and its parameters as the driver returned them."""

    handle: int
    params: Params


def fields_of(params: Params) -> tuple[bytes, ...]:
    """The byte strings of a node in which addresses may sit."""
    if isinstance(params, KernelNode):
        return params.fields
    if isinstance(params, MemcpyParams):
        return (
            params.src_device.to_bytes(8, "little"),
            params.dst_device.to_bytes(8, "little"),
        )
    return (params.dst.to_bytes(8, "little"),)


class CapturedGraph(NamedTuple):
    """A graph of torch's, as executables are made from it: its handle, its `nodes` in topological
    order, handles of nodes that are `surplus`, and nodes whose parameters were `changed`.
    """

    handle: int
    nodes: list[RawNode]
    surplus: tuple[int, ...] = ()
    changed: frozenset[int] = frozenset()
