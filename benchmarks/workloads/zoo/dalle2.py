"""A DALL-E 2 in the manner of DALLE2_pytorch (TorchBench suite): text to image at batch 1.

Stands for a pipeline of several networks in one call: a text encoder, a diffusion prior that
predicts the image embedding, and two cascaded U-Nets (128 and 256 pixels); schedules are buffers
indexed by time on every step. It is the paper's example of a model that loses by parameter
indirection. Written anew from Ramesh et al. (2022) and smaller than any published weights: prior of
6 layers of width 512, U-Nets of base width 128 and 16, one denoising step each. The noise comes in
as an input instead of being drawn inside, so that variants can be compared.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload


def time_embedding(times: torch.Tensor, width: int) -> torch.Tensor:
    """Sinusoids (batch, width) of times (batch,), in float32."""
    half = width // 2
    rates = torch.exp(torch.arange(half, device=times.device) * -(math.log(10000) / (half - 1)))
    angles = times.float()[:, None] * rates[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Schedule(nn.Module):
    """Cosine noise schedule of 1000 steps; ``forward`` removes the noise of one step."""

    start_weight: torch.Tensor
    noisy_weight: torch.Tensor
    log_variance: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        steps = torch.linspace(0, 1, 1001)
        kept = torch.cos((steps + 0.008) / 1.008 * math.pi / 2) ** 2
        kept = (kept / kept[0])[1:].clamp(min=1e-4)
        before = torch.cat([torch.ones(1), kept[:-1]])
        beta = (1 - kept / before).clamp(0, 0.999)
        self.register_buffer("start_weight", beta * before.sqrt() / (1 - kept))
        self.register_buffer("noisy_weight", (1 - before) * (1 - beta).sqrt() / (1 - kept))
        self.register_buffer("log_variance", (beta * (1 - before) / (1 - kept)).clamp(1e-20).log())

    def forward(
        self, start: torch.Tensor, noisy: torch.Tensor, noise: torch.Tensor, times: torch.Tensor
    ) -> torch.Tensor:
        """The sample at the step before ``times`` (batch,); the others share one shape (batch,
        ...).
        """
        shape = (-1,) + (1,) * (noisy.dim() - 1)
        mean = self.start_weight[times].view(shape) * start
        mean = mean + self.noisy_weight[times].view(shape) * noisy
        spread = (0.5 * self.log_variance[times].view(shape)).exp()
        return mean + (times > 0).to(noisy.dtype).view(shape) * spread * noise


class Block(nn.Module):
    """Pre-norm transformer layer, causal or not."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm_attention, self.norm_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.packed = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Keeps the shape (batch, length, width)."""
        packed = self.packed(self.norm_attention(hidden)).unflatten(-1, (3, self.heads, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        hidden = hidden + self.out(mixed.transpose(1, 2).flatten(2))
        return hidden + self.down(F.gelu(self.up(self.norm_forward(hidden))))


class TextEncoder(nn.Module):
    """Tokens (batch, length) to encodings (batch, length, width) and an embedding (batch,
    width).
    """

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.01)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        encodings = self.norm(self.blocks(self.tokens(tokens) + self.positions))
        last = encodings[torch.arange(len(tokens), device=tokens.device), tokens.argmax(-1)]
        return encodings, F.normalize(last, dim=-1)


class Prior(nn.Module):
    """Predicts the clean image embedding (batch, width) from text and a noisy one."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(width))
        self.time = nn.Linear(width, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, width, bias=False)

    def forward(
        self,
        encodings: torch.Tensor,
        text: torch.Tensor,
        noisy: torch.Tensor,
        times: torch.Tensor,
    ) -> torch.Tensor:
        """``encodings`` (batch, length, width), ``text`` and ``noisy`` (batch, width), ``times``
        (batch,).
        """
        moment = self.time(time_embedding(times, text.shape[-1]).to(text.dtype))
        query = self.query.expand(len(text), -1)
        extra = torch.stack([text, moment, noisy, query], dim=1)
        return self.out(self.norm(self.blocks(torch.cat([encodings, extra], dim=1))[:, -1]))


class Residual(nn.Module):
    """Two convolutions with group norm, shifted and scaled by the condition."""

    def __init__(self, inputs: int, outputs: int, condition: int) -> None:
        super().__init__()
        groups = math.gcd(8, outputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm_first = nn.GroupNorm(groups, outputs)
        self.norm_second = nn.GroupNorm(groups, outputs)
        self.condition = nn.Linear(condition, 2 * outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, features: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Features (batch, inputs, height, width) and condition (batch, condition)."""
        scale, shift = self.condition(F.silu(condition))[..., None, None].chunk(2, dim=1)
        hidden = self.norm_first(self.first(features)) * (1 + scale) + shift
        hidden = F.silu(self.norm_second(self.second(F.silu(hidden))))
        return hidden + self.skip(features)


class UNet(nn.Module):
    """Predicts the clean image from a noisy one (and a smaller one beside it, where given)."""

    def __init__(
        self, base: int, factors: tuple[int, ...], embedding: int, images: int, heads: int
    ) -> None:
        super().__init__()
        widths = [base * factor for factor in factors]
        condition = 4 * base
        self.base = base
        self.time = nn.Sequential(nn.Linear(base, condition), nn.SiLU())
        self.image = nn.Linear(embedding, condition)
        self.enter = nn.Conv2d(3 * images, base, 7, padding=3)
        sources = [base, *widths[:-1]]
        self.down = nn.ModuleList(
            Residual(source, width, condition)
            for source, width in zip(sources, widths, strict=True)
        )
        self.shrink = nn.ModuleList(nn.Conv2d(w, w, 4, 2, 1) for w in widths)
        self.middle = Residual(widths[-1], widths[-1], condition)
        self.attention = Block(widths[-1], heads, causal=False)
        self.grow = nn.ModuleList(nn.Conv2d(w, w, 3, padding=1) for w in reversed(widths))
        self.up = nn.ModuleList(
            Residual(2 * width, source, condition)
            for source, width in zip(reversed(sources), reversed(widths), strict=True)
        )
        self.leave = nn.Conv2d(base, 3, 3, padding=1)

    def forward(
        self, images: torch.Tensor, embedding: torch.Tensor, times: torch.Tensor
    ) -> torch.Tensor:
        """``images`` (batch, 3 or 6, pixels, pixels), ``embedding`` (batch, width), ``times``
        (batch,).
        """
        moment = time_embedding(times, self.base).to(images.dtype)
        condition = self.time(moment) + self.image(embedding)
        hidden, kept = self.enter(images), []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            hidden = block(hidden, condition)
            kept.append(hidden)
            hidden = shrink(hidden)
        hidden = self.middle(hidden, condition)
        flat = self.attention(hidden.flatten(2).transpose(1, 2))
        hidden = flat.transpose(1, 2).unflatten(-1, hidden.shape[-2:])
        for block, grow, saved in zip(self.up, self.grow, reversed(kept), strict=True):
            hidden = grow(F.interpolate(hidden, scale_factor=2.0))
            hidden = block(torch.cat([hidden, saved], dim=1), condition)
        return self.leave(hidden)


class Dalle2(nn.Module):
    """Tokens and noise to an image (batch, 3, pixels, pixels)."""

    def __init__(
        self, text: TextEncoder, prior: Prior, small: UNet, large: UNet, pixels: int, width: int
    ) -> None:
        super().__init__()
        self.text, self.prior, self.small, self.large = text, prior, small, large
        self.prior_schedule, self.image_schedule = Schedule(), Schedule()
        self.pixels = pixels
        self.scale = math.sqrt(width)

    def forward(
        self, tokens: torch.Tensor, noise: torch.Tensor, pictures: tuple[torch.Tensor, torch.Tensor]
    ) -> torch.Tensor:
        """``noise`` (batch, width); ``pictures`` (batch, 3, p, p) at the small and the large
        size.
        """
        times = torch.full((len(tokens),), 999, device=tokens.device)
        encodings, text = self.text(tokens)
        clean = F.normalize(self.prior(encodings, text, noise, times), dim=-1) * self.scale
        image = self.prior_schedule(clean, noise, noise, times) / self.scale
        small = self.small(pictures[0], image, times).clamp(-1, 1)
        small = self.image_schedule(small, pictures[0], pictures[0], times)
        guide = F.interpolate(small, size=(self.pixels, self.pixels), mode="nearest")
        large = self.large(torch.cat([pictures[1], guide], dim=1), image, times).clamp(-1, 1)
        large = self.image_schedule(large, pictures[1], pictures[1], times)
        return (large + 1) * 0.5


def _build(setting: Setting) -> Case:
    width, heads, layers = setting.pick((512, 8, 6), (16, 2, 1))
    vocabulary, length, text_layers = setting.pick((49408, 77, 12), (50, 6, 1))
    pixels = setting.pick((128, 256), (16, 32))
    small_base, small_factors = setting.pick((128, (1, 2, 4, 8)), (8, (1, 2)))
    large_base, large_factors = setting.pick((16, (1, 2, 4, 8, 16)), (8, (1, 2)))
    with torch.device(setting.device):
        model = Dalle2(
            TextEncoder(vocabulary, length, width, heads, text_layers),
            Prior(width, heads, layers),
            UNet(small_base, small_factors, width, 1, heads),
            UNet(large_base, large_factors, width, 2, heads),
            pixels[1],
            width,
        )
    model = model.to(setting.dtype).eval()

    def draw_batch(draw: Draw, index: int) -> Batch:
        pictures = tuple(draw.normal(1, 3, p, p, dtype=setting.dtype) for p in pixels)
        noise = draw.normal(1, width, dtype=setting.dtype)
        return Batch(args=(draw.integers(0, vocabulary, 1, length), noise, pictures))

    return Case(model, draw_batch)


WORKLOADS = (Workload(name="dalle2_inference", suite="TB", batch=1, build=_build),)
