"""Lengths that never come again are recorded for ever, and nothing says so.

"If you range from 1-10000, that is far too many CUDA graphs." A layer of 256 on a batch of 2, a
new length on each step, from 1 to 2000.

https://github.com/pytorch/pytorch/issues/119640
https://github.com/pytorch/pytorch/pull/131387
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, records, slower
from benchmarks.complaints.parts import Layer, drawn


def start(compile: Compile, setup: Setup) -> Step:
    size, longest = setup.size(256, 16), setup.size(2000, 60)
    layer = Layer(size, 4).to(setup.device, torch.bfloat16)
    run = compile(layer, dynamic=True)
    (whole, *_) = drawn(1, 2, longest, size, device=setup.device, dtype=torch.bfloat16)

    def step(number: int) -> torch.Tensor:
        length = 2 + (number * 617) % (longest - 2)
        with torch.no_grad():
            return run(whole[:, :length].contiguous()).sum(1)

    return step


COMPLAINT = Complaint("shapes", start, (slower(), records(50)), tolerance=3e-2)
