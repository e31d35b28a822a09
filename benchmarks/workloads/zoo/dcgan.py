"""DCGAN's discriminator (TorchBench suite, dcgan): training at batch 32.

Stands for a tiny convolutional network trained at a small batch, where host time dominates. Written
anew from Radford, Metz and Chintala (2015): five strided convolutions of 64 to 512 channels on 64 x
64 images, batch norm (its running statistics are mutated on every step) and leaky ReLU. As in the
original suite only the discriminator is run; the binary cross entropy is on logits and outside the
compiled model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload


def discriminator(channels: int) -> nn.Sequential:
    """Images (batch, 3, 64, 64) to one logit each (batch, 1, 1, 1)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, channels, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
    ]
    for factor in (1, 2, 4):
        layers += [
            nn.Conv2d(channels * factor, channels * factor * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(channels * factor * 2),
            nn.LeakyReLU(0.2, inplace=True),
        ]
    layers.append(nn.Conv2d(channels * 8, 1, 4, 1, 0, bias=False))
    return nn.Sequential(*layers)


def _loss(outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(outputs.flatten().float(), target)


def _build(setting: Setting) -> Case:
    model = discriminator(setting.pick(64, 4))
    model = model.to(device=setting.device, dtype=setting.dtype).train()
    batch = setting.pick(32, 2)

    def draw_batch(draw: Draw, index: int) -> Batch:
        images = draw.normal(batch, 3, 64, 64, dtype=setting.dtype)
        return Batch(args=(images,), target=draw.uniform(0.0, 1.0, batch))

    return Case(model, draw_batch, loss=_loss)


WORKLOADS = (
    Workload(
        name="dcgan_training",
        suite="TB",
        batch=32,
        build=_build,
        training=True,
        precision="amp",
        traits=("mutated buffers",),
    ),
)
