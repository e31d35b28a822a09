"""A text encoder that is called twice for one image fails under max-autotune and reduce-overhead.

SDXL's second text encoder is called for the prompt and for the negative prompt; then both
embeddings are used. Its width (1280, 20 heads, 77 tokens), 4 of its 32 layers.

https://github.com/huggingface/diffusers/issues/7420
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails
from benchmarks.complaints.parts import Language


def start(compile: Compile, setup: Setup) -> Step:
    tokens, size = setup.size(49408, 100), setup.size(1280, 80)
    model = Language(tokens, size, 20, setup.size(4, 1)).to(setup.device, torch.bfloat16)
    encoder = compile(lambda ids: model(ids)[:, -1])
    source = torch.Generator().manual_seed(0)
    prompts = torch.randint(0, tokens, (8, 1, 77), generator=source).to(setup.device)

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            embeddings = encoder(prompts[number % 8])
            negative = encoder(prompts[(number + 3) % 8])
            return torch.cat([negative, embeddings])

    return step


COMPLAINT = Complaint("outputs overwritten", start, (fails(OVERWRITTEN),), tolerance=3e-2)
