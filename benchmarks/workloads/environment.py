"""What a measurement ran on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from typing import Any

import torch

from benchmarks import slices

_PACKAGES = ("torch", "triton", "transformers", "timm", "torchvision", "numpy")


def describe(device: torch.device) -> dict[str, Any]:
    """Device, driver, versions, and the commit that was measured."""
    found: dict[str, Any] = {
        "commit": slices.commit(),
        "python": platform.python_version(),
        "cpu_count": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }
    if device.type == "cuda":
        found["device"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
        found["driver"] = _query("driver_version")
    else:
        found["device"] = platform.machine()
    return found


def clocks(device: torch.device) -> str | None:
    """SM clock, memory clock, temperature and power as ``nvidia-smi`` prints them, where it
    exists.
    """
    if device.type != "cuda":
        return None
    return _query("clocks.sm,clocks.mem,temperature.gpu,power.draw")


def _query(fields: str) -> str | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, f"--query-gpu={fields}", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return answer.stdout.strip().splitlines()[0] if answer.stdout.strip() else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
