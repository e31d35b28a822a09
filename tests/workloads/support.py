"""Running a workload at smoke-test size on the CPU."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from benchmarks.workloads import running, variants
from benchmarks.workloads.base import Workload

CPU = torch.device("cpu")


def skip_without_packages(workload: Workload) -> None:
    """Skips, by name, a workload whose packages this machine lacks."""
    missing = [name for name in workload.packages if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{workload.name} needs {', '.join(missing)}")


def build(workload: Workload, variant: str) -> running.Running:
    """The workload under the variant, tiny."""
    skip_without_packages(workload)
    torch.set_num_threads(1)
    return running.build(workload, variants.named(variant), CPU, tiny=True)
