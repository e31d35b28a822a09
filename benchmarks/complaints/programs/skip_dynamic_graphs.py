"""Told not to make graphs of dynamic shapes, reduce-overhead makes one for each size all the same.

`cudagraph_skip_dynamic_graphs = True`, a median of n rows times a product of 64 x 64; n of 10, 13,
16, 19, 22 in turn. The switch is set for reduce-overhead alone.

https://github.com/pytorch/pytorch/issues/196385
"""

from __future__ import annotations

import torch
from torch._inductor import config

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, records


def weighted(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A number of the rows, times a matrix that does not depend on their count."""
    return torch.median(rows) * (weight @ weight).relu()


def start(compile: Compile, setup: Setup) -> Step:
    source = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 64, generator=source).to(setup.device)
    rows = [torch.randn(n, 64, generator=source).to(setup.device) for n in (10, 13, 16, 19, 22)]
    for value in rows:
        torch._dynamo.mark_dynamic(value, 0)
    run = compile(weighted, fullgraph=True)
    skipped = compile.mode == "reduce-overhead"

    def step(number: int) -> torch.Tensor:
        with config.patch({"triton.cudagraph_skip_dynamic_graphs": skipped}):
            return run(rows[number % 5], weight)

    return step


COMPLAINT = Complaint("shapes", start, (records(5),))
