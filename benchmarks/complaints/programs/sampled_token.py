"""A sampled token that is kept makes the next decoding step fail.

gpt-fast's mixtral example fails with "overwritten" unless its token is cloned; torchtune cloned
its own, and worries about the cost. A projection of 1024 to 32,000 logits, a sampled token that is
the next step's input, and a list of tokens.

https://github.com/meta-pytorch/gpt-fast/issues/232
https://github.com/meta-pytorch/torchtune/pull/1371
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails


class Sampler(nn.Module):
    """A token's embedding through an MLP to the next token, by noise that is given."""

    def __init__(self, size: int, tokens: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(tokens, size), nn.Linear(size, tokens, bias=False)
        self.inner = nn.Linear(size, size)

    def forward(self, token: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """(batch,) to (batch,)."""
        logits = self.head(torch.relu(self.inner(self.embed(token))))
        return torch.argmax(logits.softmax(-1) / noise, -1)


def start(compile: Compile, setup: Setup) -> Step:
    size, tokens = setup.size(1024, 32), setup.size(32000, 50)
    model = Sampler(size, tokens).to(setup.device)
    run = compile(model)
    source = torch.Generator().manual_seed(0)
    noise = torch.rand(8, 1, tokens, generator=source).clamp(0.01).to(setup.device)

    def step(number: int) -> torch.Tensor:
        token = torch.full((1,), number % tokens, device=setup.device)
        found = []
        with torch.no_grad():
            for turn in range(4):
                token = run(token, noise[(number + turn) % 8])
                found.append(token)
        return torch.stack(found)

    return step


COMPLAINT = Complaint("outputs overwritten", start, (fails(OVERWRITTEN),), tolerance=0.0)
