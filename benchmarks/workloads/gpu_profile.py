"""Where the GPU's time goes in a few calls: kernels, copies, idle."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.workloads import observe
from benchmarks.workloads.running import Running

_BUSY = {"kernel", "gpu_memcpy", "gpu_memset"}


def measure(live: Running, batches: list[Any], calls: int = 3) -> dict[str, Any]:
    """Per call: GPU busy milliseconds, kernels, and bytes copied, by direction.

    ``input_copy_bytes`` are inputs that CUDA graph trees copied to their fixed addresses, which
    they do with a kernel and not with a memcpy; ``copy_ms`` is the time of both.
    """
    live.reset()
    live.call(batches[0])
    torch.cuda.synchronize()
    with observe.recording() as record, profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for index in range(calls):
            live.call(batches[index % len(batches)])
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return summarise(events, calls) | {"input_copy_bytes": record.copied_bytes // calls}


def summarise(events: list[dict[str, Any]], calls: int) -> dict[str, Any]:
    """Figures for one call from the events of a Chrome trace of ``calls`` calls."""
    device = [event for event in events if event.get("cat") in _BUSY and "dur" in event]
    copies = [event for event in device if event["cat"] == "gpu_memcpy"]
    foreach = [event for event in device if _copies_inputs(event)]
    return {
        "busy_ms": _covered(device) / calls / 1e3,
        "kernels": sum(event["cat"] == "kernel" for event in device) / calls,
        "copy_ms": sum(event["dur"] for event in copies + foreach) / calls / 1e3,
        "device_to_device_bytes": _bytes(copies, "DtoD") / calls,
        "host_to_device_bytes": _bytes(copies, "HtoD") / calls,
        "device_to_host_bytes": _bytes(copies, "DtoH") / calls,
    }


def _copies_inputs(event: dict[str, Any]) -> bool:
    name = event.get("name", "")
    return event["cat"] == "kernel" and "multi_tensor_apply" in name and "Copy" in name


def _bytes(copies: list[dict[str, Any]], direction: str) -> int:
    return sum(
        event.get("args", {}).get("bytes", 0) for event in copies if direction in event["name"]
    )


def _covered(events: list[dict[str, Any]]) -> float:
    """Microseconds covered by at least one event."""
    total, end = 0.0, float("-inf")
    for event in sorted(events, key=lambda event: event["ts"]):
        start, stop = event["ts"], event["ts"] + event["dur"]
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
