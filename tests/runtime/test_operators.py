"""What a capture does so that parameters hold nothing of earlier calls."""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
import threading
import timeit
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._ops import HigherOrderOperator

from pygraph_rt.capture.operators import BYTE, Operators
from pygraph_rt.cuda import native

_PEEK = """
struct large { unsigned char bytes[16384]; };
int peek(void)
{
    volatile struct large unwritten;
    return unwritten.bytes[0];
}
"""


@pytest.fixture(scope="module")
def fill(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = native.fill_stack(tmp_path_factory.getbasetemp())
    if found is None:
        pytest.skip("no C compiler")
    return found


@pytest.mark.parametrize("byte", [BYTE, 0x17])
def test_what_a_function_leaves_unwritten_holds_the_byte(
    fill: Any, byte: int, tmp_path: Path
) -> None:
    source, library = tmp_path / "peek.c", tmp_path / "peek.so"
    source.write_text(_PEEK)
    compiler = shutil.which("cc") or "gcc"
    subprocess.run(
        [compiler, "-O0", "-w", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
    )
    peek = ctypes.CDLL(str(library)).peek
    fill(byte)
    assert peek() == byte


def test_a_large_process_fills_as_fast(fill: Any) -> None:
    """Where the main thread's stack ends is told by the table of all mappings: it is read once."""

    def seconds() -> float:
        return min(timeit.repeat(lambda: fill(BYTE), number=1, repeat=30))

    assert threading.current_thread() is threading.main_thread()
    before = seconds()
    kept = [
        mmap.mmap(-1, 4096, prot=mmap.PROT_READ | (i % 2 * mmap.PROT_WRITE)) for i in range(8000)
    ]
    try:
        assert seconds() < 10 * before
    finally:
        for each in kept:
            each.close()


def test_a_thread_with_a_small_stack_goes_on(fill: Any) -> None:
    filled: list[int] = []
    before = threading.stack_size(64 << 10)
    try:
        thread = threading.Thread(target=lambda: filled.append(fill(BYTE)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert filled == [0]
    assert fill(BYTE) > 0


def test_every_operator_is_called_on_a_filled_stack() -> None:
    calls: list[int] = []
    x = torch.ones(3)
    with Operators(calls.append):
        y = torch.mul(x, 2).add_(1)
        torch.ops.higher_order.print("{}", 1)
    torch.mul(x, 2)
    assert calls == [BYTE] * 3
    assert y.tolist() == [3, 3, 3]


def test_without_the_helper_operators_are_watched_all_the_same() -> None:
    watched = Operators(None)
    for _ in range(2):  # the two captures
        with watched:
            assert torch.ones(2).add(1).tolist() == [2, 2]
    assert not watched.may_keep_memory


@torch.library.custom_op("pygraph_tests::own", mutates_args=())
def own(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Kept(HigherOrderOperator):
    """One that runs an operator it is given."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)(lambda f, x: f(x))
        self.fallthrough(torch._C.DispatchKey.AutogradCPU)

    def __call__(self, *args: Any) -> Any:
        return super().__call__(*args)


runs = Kept("pygraph_tests_runs")


@pytest.mark.parametrize(
    ("call", "keeps"),
    [
        (lambda x: x.sum(), False),
        (lambda x: torch.ops.prims.sin.default(x), False),
        (lambda x: own(x), True),
        (lambda x: runs(torch.ops.aten.sin.default, x), False),
        (lambda x: runs(torch.ops.pygraph_tests.own.default, x), True),
        (lambda x: torch.ops.higher_order.print("{}", 1), True),  # what it does is not known
    ],
)
def test_operators_that_are_not_torchs_may_keep_memory(call: Any, keeps: bool) -> None:
    watched = Operators(None)
    with watched:
        call(torch.ones(3))
    assert watched.may_keep_memory is keeps


def test_an_operator_that_the_program_has_replaced_may_keep_memory() -> None:
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    try:
        library.impl("digamma.out", lambda x, *, out: out, "CUDA")
        x = torch.ones(3)
        for call, keeps in ((torch.digamma, False), (torch.ops.aten.digamma.out, True)):
            watched = Operators(None)
            with watched:
                call(x, **({"out": x.clone()} if keeps else {}))
            assert watched.may_keep_memory is keeps
    finally:
        library._destroy()
