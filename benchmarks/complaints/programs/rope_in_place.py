"""An operator that writes to its arguments gets no CUDA graph.

flashinfer's `apply_rope_inplace`: "skipping cudagraphs due to mutated inputs (2 instances)".
Queries of 4 x 4 x 128, keys of 4 x 1 x 128 in bf16, turned in place.

https://github.com/flashinfer-ai/flashinfer/issues/403
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, skips
from benchmarks.complaints.parts import drawn


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Turn pairs of neighbours, in place."""
    even, odd = x[..., ::2].clone(), x[..., 1::2].clone()
    x[..., ::2] = even * cos - odd * sin
    x[..., 1::2] = odd * cos + even * sin


def rope(q: torch.Tensor, k: torch.Tensor, places: torch.Tensor) -> None:
    """Rotary embedding of queries and keys (length, heads, 128), in place."""
    rates = 1e4 ** (-torch.arange(0, 64, device=q.device) / 64.0)
    angles = places[:, None, None].float() * rates
    turn(q, angles.cos().to(q.dtype), angles.sin().to(q.dtype))
    turn(k, angles.cos().to(k.dtype), angles.sin().to(k.dtype))


def start(compile: Compile, setup: Setup) -> Step:
    queries = drawn(1, 4, 4, 128, device=setup.device, dtype=torch.bfloat16)
    keys = drawn(2, 4, 1, 128, device=setup.device, dtype=torch.bfloat16)
    places = torch.arange(1, 5, dtype=torch.int32, device=setup.device)
    run = compile(rope, fullgraph=True)

    def step(number: int) -> list[torch.Tensor]:
        q, k = queries[number % len(queries)].clone(), keys[number % len(keys)].clone()
        run(q, k, places)
        return [q, k]

    return step


COMPLAINT = Complaint("written inputs", start, (skips("mutated inputs"),), tolerance=2e-2)
