"""A model whose transformer blocks are compiled one by one fails under reduce-overhead.

"I think for now I'll just advise users against using cudagraph when compiling individual
transformer blocks": each block's output is the next one's input, and is taken for overwritten. 8
blocks of 1152, as a DiT-XL's, 256 tokens.

https://github.com/pytorch/pytorch/issues/152887
https://github.com/pytorch/pytorch/issues/150706
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails
from benchmarks.complaints.parts import Layer, drawn


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(1152, 64)
    blocks = [Layer(size, 16).to(setup.device, torch.bfloat16) for _ in range(8)]
    run = [compile(block) for block in blocks]
    inputs = drawn(1, 2, setup.size(256, 8), size, device=setup.device, dtype=torch.bfloat16)

    def step(number: int) -> torch.Tensor:
        x = inputs[number % len(inputs)]
        with torch.no_grad():
            for block in run:
                x = block(x)
        return x

    return step


COMPLAINT = Complaint("block by block", start, (fails(OVERWRITTEN),), tolerance=4e-2)
