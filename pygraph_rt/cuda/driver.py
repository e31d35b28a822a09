"""The CUDA driver calls that the runtime needs, each one checked.

Signatures follow the CUDA driver API reference (cuda.h of CUDA 12.4 and later, chapters "Graph
Management", "Virtual Memory Management" and "Unified Addressing"). Handles are plain integers.
Only this file uses ctypes on libcuda; everything above talks to `Driver`, which the tests
replace.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pygraph_rt.cuda.structures import (
    KERNEL,
    MEMCPY,
    MEMSET,
    KernelNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
)
from pygraph_rt.errors import DriverError

_NOT_SUPPORTED = 801
_INVALID_VALUE = 1
_DEINITIALIZED = 4
_HOST, _DEVICE = 1, 2
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_CAPTURE_ERRORS = range(900, 910)  # CUDA_ERROR_STREAM_CAPTURE_...
_ATTRIBUTE_BYTES = 64
# Where address space is asked for, in turn: two captures have theirs at the same time. Left to
# itself, a driver may reserve it at low addresses, where a small number above whatever padding held
# is one, too: the upper half of these is hardly a number that a program has for a size or a count.
# It begins so far above a multiple of 4 GiB (see `placeholders.layout`).
ABOVE_4_GIB = 32 << 20
_RESERVED = [((0x2B5D + (n << 8)) << 32) + ABOVE_4_GIB for n in range(4)]
_ATTRIBUTES = (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)

_ptr, _int, _u32, _u64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_uint64
_size, _ref = ctypes.c_size_t, ctypes.byref


_EdgeData = ctypes.c_uint8 * 8


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationProp(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", _ptr),
        ("flags", ctypes.c_uint8 * 8),
    ]


class _AccessDesc(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class Driver:
    """Checked access to libcuda. `library` is a ctypes library or a stand-in with the same
    functions.

    `quick` is the same library, called without letting go of the interpreter lock: for calls that
    never wait, which take a third less time so.
    """

    def __init__(self, library: Any, quick: Any = None) -> None:
        self._cu = library
        self._reserved = itertools.cycle(_RESERVED)
        update = (quick or library).cuGraphExecKernelNodeSetParams_v2
        update.argtypes, update.restype = [_ptr, _ptr, _ptr], ctypes.c_int
        self.exec_set_kernel: Callable[..., int] = update
        self.exec_set_memcpy = self._typed("cuGraphExecMemcpyNodeSetParams", 4)
        self.exec_set_memset = self._typed("cuGraphExecMemsetNodeSetParams", 4)
        self.launch = self._typed("cuGraphLaunch", 2)

    def entry_points(self) -> tuple[int, int, int, int]:
        """Addresses of the driver's functions that update a kernel, a copy and a memory-set node,
        and that launch.
        """
        calls = (self.exec_set_kernel, self.exec_set_memcpy, self.exec_set_memset, self.launch)
        kernel, copy, fill, launch = (int(ctypes.cast(c, _ptr).value or 0) for c in calls)  # type: ignore[arg-type]
        return kernel, copy, fill, launch

    def _typed(self, name: str, pointers: int) -> Callable[..., int]:
        function: Any = getattr(self._cu, name)
        function.argtypes, function.restype = [_ptr] * pointers, _int
        return function  # type: ignore[no-any-return]

    def describe(self, code: int) -> str:
        """The driver's name for an error code."""
        text = ctypes.c_char_p()
        if self._cu.cuGetErrorName(_int(code), _ref(text)) or not text.value:
            return f"error {code}"
        return text.value.decode()

    def _check(self, call: str, code: int) -> None:
        if code:
            raise DriverError(f"{call} failed with {self.describe(code)}")

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, getattr(self._cu, name)(*arguments))

    def _made(self, kind: Any, name: str, *arguments: Any) -> int:
        """What a call returns through its first argument, a pointer to a `kind`."""
        value = kind()
        self._call(name, _ref(value), *arguments)
        return int(value.value or 0)

    def version(self) -> int:
        """CUDA version the driver supports, as 1000 * major + 10 * minor (cuDriverGetVersion)."""
        return self._made(_int, "cuDriverGetVersion")

    # -- graphs

    def nodes(self, graph: int) -> list[int]:
        """Node handles in creation order."""
        count = _size(0)
        self._call("cuGraphGetNodes", _ptr(graph), None, _ref(count))
        if not count.value:
            return []
        handles = (_ptr * count.value)()
        self._call("cuGraphGetNodes", _ptr(graph), handles, _ref(count))
        return [int(handles[i] or 0) for i in range(count.value)]

    def edges(self, graph: int) -> list[tuple[int, int, bytes]]:
        """(from node, to node, edge data) of every edge (cuGraphGetEdges_v2, which does not lose
        edge data).
        """
        count = _size(0)
        self._call("cuGraphGetEdges_v2", _ptr(graph), None, None, None, _ref(count))
        if not count.value:
            return []
        room = count.value
        sources, targets, data = (_ptr * room)(), (_ptr * room)(), (_EdgeData * room)()
        self._call("cuGraphGetEdges_v2", _ptr(graph), sources, targets, data, _ref(count))
        return [
            (int(sources[i] or 0), int(targets[i] or 0), bytes(data[i])) for i in range(count.value)
        ]

    def node_type(self, node: int) -> int:
        """CUgraphNodeType of a node."""
        value = _int()
        self._call("cuGraphNodeGetType", _ptr(node), _ref(value))
        return value.value

    def kernel_node(self, node: int) -> KernelNode:
        """A copy of everything a kernel node launches; the node's own memory is only read."""
        params = KernelParams()
        self._call("cuGraphKernelNodeGetParams_v2", _ptr(node), _ref(params))
        layout = self._layout(params)
        addresses, packed = _field_addresses(params, layout)
        fields = tuple(
            ctypes.string_at(a, size) for a, (_, size) in zip(addresses, layout, strict=True)
        )
        grid = (params.grid_x, params.grid_y, params.grid_z)
        block = (params.block_x, params.block_y, params.block_z)
        launched = (params.func, params.kern, grid, block, params.shared_bytes)
        identity = (*launched, packed, tuple(layout), self._attributes(node))
        name = self._kernel_name(params)
        return KernelNode(name, identity, bytes(params), tuple(layout), packed, fields)

    def _layout(self, params: KernelParams) -> list[tuple[int, int]]:
        layout: list[tuple[int, int]] = []
        offset, size = _size(), _size()
        name = "cuFuncGetParamInfo" if params.func else "cuKernelGetParamInfo"
        query, handle = getattr(self._cu, name), _ptr(params.func or params.kern)
        while True:
            code = query(handle, _size(len(layout)), _ref(offset), _ref(size))
            if code == _INVALID_VALUE:  # the documented answer for "no such parameter"
                return layout
            self._check(name, code)
            layout.append((offset.value, size.value))

    def _kernel_name(self, params: KernelParams) -> str:
        text = ctypes.c_char_p()
        name_of = self._cu.cuFuncGetName if params.func else self._cu.cuKernelGetName
        code = name_of(_ref(text), _ptr(params.func or params.kern))
        return (text.value or b"?").decode() if not code else "?"

    def _attributes(self, node: int) -> tuple[tuple[int, bytes], ...]:
        found: list[tuple[int, bytes]] = []
        for attribute in _ATTRIBUTES:
            value = (ctypes.c_uint8 * _ATTRIBUTE_BYTES)()
            key = _int(attribute)
            code = self._cu.cuGraphKernelNodeGetAttribute(_ptr(node), key, _ref(value))
            if code in (_INVALID_VALUE, _NOT_SUPPORTED):  # unknown to this driver, so not in use
                continue
            self._check("cuGraphKernelNodeGetAttribute", code)
            found.append((attribute, bytes(value)))
        return tuple(found)

    def memcpy_node(self, node: int) -> MemcpyParams:
        """A copy node's parameters."""
        params = MemcpyParams()
        self._call("cuGraphMemcpyNodeGetParams", _ptr(node), _ref(params))
        return params

    def memset_node(self, node: int) -> MemsetParams:
        """A set node's parameters."""
        params = MemsetParams()
        self._call("cuGraphMemsetNodeGetParams", _ptr(node), _ref(params))
        return params

    def set_node(self, kind: int, node: int, address: int) -> None:
        """Give a kernel, copy or memory-set node of a graph the parameters at `address`.

        What was instantiated from the graph before is not affected.
        """
        name = {
            KERNEL: "cuGraphKernelNodeSetParams_v2",
            MEMCPY: "cuGraphMemcpyNodeSetParams",
            MEMSET: "cuGraphMemsetNodeSetParams",
        }[kind]
        self._call(name, _ptr(node), _ptr(address))

    def clone_graph(self, graph: int) -> int:
        """A copy of a graph that does not depend on the original."""
        return self._made(_ptr, "cuGraphClone", _ptr(graph))

    def find_in_clone(self, node: int, clone: int) -> int:
        """The node of `clone` that was copied from `node`."""
        return self._made(_ptr, "cuGraphNodeFindInClone", _ptr(node), _ptr(clone))

    def remove_node(self, node: int) -> None:
        """Take a node and its edges out of its graph."""
        self._call("cuGraphDestroyNode", _ptr(node))

    def instantiate(self, graph: int) -> int:
        """An executable graph (CUgraphExec)."""
        return self._made(_ptr, "cuGraphInstantiateWithFlags", _ptr(graph), _u64(0))

    def destroy_exec(self, executable: int) -> None:
        """Free an executable graph; a driver that is already shut down is no error."""
        self._check_shutdown("cuGraphExecDestroy", self._cu.cuGraphExecDestroy(_ptr(executable)))

    def destroy_graph(self, graph: int) -> None:
        """Free a graph; a driver that is already shut down is no error."""
        self._check_shutdown("cuGraphDestroy", self._cu.cuGraphDestroy(_ptr(graph)))

    def _check_shutdown(self, call: str, code: int) -> None:
        if code != _DEINITIALIZED:
            self._check(call, code)

    def current_context(self) -> int:
        """The calling thread's CUDA context."""
        return self._made(_ptr, "cuCtxGetCurrent")

    def create_stream(self) -> int:
        """A non-blocking stream that nobody else can hold, unlike the ones torch hands out in
        rotation.
        """
        return self._made(_ptr, "cuStreamCreate", _u32(1))

    def wait_for(self, stream: int) -> bool:
        """Wait until all work of a stream has ended; False, at once, while it is being captured, or
        while another capture forbids to ask.

        Captures of other threads go on, also those in global mode: this thread's mode is *relaxed*
        meanwhile (cuThreadExchangeStreamCaptureMode).
        """
        mode, status = _int(_RELAXED), _int()
        self._call("cuThreadExchangeStreamCaptureMode", _ref(mode))
        try:
            code = self._cu.cuStreamIsCapturing(_ptr(stream), _ref(status))
            if not code and not status.value:
                code = self._cu.cuStreamSynchronize(_ptr(stream))
            if status.value or code in _CAPTURE_ERRORS:
                return False
            self._check("cuStreamSynchronize", code)
            return True
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", _ref(mode))

    # -- addresses

    def memory_kind(self, address: int) -> str | None:
        """ "device" or "host" for an address CUDA knows, None for any other word
        (cuPointerGetAttribute).
        """
        value = _u32()
        if self._cu.cuPointerGetAttribute(_ref(value), _int(2), _u64(address)):
            return None
        return {_HOST: "host", _DEVICE: "device"}.get(value.value, "device")

    def allocation_granularity(self, device: int) -> int:
        """Bytes; sizes of virtual memory mappings are multiples of it."""
        prop = _allocation_prop(device)
        return self._made(_size, "cuMemGetAllocationGranularity", _ref(prop), _int(0))

    def reserve(self, size: int, alignment: int) -> int:
        """Reserve `size` bytes of device address space, where the driver agrees far from small
        numbers; nothing is mapped yet.
        """
        try:
            return self._reserve(size, alignment, next(self._reserved))
        except DriverError:
            return self._reserve(size, alignment, 0)

    def _reserve(self, size: int, alignment: int, wanted: int) -> int:
        sizes = _size(size), _size(alignment)
        return self._made(_u64, "cuMemAddressReserve", *sizes, _u64(wanted), _u64(0))

    def create_memory(self, size: int, device: int) -> int:
        """Physical device memory of `size` bytes, as a handle that can be mapped many times."""
        prop = _allocation_prop(device)
        return self._made(_u64, "cuMemCreate", _size(size), _ref(prop), _u64(0))

    def map_memory(self, address: int, size: int, handle: int) -> None:
        """Map a handle's first `size` bytes at `address`."""
        self._call("cuMemMap", _u64(address), _size(size), _size(0), _u64(handle), _u64(0))

    def allow_access(self, address: int, size: int, device: int) -> None:
        """Let `device` read and write a mapped range."""
        description = _AccessDesc(_Location(1, device), 3)
        self._call("cuMemSetAccess", _u64(address), _size(size), _ref(description), _size(1))

    def unmap(self, address: int, size: int) -> None:
        """Undo `map_memory` for a whole range."""
        self._call("cuMemUnmap", ctypes.c_uint64(address), _size(size))

    def release_memory(self, handle: int) -> None:
        """Drop a handle; its memory goes when the last mapping goes."""
        self._call("cuMemRelease", ctypes.c_uint64(handle))

    def free_reservation(self, address: int, size: int) -> None:
        """Undo `reserve`."""
        self._call("cuMemAddressFree", ctypes.c_uint64(address), _size(size))


