"""One denoising step of a diffusion transformer (today): DiT-B/2 on 32 x 32 latents, two images
with guidance.

Stands for image generation at a small batch: the network sees each latent twice, with and without
its class, and the update rule follows in the same compiled function. The schedule is a CPU vector,
as the schedulers of common libraries keep it, sent to the GPU and indexed by the time step on every
call. Written anew from Peebles and Xie (2022) and the deterministic update of Song, Meng and Ermon
(2020): 12 layers of width 768, 12 heads, patches of 2. Final layers are not zeroed, so that outputs
can be compared.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo.dalle2 import time_embedding

_FREQUENCIES = 256


def _modulate(hidden: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return hidden * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Block(nn.Module):
    """Attention and feed-forward, shifted, scaled and gated by the condition."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm_forward = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.packed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.condition = nn.Linear(width, 6 * width)

    def forward(self, hidden: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """``hidden`` (batch, patches, width), ``condition`` (batch, width)."""
        parts = self.condition(F.silu(condition)).chunk(6, dim=-1)
        normed = _modulate(self.norm_attention(hidden), parts[0], parts[1])
        packed = self.packed(normed).unflatten(-1, (3, self.heads, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        hidden = hidden + parts[2].unsqueeze(1) * self.out(mixed)
        normed = _modulate(self.norm_forward(hidden), parts[3], parts[4])
        inner = self.down(F.gelu(self.up(normed), approximate="tanh"))
        return hidden + parts[5].unsqueeze(1) * inner


class DiffusionTransformer(nn.Module):
    """Predicts the noise in latents (batch, 4, side, side)."""

    def __init__(self, side: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(4, width, 2, stride=2)
        self.positions = nn.Parameter(torch.randn((side // 2) ** 2, width) * 0.02)
        self.time = nn.Sequential(
            nn.Linear(_FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width)
        )
        self.classes = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.condition = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, 16)

    def forward(
        self, latents: torch.Tensor, times: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """``times`` and ``labels`` (batch,)."""
        hidden = self.patches(latents).flatten(2).transpose(1, 2) + self.positions
        moment = time_embedding(times, _FREQUENCIES).to(hidden.dtype)
        condition = self.time(moment) + self.classes(labels)
        for block in self.blocks:
            hidden = block(hidden, condition)
        shift, scale = self.condition(F.silu(condition)).chunk(2, dim=-1)
        patches = self.out(_modulate(self.norm(hidden), shift, scale))
        side = latents.shape[-1] // 2
        grid = patches.view(-1, side, side, 4, 2, 2).permute(0, 3, 1, 4, 2, 5)
        return grid.reshape(latents.shape)


class GuidedStep(nn.Module):
    """Classifier-free guidance and one deterministic update."""

    def __init__(self, network: DiffusionTransformer, classes: int, guidance: float) -> None:
        super().__init__()
        self.network = network
        self.no_class = classes
        self.guidance = guidance
        beta = torch.linspace(1e-4, 0.02, 1000, device="cpu")
        self.kept = torch.cumprod(1 - beta, dim=0)

    def forward(
        self, latents: torch.Tensor, times: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """Latents one step of 20 earlier; ``times`` (batch,) at least 20."""
        kept = self.kept.to(device=latents.device, dtype=latents.dtype)
        now = kept[times].view(-1, 1, 1, 1)
        earlier = kept[times - 20].view(-1, 1, 1, 1)
        both = torch.cat([labels, torch.full_like(labels, self.no_class)])
        noise = self.network(latents.repeat(2, 1, 1, 1), times.repeat(2), both)
        conditional, free = noise.chunk(2)
        noise = free + self.guidance * (conditional - free)
        clean = (latents - (1 - now).sqrt() * noise) / now.sqrt()
        return earlier.sqrt() * clean + (1 - earlier).sqrt() * noise


def _build(setting: Setting) -> Case:
    side, width, heads, layers, classes = setting.pick((32, 768, 12, 12, 1000), (8, 32, 2, 2, 10))
    with torch.device(setting.device):
        model = GuidedStep(DiffusionTransformer(side, width, heads, layers, classes), classes, 4.0)
    model = model.to(setting.dtype).eval()

    def draw_batch(draw: Draw, index: int) -> Batch:
        latents = draw.normal(2, 4, side, side, dtype=setting.dtype)
        return Batch(args=(latents, draw.integers(20, 500, 2), draw.integers(0, classes, 2)))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="diffusion_step",
        suite="today",
        batch=2,
        build=_build,
        traits=("CPU tensors",),
    ),
)
