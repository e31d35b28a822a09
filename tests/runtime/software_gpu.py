"""A GPU made of CPU memory: captures, patches and launches really compute, so results can be
compared.

Kernels take addresses and work on whatever memory is there. Everything of the runtime above the
driver runs as it is, except for the few places that ask torch for CUDA itself, which `install`
replaces.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import struct
import threading
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from pygraph_rt.capture import address_words, checks, observe, placeholders, record, unknown_words
from pygraph_rt.cuda.structures import KernelNode, KernelParams
from pygraph_rt.inductor import torch_support
from pygraph_rt.memory import library_outputs
from pygraph_rt.memory import pool as allocator_pool
from pygraph_rt.plan.memory_blocks import extent
from pygraph_rt.region.limits import GraphMemory
from pygraph_rt.region.maker import GraphMaker
from pygraph_rt.replay import executable
from pygraph_rt.replay.disposal import Disposal
from pygraph_rt.replay.platform import Native, Platform
from pygraph_rt.rng import probe
from tests.runtime.fake_driver import FakeDriver

COUNT = 64
BYTES = 4 * COUNT


def floats(address: int) -> Any:
    """COUNT floats at an address."""
    return np.ctypeslib.as_array((ctypes.c_float * COUNT).from_address(address))


def _add(a: int, b: int, out: int) -> None:
    floats(out)[:] = floats(a) + floats(b)


def _halve(a: int, out: int) -> None:
    floats(out)[:] = floats(a) * np.float32(0.5)


def _draw(state: bytes, out: int) -> None:
    """COUNT numbers that depend on everything a kernel reads of a PhiloxCudaState."""
    seed, offset, in_graph, captured = struct.unpack(LAYOUTS[len(state)], state)
    assert not captured, "pointers to the generator's state are not followed here"
    assert in_graph == 0
    floats(out)[:] = np.random.default_rng((seed, offset)).random(COUNT, dtype=np.float32)


def _copy(a: int, out: int) -> None:
    floats(out)[:] = floats(a)


KERNELS: dict[str, Callable[..., None]] = {
    "add": _add,
    "halve": _halve,
    "draw": _draw,
    "copy": _copy,
}
DRAWN = 4
# PhiloxCudaState by its size: torch up to 2.12, and from 2.13 on.
LAYOUTS = {24: "<QQI?3x", 32: "<QQQ?7x"}

# What takes memory in compiled code, where a test says so (see conftest.py).
MEMORY_HELPER: Any = None
# What patches and launches in compiled code, where a test says so.
LAUNCH_HELPER: Any = None


class Generator:
    """torch's default generator, with where it keeps its state for captures: in one place for
    all, or (`new`, torch 2.13) in another for each capture.
    """

    def __init__(self) -> None:
        self.seed, self.offset, self.in_graph = (1 << 63) + 5, 0, 0
        self.new = False
        self.states = [torch.zeros(128, dtype=torch.int64)]

    def begin_capture(self) -> None:
        self.in_graph = 0
        if self.new:
            self.states.append(torch.zeros(128, dtype=torch.int64))

    def addresses(self) -> set[int]:
        """Every address of a seed or offset."""
        return {s[i].data_ptr() for s in self.states for i in (0, 64)}

    def initial_seed(self) -> int:
        return self.seed

    def get_offset(self) -> int:
        return self.offset

    def set_offset(self, offset: int) -> None:
        assert offset % 4 == 0
        self.offset = offset

    def captured(self) -> bytes:
        """A PhiloxCudaState under capture."""
        state = self.states[-1]
        self.in_graph += DRAWN
        return self._pack(state[0].data_ptr(), state[64].data_ptr(), self.in_graph - DRAWN, True)

    def immediate(self) -> bytes:
        """A PhiloxCudaState of the ordinary path."""
        self.offset += DRAWN
        return self._pack(self.seed, self.offset - DRAWN, 0, False)

    def _pack(self, *values: Any) -> bytes:
        return struct.pack(LAYOUTS[32 if self.new else 24], *values)


class _Capture(threading.local):
    """A thread's capture. Other threads' work goes on beside it, as in CUDA's thread-local mode."""

    recording: list[tuple[str, list[bytes]]] | None = None
    pool: Any = None


