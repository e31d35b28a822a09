"""An exception at any opcode of a capture, as Ctrl-C makes one: the next call is right, and nothing
is left of the one before.
"""

from __future__ import annotations

import gc
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pygraph_rt
from tests.runtime.test_partition import Machine

REGION = str(Path(pygraph_rt.__file__).parent / "region")
SHARDS = 4


class Interrupt(BaseException):
    """Ctrl-C."""


def can_be_interrupted(frame: FrameType) -> bool:
    """Whether a signal may be handled at an opcode: not on the line of a `with`, whose exit comes
    in one step with its last opcodes, nor where the compiler's own opcodes end a block.
    """
    if frame.f_lineno is None:
        return False
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return not (line.startswith("with ") and "lock" in line)


def interrupt(number: int, call: Callable[[], Any]) -> int:
    """Raise at one opcode of the package's region folder (counted from 1; 0: nowhere). How many
    there were.
    """
    count = 0

    def opcode(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "opcode" and can_be_interrupted(frame):
            count += 1
            if count == number:
                raise Interrupt
        return opcode

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(REGION):
            return None
        frame.f_trace_opcodes = True
        return opcode

    before = sys.gettrace()
    gc.disable()  # what it runs does not belong to the call
    sys.settrace(entered)
    try:
        call()
    except Interrupt:
        pass
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def capturing(machine: Machine) -> Callable[[], Any]:
    machine.call()
    args = [machine.aligned(), machine.state]
    return lambda: machine.partition(args)


def opcodes_of_a_capture() -> int:
    with pytest.MonkeyPatch.context() as patch:
        return interrupt(0, capturing(Machine(patch)))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_an_interrupt_at_any_opcode_of_a_capture(shard: int) -> None:
    total = opcodes_of_a_capture()
    assert total > 500
    for number in range(1 + shard, total + 1, SHARDS):
        with pytest.MonkeyPatch.context() as patch:
            machine = Machine(patch)
            assert interrupt(number, capturing(machine)) == number
            assert not machine.partition._life.lock.locked(), number
            machine.expected_state = machine.state.clone()
            for _ in range(4):
                machine.call()
            machine.partition.refresh()
            assert machine.region.served, (number, machine.region.state, machine.region.misses)
            machine.partition.close()
            machine.environment.disposal.drain()
            assert (machine.gpu.executables, machine.gpu.graphs) == ({}, {}), number
            opened = [entry[0] for entry in machine.gpu.log]
            assert opened.count("reserve") == opened.count("free"), number
