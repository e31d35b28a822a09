"""What a captured graph or its arguments may hold that makes a region keep the ordinary path, by
name.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pygraph_rt.capture import checks
from pygraph_rt.capture.nodes import read_graph
from pygraph_rt.cuda.structures import KernelNode, MemcpyParams, MemsetParams
from pygraph_rt.errors import DriverError, Unprovable
from pygraph_rt.plan.graph import Edge
from pygraph_rt.plan.memory_blocks import AddressMap
from pygraph_rt.region.variants import key_of
from pygraph_rt.rng.generator import check_untouched, offsets

DEVICE, HOST, UNIFIED = 2, 1, 4


class OneNode:
    """A driver whose graphs have one kind of node, two of them, the later one first."""

    def __init__(self, kind: int, params: Any = None, memory: str | None = "device") -> None:
        self.kind, self.params, self.memory = kind, params, memory

    def nodes(self, graph: int) -> list[int]:
        return [12, 11]

    def edges(self, graph: int) -> list[tuple[int, int, bytes]]:
        return [(11, 12, b"\7" * 8)]

    def node_type(self, node: int) -> int:
        return self.kind

    def kernel_node(self, node: int) -> Any:
        return self.params

    memcpy_node = memset_node = kernel_node

    def memory_kind(self, address: int) -> str | None:
        return self.memory


def copy(**changes: Any) -> MemcpyParams:
    params = MemcpyParams(src_type=DEVICE, dst_type=DEVICE, width=64, height=1, depth=1)
    params.src_device, params.dst_device = 0x1000, 0x2000
    for name, value in changes.items():
        setattr(params, name, value)
    return params


def read(driver: OneNode) -> Any:
    return read_graph(driver, 1, AddressMap([]))  # type: ignore[arg-type]


def window(nbytes: int) -> tuple[tuple[int, bytes], ...]:
    return ((1, b"\0" * 8 + nbytes.to_bytes(8, "little") + b"\0" * 48),)


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (OneNode(3), "host function node"),
        (OneNode(4), "child graph node"),
        (OneNode(6), "event wait node"),
        (OneNode(7), "event record node"),
        (OneNode(10), "memory allocation node"),
        (OneNode(11), "memory free node"),
        (OneNode(13), "conditional node"),
        (OneNode(99), "unknown node"),
        (OneNode(1, copy(src_type=HOST)), "host memory"),
        (OneNode(1, copy(dst_type=HOST)), "host memory"),
        (OneNode(1, copy(src_type=UNIFIED), memory="host"), "host memory"),
        (OneNode(1, copy(src_type=UNIFIED), memory=None), "host memory"),
        (OneNode(1, copy(height=2)), "two-dimensional"),
        (OneNode(1, copy(depth=2)), "two-dimensional"),
        (OneNode(2, MemsetParams(dst=1, height=2)), "two-dimensional"),
        (OneNode(0, KernelNode("_Z35ncclDevKernel_AllReduce", (), b"", (), 0, ())), "other ranks"),
        (OneNode(0, KernelNode("k", (window(4096),), b"", (), 0, ())), "L2 access window"),
    ],
)
def test_a_node_that_cannot_be_updated_is_refused_by_name(driver: OneNode, words: str) -> None:
    with pytest.raises(Unprovable, match=words):
        read(driver)


@pytest.mark.parametrize(
    ("driver", "kind", "fields"),
    [
        (OneNode(0, KernelNode("k", (window(0),), b"", (), 0, (b"abcd",))), "kernel", 1),
        (OneNode(1, copy()), "memory copy", 2),
        (OneNode(1, copy(src_type=UNIFIED)), "memory copy", 2),
        (OneNode(2, MemsetParams(dst=0x3000, width=8, height=1)), "memory set", 1),
        (OneNode(5), "empty", 0),
    ],
)
def test_other_nodes_are_read_with_their_edges(driver: OneNode, kind: str, fields: int) -> None:
    recorded = read(driver)
    node, _ = recorded.nodes
    assert (node.kind, len(node.fields)) == (kind, fields)
    assert [node.raw.handle for node in recorded.nodes] == [11, 12]
    assert recorded.edges == {Edge(0, 1, b"\7" * 8)}


class OnGpu(torch.Tensor):
    """A CPU tensor that says it lives on a GPU."""

    place = torch.device("cuda", 0)
    form = torch.strided

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.place

    @property
    def layout(self) -> torch.layout:  # type: ignore[override]
        return self.form


class OnSecondGpu(OnGpu):
    place = torch.device("cuda", 1)


class Sparse(OnGpu):
    form = torch.sparse_coo


def of(kind: type, *size: int) -> Any:
    return torch.zeros(size).as_subclass(kind)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([torch.ones(3)], r"argument 0 is a CPU tensor of shape \(3,\)"),
        ([1, of(OnSecondGpu, 2)], "GPUs 0 and 1"),
        ([of(OnGpu, 2), of(Sparse, 2)], "argument 1 is a sparse"),
        ([torch.Generator()], "argument 0 is a Generator"),
        (["text"], "argument 0 is a str"),
    ],
)
def test_an_argument_that_a_graph_cannot_take_is_refused_by_name(
    args: list[Any], words: str
) -> None:
    with pytest.raises(Unprovable, match=words):
        checks.check_inputs(args, 0)


class FromGpu(torch.Generator):
    """A generator that says it is a GPU's, and how far it has been drawn from."""

    device = torch.device("cuda", 0)  # type: ignore[assignment]
    drawn = 8

    def get_offset(self) -> int:
        return self.drawn


def test_a_generator_of_a_gpu_is_taken_until_something_is_drawn_from_it() -> None:
    generator = FromGpu()
    assert checks.check_inputs([generator], 0) == {}
    before = offsets([3, generator, torch.Generator()])
    assert before == [(generator, 8)]
    check_untouched(before)
    generator.drawn = 12
    with pytest.raises(Unprovable, match="draws random numbers again for activation checkpoint"):
        check_untouched(before)


def test_calls_with_other_generators_are_calls_of_other_kinds() -> None:
    one, other = FromGpu(), FromGpu()
    assert key_of([one, 2], None, ()) == key_of([one, 2], None, ())
    assert key_of([one, 2], None, ()) != key_of([other, 2], None, ())


def test_tensors_with_memory_are_the_inputs() -> None:
    full, empty = of(OnGpu, 2), of(OnGpu, 0)
    assert list(checks.check_inputs([full, 3, None, empty, 2.5, True], 0)) == [0]


@pytest.mark.parametrize("backend", ["cudaMallocAsync", "pluggable"])
def test_another_allocator_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
    with pytest.raises(Unprovable, match=f"the CUDA allocator is {backend}"):
        checks.check_allocator()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Unprovable("it waits"), "^it waits$"),
        (torch.OutOfMemoryError("CUDA out of memory"), "ran out of memory"),
        (DriverError("cuMemCreate failed with CUDA_ERROR_X"), "driver refused it .*CUDA_ERROR_X"),
        (RuntimeError("operation not permitted\nmore"), "RuntimeError: operation not permitted\\)"),
        (KeyError(), "KeyError"),
    ],
)
def test_every_failure_becomes_a_clause(error: Exception, words: str) -> None:
    import re

    assert re.search(words, checks.reason_of(error))
