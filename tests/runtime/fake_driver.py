"""A driver that keeps books instead of talking to a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from pygraph_rt.cuda.structures import KernelParams
from pygraph_rt.errors import DriverError


class FakeDriver:
    """Executable graphs hold the bytes of each node's parameters; launches note what they would run
    with.
    """

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.nodes: dict[int, dict[int, list[bytes]]] = {}
        self.sizes: dict[int, list[int]] = {}
        self.launches: list[tuple[int, int, dict[int, list[bytes]]]] = []
        self.submitted: list[int] = []
        self.fail: Callable[[str], int] = lambda call: 0
        self._next = 100
        self._callbacks: tuple[Any, ...] = ()

    def handle(self) -> int:
        self._next += 1
        return self._next

    def describe(self, code: int) -> str:
        return f"FAKE_ERROR_{code}"

    # replay ------------------------------------------------------------------------------------

    def exec_set_kernel(self, executable: int, node: int, where: int) -> int:
        code = self.fail("set")
        if code:
            return code
        params = KernelParams.from_address(where)
        fields = [
            ctypes.string_at(params.params[i], size) for i, size in enumerate(self.sizes[node])
        ]
        self.nodes.setdefault(executable, {})[node] = fields
        self.submitted.append(node)
        return 0

    def entry_points(self) -> tuple[int, int, int, int]:
        """The calls above and below, for compiled code."""
        three = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)
        four = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        two = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)
        self._callbacks = self._callbacks or (
            three(lambda e, n, w: self.exec_set_kernel(e or 0, n or 0, w)),
            four(lambda e, n, w, c: self.exec_set_memcpy(e or 0, n or 0, w, c or 0)),
            four(lambda e, n, w, c: self.exec_set_memset(e or 0, n or 0, w, c or 0)),
            two(lambda e, s: self.launch(e or 0, s or 0)),
        )
        kernel, copy, fill, launch = (
            int(ctypes.cast(c, ctypes.c_void_p).value or 0) for c in self._callbacks
        )
        return kernel, copy, fill, launch

    def exec_set_memcpy(self, *_: int) -> int:
        return 1

    def exec_set_memset(self, *_: int) -> int:
        return 1

    def launch(self, executable: int, stream: int) -> int:
        code = self.fail("launch")
        if code:
            return code
        state = {n: list(f) for n, f in self.nodes.get(executable, {}).items()}
        self.launches.append((executable, stream, state))
        return 0

    def set_node(self, kind: int, node: int, where: int) -> None:
        """Graph nodes are kept under executable 0: what the next instantiation begins with."""
        params = KernelParams.from_address(where)
        self.nodes.setdefault(0, {})[node] = [
            ctypes.string_at(params.params[i], size) for i, size in enumerate(self.sizes[node])
        ]

    def instantiate(self, graph: int) -> int:
        if self.fail("instantiate"):
            raise DriverError("cuGraphInstantiateWithFlags failed with FAKE_ERROR")
        executable = self.handle()
        self.nodes[executable] = {n: list(f) for n, f in self.nodes.get(0, {}).items()}
        self.log.append(("instantiate", executable))
        return executable

    def destroy_exec(self, executable: int) -> None:
        self.log.append(("destroy_exec", executable))

    def destroy_graph(self, graph: int) -> None:
        self.log.append(("destroy_graph", graph))

    def wait_for(self, stream: int) -> bool:
        self.log.append(("wait", stream))
        return True

    # addresses ---------------------------------------------------------------------------------

    def allocation_granularity(self, device: int) -> int:
        return 2 << 20

    def create_memory(self, size: int, device: int) -> int:
        self.log.append(("create", size))
        return self.handle()

    def reserve(self, size: int, alignment: int) -> int:
        if self.fail("reserve"):
            raise DriverError("cuMemAddressReserve failed with FAKE_ERROR")
        self.log.append(("reserve", size))
        return 0x7F00_0000_0000

    def map_memory(self, address: int, size: int, handle: int) -> None:
        if self.fail("map"):
            raise DriverError("cuMemMap failed with FAKE_ERROR")
        self.log.append(("map", address, size))

    def allow_access(self, address: int, size: int, device: int) -> None:
        self.log.append(("access", address, size))

    def unmap(self, address: int, size: int) -> None:
        self.log.append(("unmap", address, size))

    def release_memory(self, handle: int) -> None:
        self.log.append(("release",))

    def free_reservation(self, address: int, size: int) -> None:
        self.log.append(("free", size))
