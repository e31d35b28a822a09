"""What a capture does so that parameters hold nothing of earlier calls."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from pygraph_rt.capture.stack import BYTE, filled_stack
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
    with filled_stack(calls.append):
        y = torch.mul(x, 2).add_(1)
        torch.ops.higher_order.print("{}", 1)
    torch.mul(x, 2)
    assert calls == [BYTE] * 3
    assert y.tolist() == [3, 3, 3]


def test_without_the_helper_nothing_changes() -> None:
    with filled_stack(None):
        assert torch.ones(2).add(1).tolist() == [2, 2]
