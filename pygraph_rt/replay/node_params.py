"""Parameters of graph nodes in memory of our own, in the form the driver takes for an update.

What the driver returns for a node belongs to the node and must not be written to (cuda.h), so
each patched node gets its own copy: the parameters' bytes, and the structure that points to them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.cuda.structures import (
    KERNEL,
    KIND_OF,
    MEMCPY,
    MEMSET,
    KernelNode,
    KernelParams,
    MemcpyParams,
    RawNode,
)
from pygraph_rt.plan.memory_blocks import aligned

_ALIGN = 16
_Pointers = ctypes.POINTER(ctypes.c_void_p)


class NodeTemplates:
    """Writable parameters of the nodes that are patched.

    `address` is where they start, `offset(...)` where a word lies in them. `context` is the CUDA
    context that copies and memory sets run in.
    """

    def __init__(self, nodes: Mapping[int, RawNode], context: int) -> None:
        self._nodes = dict(nodes)
        self.context = context
        self._offsets: dict[tuple[int, int], int] = {}
        self._starts: dict[int, int] = {}
        size = 0
        for index, node in self._nodes.items():
            size = self._place(index, node, size)
        backing = ctypes.create_string_buffer(size + _ALIGN)
        self.address = aligned(ctypes.addressof(backing), _ALIGN)
        self._keep: list[Any] = [backing]
        self._structs: dict[int, ctypes.Structure] = {}
        for index, node in self._nodes.items():
            self._fill(index, node)

    def _place(self, index: int, node: RawNode, size: int) -> int:
        params = node.params
        self._starts[index] = size
        if isinstance(params, KernelNode):
            if params.packed:
                for field, (offset, _) in enumerate(params.layout):
                    self._offsets[index, field] = size + offset
                return size + aligned(params.packed, _ALIGN)
            for field, data in enumerate(params.fields):
                self._offsets[index, field] = size
                size += aligned(len(data), _ALIGN)
            return size
        struct = type(params)
        names = ("src_device", "dst_device") if isinstance(params, MemcpyParams) else ("dst",)
        for field, name in enumerate(names):
            self._offsets[index, field] = size + getattr(struct, name).offset
        return size + aligned(ctypes.sizeof(struct), _ALIGN)

    def _fill(self, index: int, node: RawNode) -> None:
        params = node.params
        if not isinstance(params, KernelNode):
            place = self.address + self._starts[index]
            ctypes.memmove(place, ctypes.addressof(params), ctypes.sizeof(params))
            self._structs[index] = type(params).from_address(place)
            return
        for field, data in enumerate(params.fields):
            ctypes.memmove(self.address + self._offsets[index, field], data, len(data))
        struct = KernelParams.from_buffer_copy(params.raw)
        size = ctypes.c_size_t(params.packed)
        entries = [self.address + self._offsets[index, f] for f in range(len(params.fields))]
        if params.packed:
            entries = [1, self.address + self._starts[index], 2, ctypes.addressof(size)]
        pointers = (ctypes.c_void_p * (len(entries) + 1))(*entries)
        self._keep += [size, pointers]
        none, some = _Pointers(), ctypes.cast(pointers, _Pointers)
        struct.params, struct.extra = (none, some) if params.packed else (some, none)
        self._structs[index] = struct

    def offset(self, node: int, field: int, offset: int) -> int:
        """Bytes from `address` to a word of a field; always a multiple of 4."""
        place = self._offsets[node, field] + offset
        if place % 4:
            raise ValueError(f"word at byte {place} is not aligned to 4 bytes")
        return place

    def describe(self, node: int) -> str:
        """What a node does, in a few words."""
        params = self._nodes[node].params
        if isinstance(params, KernelNode):
            return f"kernel {params.name}"
        if isinstance(params, MemcpyParams):
            return f"a copy of {params.width} bytes"
        return f"a memory set of {params.width} elements of {params.element_size} bytes"

    def nodes(self) -> Iterable[int]:
        """The nodes' numbers in their graph."""
        return self._nodes.keys()

    def update(self, node: int) -> tuple[int, int, int]:
        """(kind, handle, address of the driver's parameter structure) of a node."""
        raw = self._nodes[node]
        return KIND_OF[type(raw.params)], raw.handle, ctypes.addressof(self._structs[node])

    def store(self, node: int, driver: Driver) -> None:
        """Put a node's parameters into its graph, for the next executable made from it."""
        driver.set_node(*self.update(node))

    def updates(self, driver: Driver, executable: int) -> dict[int, Callable[[], int]]:
        """By node, what puts its parameters into an executable graph: a call that returns the
        driver's error code.
        """
        others = {MEMCPY: driver.exec_set_memcpy, MEMSET: driver.exec_set_memset}
        found: dict[int, Callable[[], int]] = {}
        for index in self._nodes:
            kind, handle, where = self.update(index)
            if kind == KERNEL:
                found[index] = partial(driver.exec_set_kernel, executable, handle, where)
            else:
                found[index] = partial(others[kind], executable, handle, where, self.context)
        return found
