"""What a job does when one of its ranks fails."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as distributed

from benchmarks.distributed.cases import Case, build
from benchmarks.distributed.speed import MODES

LATE_S = 5.0
MARK = "fault at "


class Fault(RuntimeError):
    """What a rank raises that was told to."""


def run(case: Case, steps: int, device: torch.device, fault: str, mode: str) -> dict[str, Any]:
    """Steps, of which one fails on the last rank, at two thirds; the result, where there is one."""
    program = build(case, lambda m: torch.compile(m, **MODES[mode]), device)
    last = distributed.get_rank() == distributed.get_world_size() - 1
    started = time.perf_counter()
    loss = torch.zeros(())
    for number in range(steps):
        if last and number == 2 * steps // 3:
            fail(fault, device)
        loss = program.step(number)
    return {"loss": float(loss.float().sum()), "seconds": round(time.perf_counter() - started, 2)}


def fail(fault: str, device: torch.device) -> None:
    """Do what a fault is named for, and say when."""
    if fault == "none":
        return
    print(f"{MARK}{time.time()}", flush=True)
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "raising":
        raise Fault("a rank raises")
    if fault == "late":
        time.sleep(LATE_S)
    if fault == "out of memory":
        if device.type != "cuda":
            raise torch.OutOfMemoryError("a CPU is told to have no memory")
        torch.empty(1 << 50, device=device)