class SoftwareGpu(FakeDriver):
    """Driver, allocator and stream of a machine with one GPU of CPU memory."""

    def __init__(self) -> None:
        super().__init__()
        self._capture = _Capture()
        self.graphs: dict[int, list[int]] = {}
        self.graph_nodes: dict[int, tuple[str, list[bytes]]] = {}
        self.copied: dict[tuple[int, int], int] = {}
        self.executables: dict[int, list[int]] = {}
        self.memory: list[Any] = []
        self.segments: list[dict[str, Any]] = []
        self.given: list[tuple[int, int]] = []
        # Of a capture's pool: bytes of a segment, and of what is handed out of it.
        self.segment_bytes, self.block_bytes = 1 << 15, 512
        self.generator = Generator()
        self.stray_pointer: torch.Tensor | None = None

    @property
    def recording(self) -> list[tuple[str, list[bytes]]] | None:
        """What this thread has recorded; None while it captures nothing."""
        return self._capture.recording

    @property
    def pool(self) -> Pool | None:
        """Where this thread's capture takes memory from."""
        return self._capture.pool

    def generated(self, body: str, **names: Any) -> Any:
        """The function `partition_0` of a module of generated code that may call `names` too."""
        module = types.ModuleType("generated")
        module.__dict__.update(
            torch=torch, empty_strided_cuda=self.allocate, launch=self.launch_kernel, **names
        )
        file = names.get("__file__", "<generated>")
        exec(compile(body, file, "exec"), module.__dict__)
        return module.__dict__["partition_0"]

    # what generated code calls --------------------------------------------------------------

    def allocate(self, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        """`empty_strided_cuda`: from the pool while recording, else ordinary memory."""
        if self.recording is None or self.pool is None:
            nbytes = extent(size, stride, dtype.itemsize)
            room = torch.full((nbytes + 512,), 255, dtype=torch.uint8)
            self.memory.append(room)
            address = room.data_ptr() + (-room.data_ptr()) % 512
            return tensor_at(address, nbytes, size, stride, dtype, 0)
        return self.pool.take(size, stride, dtype)

    def launch_kernel(self, name: str, *tensors: torch.Tensor) -> None:
        """Record a kernel, or run it."""
        pointers = [t.data_ptr() for t in tensors]
        if self.recording is not None:
            self.recording.append((name, [p.to_bytes(8, "little") for p in pointers]))
        else:
            KERNELS[name](*pointers)

    def draw_random(self, out: torch.Tensor) -> None:
        """Record or run a kernel that draws random numbers."""
        if self.recording is not None:
            where = out.data_ptr().to_bytes(8, "little")
            self.recording.append(("draw", [self.generator.captured(), where]))
        else:
            _draw(self.generator.immediate(), out.data_ptr())

    # graphs ---------------------------------------------------------------------------------

    def record(self, run: Callable[[], Any], pool: Any) -> Graph:
        self.log.append(("capture",))
        recording: list[tuple[str, list[bytes]]] = []
        self._capture.recording, self._capture.pool = recording, pool
        self.generator.begin_capture()
        try:
            run()
            made = []
            for name, recorded in recording:
                node = self.handle()
                fields = list(recorded)
                if self.stray_pointer is not None:
                    fields.append(self.stray_pointer.data_ptr().to_bytes(8, "little"))
                self.graph_nodes[node] = (name, fields)
                self.sizes[node] = [len(f) for f in fields]
                made.append(node)
        finally:
            self._capture.recording = self._capture.pool = None
        graph = self.handle()
        self.graphs[graph] = made
        return Graph(self, graph)

    def nodes_of(self, graph: int) -> list[int]:
        return self.graphs[graph]

    def edges(self, graph: int) -> list[tuple[int, int, bytes]]:
        return [(a, b, b"\0" * 8) for a, b in itertools.pairwise(self.graphs[graph])]

    def node_type(self, node: int) -> int:
        return 0

    def kernel_node(self, node: int) -> KernelNode:
        name, fields = self.graph_nodes[node]
        sizes = [len(f) for f in fields]
        layout = tuple((sum(sizes[:i]), size) for i, size in enumerate(sizes))
        return KernelNode(name, (name, ()), bytes(KernelParams()), layout, 0, tuple(fields))

    def memory_kind(self, word: int) -> str | None:
        known = self.generator.addresses()
        if self.stray_pointer is not None:
            known.add(self.stray_pointer.data_ptr())
        return "device" if word in known else None

    def current_context(self) -> int:
        return 1

    def clone_graph(self, graph: int) -> int:
        clone = self.handle()
        self.graphs[clone] = []
        for node in self.graphs[graph]:
            copy = self.handle()
            self.graph_nodes[copy] = self.graph_nodes[node]
            self.sizes[copy] = self.sizes[node]
            self.copied[node, clone] = copy
            self.graphs[clone].append(copy)
        return clone

    def find_in_clone(self, node: int, clone: int) -> int:
        return self.copied[node, clone]

    def remove_node(self, node: int) -> None:
        for nodes in self.graphs.values():
            if node in nodes:
                nodes.remove(node)

    def set_node(self, kind: int, node: int, where: int) -> None:
        params = KernelParams.from_address(where)
        name, fields = self.graph_nodes[node]
        read = [ctypes.string_at(params.params[i], len(f)) for i, f in enumerate(fields)]
        self.graph_nodes[node] = (name, read)

    def instantiate(self, graph: int) -> int:
        executable = self.handle()
        self.executables[executable] = list(self.graphs[graph])
        self.nodes[executable] = {n: list(self.graph_nodes[n][1]) for n in self.graphs[graph]}
        return executable

    def launch(self, executable: int, stream: int) -> int:
        for node in self.executables[executable]:
            name, _ = self.graph_nodes[node]
            fields = self.nodes[executable][node]
            words = [int.from_bytes(f, "little") if len(f) == 8 else f for f in fields]
            KERNELS[name](*words[: KERNELS[name].__code__.co_argcount])
        return super().launch(executable, stream)

    def destroy_exec(self, executable: int) -> None:
        super().destroy_exec(executable)
        del self.executables[executable]

    def destroy_graph(self, graph: int) -> None:
        super().destroy_graph(graph)
        del self.graphs[graph]

    # addresses ------------------------------------------------------------------------------

    def allocation_granularity(self, device: int) -> int:
        return 4096

    def reserve(self, size: int, alignment: int) -> int:
        self.log.append(("reserve", size))
        room = torch.zeros(size + alignment, dtype=torch.uint8)
        self.memory.append(room)
        return room.data_ptr() + (-room.data_ptr()) % alignment


class Graph:
    """Stands in for torch.cuda.CUDAGraph."""

    def __init__(self, gpu: SoftwareGpu, handle: int) -> None:
        self._gpu, self._handle = gpu, handle

    def raw_cuda_graph(self) -> int:
        return self._handle

    def reset(self) -> None:
        self._gpu.graphs.pop(self._handle, None)


class Pool:
    """Stands in for torch.cuda.MemPool: segments, each one handed out from its start."""

    def __init__(self, gpu: SoftwareGpu, number: int) -> None:
        self.id = (0, number)
        self._gpu = gpu
        self._used = 0
        self._open()

    def _open(self) -> None:
        size = self._gpu.segment_bytes
        room = torch.zeros(size + 512, dtype=torch.uint8)
        self._gpu.memory.append(room)
        self._blocks = [{"size": size, "state": "inactive"}]
        self._base = room.data_ptr() + (-room.data_ptr()) % 512
        self._used = 0
        segment = {"address": self._base, "total_size": size, "segment_pool_id": self.id}
        self._gpu.segments.append({**segment, "blocks": self._blocks})

    def take(self, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        """Memory that counts as in use from now on."""
        needed = extent(size, stride, dtype.itemsize)
        block = self._gpu.block_bytes
        nbytes = block if needed <= block else needed + -needed % 512
        if self._used + nbytes > self._gpu.segment_bytes:
            self._open()
        address = self._base + self._used
        self._used += nbytes
        self._gpu.given.append((address, nbytes))
        free = self._gpu.segment_bytes - self._used
        last = {"size": free, "state": "inactive"}
        self._blocks[-1:] = [{"size": nbytes, "state": "active_allocated"}, last]
        return tensor_at(address, max(BYTES, needed), size, stride, dtype, 0)


def tensor_at(
    address: int, nbytes: int, size: Any, stride: Any, dtype: torch.dtype, device: int
) -> torch.Tensor:
    """A CPU tensor over memory at an address."""
    memory = (ctypes.c_char * nbytes).from_address(address)
    flat = torch.frombuffer(memory, dtype=dtype, count=nbytes // dtype.itemsize)
    return flat.as_strided(size, stride)


def install(patch: pytest.MonkeyPatch, gpu: SoftwareGpu) -> GraphMaker:
    """Replace what asks torch for CUDA, and return the environment for partitions on this GPU."""
    numbers = itertools.count(1)
    gpu.nodes_by_executable = gpu.nodes  # type: ignore[attr-defined]
    patch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    patch.setattr(torch.cuda, "MemPool", lambda: Pool(gpu, next(numbers)), raising=False)
    # Its memory is the process's, which may be just above a multiple of 4 GiB; there an address is
    # taken for a small number beside padding.
    for module in (address_words, placeholders, unknown_words):
        patch.setattr(module, "SMALL", 1 << 10)
    patch.setattr(allocator_pool, "snapshot", lambda: gpu.segments)
    patch.setattr(
        allocator_pool,
        "record_allocations",
        lambda device: contextlib.nullcontext(lambda: gpu.given),
    )
    patch.setattr(placeholders, "tensor_at", tensor_at)
    patch.setattr(checks, "check_allocator", lambda: None)
    patch.setattr(checks, "check_pool", lambda device: None)
    patch.setattr(
        checks,
        "check_inputs",
        lambda args, device, numbers=(): {
            i: a for i, a in enumerate(args) if isinstance(a, torch.Tensor) and i not in numbers
        },
    )
    patch.setattr(record, "capture_stream", lambda driver, device: None)
    patch.setattr(record, "capture_graph", lambda run, stream, pool, device: gpu.record(run, pool))
    patch.setattr(probe, "draw_into", gpu.draw_random)
    patch.setattr(library_outputs, "_copy", partial(gpu.launch_kernel, "copy"))
    patch.setattr(executable, "move_off_placeholders", lambda driver, nodes, device: None)
    learn = partial(observe.learn_outputs, device_type="cpu")
    patch.setattr(observe, "learn_outputs", learn)
    platform = Platform(
        capturing=lambda: False,
        device=lambda: 0,
        stream=lambda device: 7,
        generator=lambda device: gpu.generator,
        reinterpret=torch._C._dynamo.guards._reinterpret_tensor,
        state_of=lambda function: lambda: ("state",),
        native=Native(LAUNCH_HELPER, MEMORY_HELPER),
        guard_of=torch_support.guard_of(),
    )
    disposal = Disposal(gpu, lambda: False)  # type: ignore[arg-type]
    memory = GraphMemory(lambda device: 1 << 40)
    return GraphMaker(GraphDriver(gpu), platform, disposal, memory=memory)  # type: ignore[arg-type]


class GraphDriver:
    """The software GPU under the driver's own names (its `nodes` is a table, the driver's a
    call).
    """

    def __init__(self, gpu: SoftwareGpu) -> None:
        self._gpu = gpu

    def nodes(self, graph: int) -> list[int]:
        return self._gpu.nodes_of(graph)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gpu, name)
