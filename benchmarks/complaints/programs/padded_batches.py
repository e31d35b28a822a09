"""Batches padded to their longest sequence record a CUDA graph each: training gets slower.

TRL's DPO training with padding per batch: "We have observed 9 distinct sizes", a step took 25 s
instead of 22 s. A language model of 512, 4 layers, batch 4, forward and backward, lengths from a
fixed trace between 64 and 512.

https://github.com/pytorch/pytorch/issues/188150
https://github.com/huggingface/parler-tts/issues/154
"""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, records, slower
from benchmarks.complaints.parts import Language


def start(compile: Compile, setup: Setup) -> Step:
    tokens, size, longest = setup.size(8192, 50), setup.size(512, 32), setup.size(512, 40)
    model = Language(tokens, size, 8, setup.size(4, 1)).to(setup.device)
    run = compile(model, dynamic=True)
    trace = random.Random(0)
    lengths = [trace.randint(longest // 8, longest) for _ in range(1000)]
    ids = torch.randint(0, tokens, (4, longest), generator=torch.Generator().manual_seed(0))
    ids = ids.to(setup.device)

    def step(number: int) -> list[torch.Tensor]:
        batch = ids[:, : lengths[number % 1000]].contiguous()
        model.zero_grad(set_to_none=True)
        with torch.autocast(setup.device, torch.bfloat16):
            logits = run(batch)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), batch[:, 1:].flatten())
        loss.backward()
        return [loss]

    return step


COMPLAINT = Complaint("shapes", start, (slower(), records(40)), tolerance=2e-2, calls=10)
