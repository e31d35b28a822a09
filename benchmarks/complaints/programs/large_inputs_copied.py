"""Most of a call goes into copies from new inputs to those of the graph.

"I noticed that when enabling CUDA graphs in Inductor, most of the CPU time was spent issuing
copies." Here 64 inputs of 4 MiB, new ones on each step, of which a weighted sum is made.

https://github.com/pytorch/pytorch/pull/123162
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, slower


def combined(parts: list[torch.Tensor]) -> torch.Tensor:
    """A weighted sum."""
    total = parts[0] * 0.5
    for number, part in enumerate(parts[1:]):
        total = total + part * (1.0 / (number + 2))
    return total


def start(compile: Compile, setup: Setup) -> Step:
    count, size = setup.size(64, 4), setup.size(1 << 20, 64)
    source = torch.Generator().manual_seed(0)
    sets = [
        [torch.randn(size, generator=source).to(setup.device) for _ in range(count)]
        for _ in range(2)
    ]
    run = compile(combined)

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            return run(list(sets[number % 2]))

    return step


COMPLAINT = Complaint("copies and overhead", start, (slower(),))
