"""A decoder of the shape of Speech2Text2ForCausalLM (Hugging Face suite): training at batch 256,
128 tokens.

Stands for a small decoder at a large batch: six post-norm layers of width 256, vocabulary 10000,
whose logits gradient is about 0.65 GB. transformers 5 no longer has Speech2Text2, so this is
written anew: learned token embeddings scaled by sqrt(width), sinusoidal positions, causal
self-attention, ReLU feed-forward of 2048, no cross-attention (the original has none either when it
runs without an encoder). The loss is outside the compiled model.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload

_DROPOUT = 1e-30


class _Layer(nn.Module):
    """Causal self-attention and feed-forward, each followed by a residual and a layer norm."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.norm_output = nn.LayerNorm(width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same shape."""
        batch, length, width = hidden.shape
        packed = self.query_key_value(hidden).view(batch, length, 3, self.heads, -1)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        hidden = self.norm_attention(hidden + F.dropout(mixed, _DROPOUT, self.training))
        inner = self.down(F.relu(self.up(hidden)))
        return self.norm_output(hidden + F.dropout(inner, _DROPOUT, self.training))


class Decoder(nn.Module):
    """Token ids (batch, length) to logits (batch, length, vocabulary)."""

    positions: torch.Tensor

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, inner: int) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(_Layer(width, heads, inner) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("positions", _sinusoids(1024, width), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 (batch, length) to logits."""
        hidden = self.tokens(tokens) * self.scale + self.positions[: tokens.shape[1]]
        hidden = F.dropout(hidden, _DROPOUT, self.training)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def _sinusoids(length: int, width: int) -> torch.Tensor:
    """Positions (length, width): sines in the first half of the channels, cosines in the second."""
    half = width // 2
    rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(length)[:, None] * rates[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _loss(outputs: Any, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(outputs.flatten(0, 1).float(), target.flatten())


def _build(setting: Setting) -> Case:
    vocabulary, width, layers, heads, inner = setting.pick(
        (10000, 256, 6, 4, 2048), (100, 32, 2, 2, 64)
    )
    model = Decoder(vocabulary, width, layers, heads, inner)
    model = model.to(device=setting.device, dtype=setting.dtype).train()
    shape = setting.pick((256, 128), (2, 8))

    def draw_batch(draw: Draw, index: int) -> Batch:
        tokens = draw.integers(0, vocabulary, *shape)
        return Batch(args=(tokens,), target=draw.integers(0, vocabulary, *shape))

    return Case(model, draw_batch, loss=_loss)


WORKLOADS = (
    Workload(
        name="speech2text2_training",
        suite="HF",
        batch=256,
        build=_build,
        training=True,
        precision="amp",
        traits=("large copies",),
    ),
)
