"""A second pass over growing lengths is slower than the first, and takes more GPU memory.

Decoding with a cache that grows by one position a step, up to some length, again and again: each
length is recorded on its second visit. One attention of 8 heads of 64 over 1 to 192 positions.

https://github.com/pytorch/pytorch/issues/128424
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, records, slower
from benchmarks.complaints.parts import drawn


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One position's attention to all before it, and a little more work."""
    scores = (query @ keys.transpose(-1, -2)) / 8.0
    return F.gelu(scores.softmax(-1) @ values) + query


def start(compile: Compile, setup: Setup) -> Step:
    longest = setup.size(192, 10)
    run = compile(attend, dynamic=True)
    queries = drawn(1, 1, 8, 1, 64, device=setup.device)
    keys, values, *_ = drawn(2, 1, 8, longest, 64, device=setup.device)

    def step(number: int) -> torch.Tensor:
        length = 2 + number % (longest - 2)
        with torch.no_grad():
            return run(queries[number % len(queries)], keys[:, :, :length], values[:, :, :length])

    return step


SYMPTOMS = (slower(), records(100))
COMPLAINT = Complaint("shapes", start, SYMPTOMS, warm_up=400, calls=95)
