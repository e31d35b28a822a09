"""reduce-overhead does not allow what a graph of one's own does: a kernel that works in place.

The thread compares `mode="reduce-overhead"` with capturing default mode's code by hand.
ResNet-18's stem and first blocks in half precision, batch 1, 224 x 224, on an image that the model
normalises in place.

https://github.com/pytorch/pytorch/issues/120733
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, skips
from benchmarks.complaints.parts import ConvBlock, drawn


class Network(nn.Module):
    """A stem and blocks, behind a normalisation in place."""

    def __init__(self, size: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, size, 7, stride=4, padding=3)
        self.blocks = nn.Sequential(*[ConvBlock(size) for _ in range(blocks)])
        self.head = nn.Linear(size, 1000)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """(batch, 3, height, width) to logits; writes to the image."""
        image.sub_(0.45).div_(0.225)
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


def start(compile: Compile, setup: Setup) -> Step:
    kind = torch.float16 if setup.device == "cuda" else torch.float32
    model = Network(64, setup.size(4, 1)).to(setup.device, kind).eval()
    run = compile(model)
    side = setup.size(224, 32)
    images = drawn(1, 1, 3, side, side, device=setup.device, dtype=kind)

    def step(number: int) -> list[torch.Tensor]:
        image = images[number % len(images)].clone()
        with torch.no_grad():
            return [run(image), image]

    return step


COMPLAINT = Complaint("written inputs", start, (skips("mutated inputs"),), tolerance=2e-2)
