"""The parameters of graph nodes, as structures of cuda.h (CUDA 12.4 and later)."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

KERNEL, MEMCPY, MEMSET, EMPTY = 0, 1, 2, 5
_KINDS = (
    *("kernel", "memory copy", "memory set", "host function", "child graph", "empty"),
    *("event wait", "event record", "semaphore signal", "semaphore wait"),
    *("memory allocation", "memory free", "batch memory operation", "conditional"),
)
NODE_KINDS = dict(enumerate(_KINDS))
"""Names of CUgraphNodeType's values."""

_ACCESS_POLICY_WINDOW = 1

_ptr = ctypes.c_void_p
_size = ctypes.c_size_t


def fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    """Fields of one type in a row, for a structure."""
    return [(name, kind) for name in names.split()]


class KernelParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS (version 2)."""

    _fields_ = [
        ("func", _ptr),
        *fields(ctypes.c_uint, "grid_x grid_y grid_z block_x block_y block_z shared_bytes"),
        *fields(ctypes.POINTER(_ptr), "params extra"),
        *fields(_ptr, "kern ctx"),
    ]


class MemcpyParams(ctypes.Structure):
    """CUDA_MEMCPY3D (version 2)."""

    _fields_ = [
        *fields(_size, "src_x src_y src_z src_lod"),
        ("src_type", ctypes.c_int),
        ("src_host", _ptr),
        ("src_device", ctypes.c_uint64),
        *fields(_ptr, "src_array src_reserved"),
        *fields(_size, "src_pitch src_height dst_x dst_y dst_z dst_lod"),
        ("dst_type", ctypes.c_int),
        ("dst_host", _ptr),
        ("dst_device", ctypes.c_uint64),
        *fields(_ptr, "dst_array dst_reserved"),
        *fields(_size, "dst_pitch dst_height width height depth"),
    ]


class MemsetParams(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = [
        ("dst", ctypes.c_uint64),
        ("pitch", _size),
        *fields(ctypes.c_uint, "value element_size"),
        *fields(_size, "width height"),
    ]


@dataclass(frozen=True)
class KernelNode:
    """What one kernel node launches.

    `identity` is everything that must be the same in two captures (function handle, grid, block,
    shared memory, launch attributes); `fields` are the bytes of each parameter in order; `layout`
    their (offset, size) in bytes in the packed form; `packed` says that the kernel takes one
    buffer through `extra` instead of `kernelParams`.
    """

    name: str
    identity: tuple[Any, ...]
    raw: bytes
    layout: tuple[tuple[int, int], ...]
    packed: int
    fields: tuple[bytes, ...]


def access_window_bytes(attributes: tuple[tuple[int, bytes], ...]) -> int:
    """Bytes of the persisting-L2 window among launch attributes: it holds an address that cannot
    be patched.
    """
    for attribute, value in attributes:
        if attribute == _ACCESS_POLICY_WINDOW:
            return int.from_bytes(value[8:16], sys.byteorder)
    return 0


Params = KernelNode | MemcpyParams | MemsetParams
KIND_OF: dict[type, int] = {KernelNode: KERNEL, MemcpyParams: MEMCPY, MemsetParams: MEMSET}
"""A node's CUgraphNodeType, by what its parameters are."""


class RawNode(NamedTuple):
    """A node's handle, and its parameters as the driver returned them."""

    handle: int
    params: Params


def fields_of(params: Params) -> tuple[bytes, ...]:
    """The byte strings of a node in which addresses may sit."""
    if isinstance(params, KernelNode):
        return params.fields
    if isinstance(params, MemcpyParams):
        return params.src_device.to_bytes(8, "little"), params.dst_device.to_bytes(8, "little")
    return (params.dst.to_bytes(8, "little"),)
