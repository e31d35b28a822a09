"""BERT as an early PyTorch port wrote it (TorchBench suite, BERT_pytorch): training at batch 16.

Stands for a transformer written without fused attention or ``nn.LayerNorm``: explicit softmax
attention, a layer norm from mean and standard deviation, tanh GELU, a mask repeated to (batch, 1,
length, length). Written anew from Devlin et al. (2018): 12 layers of width 768, 12 heads, 128
tokens, vocabulary 30522, heads for next sentence and masked words. Both losses are outside the
compiled model. Dropout of 0.1 stays in the graph but is made negligible.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload

_DROPOUT = 1e-30


class StdNorm(nn.Module):
    """Layer norm by the sample standard deviation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Keeps the shape (..., width)."""
        mean, std = hidden.mean(-1, keepdim=True), hidden.std(-1, keepdim=True)
        return self.weight * (hidden - mean) / (std + 1e-6) + self.bias


class Block(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_attention, self.norm_forward = StdNorm(width), StdNorm(width)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """``hidden`` (batch, length, width); ``mask`` (batch, 1, length, length), True where
        attended.
        """
        normed = self.norm_attention(hidden)
        query, key, value = (
            projection(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projection in self.projections
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(mask == 0, -1e9).softmax(dim=-1)
        mixed = F.dropout(scores, _DROPOUT, self.training) @ value
        mixed = self.out(mixed.transpose(1, 2).contiguous().flatten(2))
        hidden = hidden + F.dropout(mixed, _DROPOUT, self.training)
        inner = self.up(self.norm_forward(hidden))
        inner = (
            0.5 * inner * (1 + torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
        )
        return hidden + F.dropout(self.down(inner), _DROPOUT, self.training)


class BertPretraining(nn.Module):
    """Tokens and segments (batch, length) to log-probabilities of next sentence and of every
    token.
    """

    positions: torch.Tensor

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        self.segments = nn.Embedding(3, width, padding_idx=0)
        self.register_buffer("positions", _positions(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.next_sentence = nn.Linear(width, 2)
        self.masked_words = nn.Linear(width, vocabulary)

    def forward(
        self, tokens: torch.Tensor, segments: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns (batch, 2) and (batch, length, vocabulary)."""
        mask = (tokens > 0).unsqueeze(1).repeat(1, tokens.size(1), 1).unsqueeze(1)
        hidden = self.tokens(tokens) + self.positions[:, : tokens.size(1)] + self.segments(segments)
        hidden = F.dropout(hidden, _DROPOUT, self.training)
        for block in self.blocks:
            hidden = block(hidden, mask)
        return (
            F.log_softmax(self.next_sentence(hidden[:, 0]), dim=-1),
            F.log_softmax(self.masked_words(hidden), dim=-1),
        )


def _positions(length: int, width: int) -> torch.Tensor:
    """Sinusoidal positions (1, length, width)."""
    rates = torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).unsqueeze(0)


def _loss(
    outputs: tuple[torch.Tensor, torch.Tensor], target: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    sentence, words = outputs
    return F.nll_loss(sentence.float(), target[0]) + F.nll_loss(
        words.flatten(0, 1).float(), target[1].flatten()
    )


def _build(setting: Setting) -> Case:
    vocabulary, width, layers, heads = setting.pick((30522, 768, 12, 12), (100, 32, 2, 2))
    batch, length = setting.pick((16, 128), (2, 8))
    model = BertPretraining(vocabulary, width, layers, heads, length)
    model = model.to(device=setting.device, dtype=setting.dtype).train()

    def draw_batch(draw: Draw, index: int) -> Batch:
        tokens = draw.integers(1, vocabulary, batch, length)
        segments = draw.integers(1, 3, batch, length)
        target = (draw.integers(0, 2, batch), draw.integers(0, vocabulary, batch, length))
        return Batch(args=(tokens, segments), target=target)

    return Case(model, draw_batch, loss=_loss)


WORKLOADS = (
    Workload(
        name="bert_pytorch_training",
        suite="TB",
        batch=16,
        build=_build,
        training=True,
        precision="amp",
        traits=("large copies",),
    ),
)
