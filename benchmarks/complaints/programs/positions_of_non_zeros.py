"""Why a graph was left out is found in no report.

`nonzero` has a size that depends on values: torch skips the CUDA graph, and says so only to those
who ask for that log. 16 numbers, as in the thread.

https://github.com/pytorch/pytorch/issues/149944
"""

from __future__ import annotations

import torch
from torch._dynamo import config

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, skips, untold
from benchmarks.complaints.parts import drawn


def start(compile: Compile, setup: Setup) -> Step:
    inputs = [value.relu() for value in drawn(1, 16, device=setup.device)]
    run = compile(lambda x: (x * 2).nonzero())

    def step(number: int) -> torch.Tensor:
        with config.patch(capture_dynamic_output_shape_ops=True):
            return run(inputs[number % len(inputs)])

    return step


COMPLAINT = Complaint("reports", start, (untold(), skips(".")))
