"""FSDP2, block by block: gathered weights move, and CUDA graphs are recorded again.

With FSDP alone, 4 GPUs, Llama-3-like MLPs in bf16: 144 recordings after a change of the allocator,
about 2000 steps until they end. Here on one GPU: the next block's weights are gathered into new
memory before a block runs, and a block's are freed after it; other memory of the same size comes
and goes, as gradients and activations do. Sizes of Llama 3 8B's MLP, 4 blocks, 512 tokens.

https://github.com/pytorch/pytorch/issues/183451
"""

from __future__ import annotations

import random

import torch
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, records, slower
from benchmarks.complaints.parts import GatedMlp, drawn


def gather(block: nn.Module, shard: list[torch.Tensor]) -> None:
    """Give a block its weights, in new memory."""
    for parameter, part in zip(block.parameters(), shard, strict=True):
        parameter.data = part.clone()


def free(block: nn.Module) -> None:
    """Take a block's weights away."""
    for parameter in block.parameters():
        parameter.data = parameter.data.new_empty(0)


def start(compile: Compile, setup: Setup) -> Step:
    size, inner = setup.size(4096, 64), setup.size(14336, 128)
    blocks = [GatedMlp(size, inner).to(setup.device, torch.bfloat16) for _ in range(4)]
    shards = [[p.detach().clone() for p in block.parameters()] for block in blocks]
    run = [compile(block) for block in blocks]
    inputs = drawn(1, 1, setup.size(512, 8), size, device=setup.device, dtype=torch.bfloat16)
    source = random.Random(0)
    others: list[torch.Tensor] = []

    def step(number: int) -> torch.Tensor:
        x = inputs[number % len(inputs)]
        with torch.no_grad():
            gather(blocks[0], shards[0])
            for place, call in enumerate(run):
                if source.random() < 0.5:
                    others.append(torch.empty_like(shards[0][1]))
                if len(others) > 4:
                    del others[source.randrange(5)]
                if place + 1 < len(blocks):
                    gather(blocks[place + 1], shards[place + 1])
                x = call(x).clone()
                free(blocks[place])
        return x

    return step


COMPLAINT = Complaint("FSDP, block by block", start, (records(20), slower()), tolerance=2e-2)
