"""How long a device takes for a few calls."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch


def seconds_a_call(call: Callable[[], object], device: torch.device, calls: int) -> float:
    """Seconds per call, until the device has finished all of them."""
    wait(device)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait(device)
    return (time.perf_counter() - start) / calls


def wait(device: torch.device) -> None:
    """Wait for a GPU; nothing to do on the CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def spread(seconds: list[float]) -> float:
    """The distance between the quartiles."""
    quarters = statistics.quantiles(seconds, n=4)
    return quarters[2] - quarters[0]
