"""With each resolution of a multi-scale training, CUDA graphs take a full set of activations.

RF-DETR's runner reserved 38.2 GiB for 6.3 GiB that were allocated, before its graphs shared a
pool. 6 convolution blocks of 64, batch 4, eight resolutions from 128 to 352, forward and backward.

https://github.com/roboflow/rf-detr/pull/1490
https://github.com/roboflow/rf-detr/pull/1468
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, holds_memory, records
from benchmarks.complaints.parts import ConvBlock


def start(compile: Compile, setup: Setup) -> Step:
    model = nn.Sequential(*[ConvBlock(64) for _ in range(setup.size(6, 1))]).to(setup.device)
    model.to(torch.bfloat16)
    run = compile(model, dynamic=True)
    sides = [setup.size(32, 4) * n for n in (4, 5, 6, 7, 8, 9, 10, 11)]
    source = torch.Generator().manual_seed(0)
    images = [
        torch.randn(4, 64, side, side, generator=source).to(setup.device, torch.bfloat16)
        for side in sides
    ]

    def step(number: int) -> list[torch.Tensor]:
        model.zero_grad(set_to_none=True)
        loss = run(images[number % 8]).float().square().mean()
        loss.backward()
        return [loss]

    return step


SYMPTOMS = (holds_memory(), records(16))
COMPLAINT = Complaint("memory", start, SYMPTOMS, warm_up=32, calls=8, check=8, tolerance=3e-2)