def _allocation_prop(device: int) -> _AllocationProp:
    return _AllocationProp(1, 0, _Location(1, device), None, (ctypes.c_uint8 * 8)())


def _field_addresses(params: KernelParams, layout: list[tuple[int, int]]) -> tuple[list[int], int]:
    """Address of each parameter's bytes, and the size of the packed buffer (0 when `kernelParams`
    is used).
    """
    if params.params:
        return [int(params.params[i] or 0) for i in range(len(layout))], 0
    if not params.extra:
        if layout:
            raise DriverError("cuGraphKernelNodeGetParams_v2 returned a kernel without parameters")
        return [], 0
    buffer, size, i = 0, 0, 0
    while params.extra[i]:  # (key, value) pairs up to CU_LAUNCH_PARAM_END
        value = int(params.extra[i + 1] or 0)
        if params.extra[i] == 1:
            buffer = value
        elif params.extra[i] == 2:
            size = _size.from_address(value).value
        i += 2
    if not buffer or not size:
        raise DriverError("cuGraphKernelNodeGetParams_v2 returned an unknown form of `extra`")
    return [buffer + offset for offset, _ in layout], size


@lru_cache(maxsize=1)
def load() -> Driver:
    """The process's driver. Raises DriverError when there is none or when it is older than CUDA
    12.4.
    """
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library, quick = ctypes.CDLL(name), ctypes.PyDLL(name)
    except OSError as error:
        raise DriverError(f"the CUDA driver library {name} could not be loaded: {error}") from None
    if not hasattr(library, "cuGraphGetEdges_v2"):
        raise DriverError("the CUDA driver is older than CUDA 12.4; install a newer driver")
    return Driver(library, quick)
