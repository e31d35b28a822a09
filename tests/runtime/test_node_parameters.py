"""Node parameters as the driver lays them out: read in both forms, copied, written at any 4-byte
place.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt.cuda.driver import Driver, _field_addresses
from pygraph_rt.cuda.structures import KernelNode, KernelParams, MemcpyParams, MemsetParams, RawNode
from pygraph_rt.errors import DriverError
from pygraph_rt.plan.graph import Patch
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.replay.node_params import NodeTemplates
from pygraph_rt.replay.patch import Words


def pointers(*values: int) -> Any:
    return (ctypes.c_void_p * (len(values) + 1))(*values, None)


def test_parameters_are_found_in_kernel_params() -> None:
    buffers = [ctypes.create_string_buffer(8) for _ in range(2)]
    array = pointers(*(ctypes.addressof(b) for b in buffers))
    params = KernelParams(params=ctypes.cast(array, ctypes.POINTER(ctypes.c_void_p)))
    addresses, packed = _field_addresses(params, [(0, 8), (8, 8)])
    assert addresses == [ctypes.addressof(b) for b in buffers]
    assert packed == 0


def test_parameters_are_found_in_a_packed_buffer() -> None:
    buffer, size = ctypes.create_string_buffer(40), ctypes.c_size_t(40)
    array = pointers(1, ctypes.addressof(buffer), 2, ctypes.addressof(size))
    params = KernelParams(extra=ctypes.cast(array, ctypes.POINTER(ctypes.c_void_p)))
    addresses, packed = _field_addresses(params, [(0, 8), (12, 24)])
    assert addresses == [ctypes.addressof(buffer), ctypes.addressof(buffer) + 12]
    assert packed == 40


def test_a_form_of_parameters_nobody_knows_is_an_error() -> None:
    with pytest.raises(DriverError, match="without parameters"):
        _field_addresses(KernelParams(), [(0, 8)])
    array = pointers(7, 9)
    params = KernelParams(extra=ctypes.cast(array, ctypes.POINTER(ctypes.c_void_p)))
    with pytest.raises(DriverError, match="unknown form"):
        _field_addresses(params, [(0, 8)])
    assert _field_addresses(KernelParams(), []) == ([], 0)


def kernel(fields: list[bytes], packed: bool) -> KernelNode:
    layout, at = [], 0
    for field in fields:
        layout.append((at, len(field)))
        at += len(field) + (4 if packed else 0)
    return KernelNode(
        "k", (), bytes(KernelParams(func=77)), tuple(layout), packed and at, tuple(fields)
    )


class Catch:
    """Reads what an update is given, as the driver would."""

    exec_set_memcpy = exec_set_memset = None

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, KernelParams]] = []

    def exec_set_kernel(self, executable: int, node: int, where: int) -> int:
        self.seen.append((executable, node, KernelParams.from_address(where)))
        return 0


fields_of_a_kernel = st.lists(
    st.integers(2, 12).flatmap(lambda n: st.binary(min_size=4 * n, max_size=4 * n)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(fields_of_a_kernel, st.booleans()), min_size=1, max_size=4), st.data())
def test_an_update_carries_every_field_with_the_words_written(
    kernels: list[tuple[list[bytes], bool]], data: st.DataObject
) -> None:
    nodes = {i: RawNode(500 + i, kernel(f, p)) for i, (f, p) in enumerate(kernels)}
    templates = NodeTemplates(nodes, 0)
    patches, expected = [], {}
    for i, (fields, _) in enumerate(kernels):
        for j, field in enumerate(fields):
            place = 4 * data.draw(st.integers(0, len(field) // 4 - 2))
            patches.append(Patch(i, j, place, Block("pool", 0), i * 100 + j))
            word = (0x7F00_0000_1000 + i * 100 + j).to_bytes(8, "little")
            expected[i, j] = field[:place] + word + field[place + 8 :]
    Words(patches, templates).write(0x7F00_0000_1000)
    driver = Catch()
    for submit in templates.updates(driver, 9).values():  # type: ignore[arg-type]
        assert submit() == 0
    for i, (fields, packed) in enumerate(kernels):
        executable, handle, params = driver.seen[i]
        assert (executable, handle, params.func) == (9, 500 + i, 77)
        layout = list(nodes[i].params.layout)  # type: ignore[union-attr]
        addresses, size = _field_addresses(params, layout)
        assert bool(size) == packed
        for j, field in enumerate(fields):
            assert ctypes.string_at(addresses[j], len(field)) == expected[i, j]


def test_copies_and_memory_sets_are_written_in_their_structures() -> None:
    copy = MemcpyParams(src_device=1, dst_device=2, width=64, height=1, depth=1)
    fill = MemsetParams(dst=3, value=255, element_size=4, width=8, height=1)
    templates = NodeTemplates({4: RawNode(40, copy), 6: RawNode(60, fill)}, 1234)
    Words([Patch(4, 0, 0, Block("input", 0), 16)], templates).write(0x1000)
    Words([Patch(4, 1, 0, Block("output", 0), 0)], templates).write(0x2000)
    Words([Patch(6, 0, 0, Block("pool", 0), 512)], templates).write(0x3000)
    seen: list[tuple[Any, ...]] = []

    class Updates:
        exec_set_kernel = None

        @staticmethod
        def exec_set_memcpy(executable: int, node: int, where: int, context: int) -> int:
            seen.append((executable, node, MemcpyParams.from_address(where), context))
            return 0

        @staticmethod
        def exec_set_memset(executable: int, node: int, where: int, context: int) -> int:
            seen.append((executable, node, MemsetParams.from_address(where), context))
            return 0

    for submit in templates.updates(Updates, 9).values():  # type: ignore[arg-type]
        assert submit() == 0
    (_, node, moved, context), (_, other, filled, _) = seen
    assert (node, other, context) == (40, 60, 1234)
    assert (moved.src_device, moved.dst_device, moved.width) == (0x1010, 0x2000, 64)
    assert (filled.dst, filled.value, filled.width) == (0x3200, 255, 8)
    assert (copy.src_device, fill.dst) == (1, 3)


class Library:
    """Just enough of libcuda to construct a Driver on, with one failing call."""

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            return 719 if name == "cuGraphInstantiateWithFlags" else 1

        return call


def test_a_failing_call_is_named_with_the_drivers_error() -> None:
    driver = Driver(Library())
    with pytest.raises(DriverError, match="cuGraphInstantiateWithFlags failed with error 719"):
        driver.instantiate(1)


def test_a_driver_that_is_gone_is_no_error_when_freeing() -> None:
    class Gone(Library):
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: 4

    driver = Driver(Gone())
    driver.destroy_exec(1)
    driver.destroy_graph(1)
