"""Speech-Transformer (TorchBench suite, speech_transformer): inference at batch 1.

Stands for two habits that break graphs: scale factors computed with NumPy, which reach the compiler
as 0-dim CPU tensors, and masks filled in a Python loop whose slice bounds are tensor values (a
graph break each); the decoder also drops padding with a boolean index, whose result has a
data-dependent length. Written anew from Dong, Xu and Xu (ICASSP 2018): six encoder and six decoder
layers of width 512, 8 heads, inner width 2048, 320 input features (four stacked frames of 80),
vocabulary 4233. 256 frames and 24 target tokens per utterance; targets have no padding, so that
every call has the same shapes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload

_IGNORED, _START, _END = -1, 0, 1


class Attention(nn.Module):
    """Multi-head attention with residual and layer norm; masked positions are True."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.temperature = np.power(width // heads, 0.5)

    def forward(
        self, hidden: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """``hidden`` (batch, queries, width), ``memory`` (batch, keys, width), ``mask`` (batch,
        queries, keys).
        """
        query, key, value = (
            projection(source).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projection, source in (
                (self.query, hidden),
                (self.key, memory),
                (self.value, memory),
            )
        )
        scores = query @ key.transpose(-1, -2) / self.temperature
        scores = scores.masked_fill(mask[:, None], -torch.inf)
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        return self.norm(self.out(mixed) + hidden)


class FeedForward(nn.Module):
    """Position-wise network with residual and layer norm."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Keeps the shape."""
        return self.norm(self.down(F.relu(self.up(hidden))) + hidden)


def _positions(width: int) -> torch.Tensor:
    """Sinusoidal positions (5000, width)."""
    rates = torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
    angles = torch.arange(5000)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def non_pad_mask(frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """1 inside each utterance, 0 behind its end: (batch, frames, 1)."""
    mask = frames.new_ones(frames.shape[:-1])
    for row in range(frames.shape[0]):
        mask[row, lengths[row] :] = 0
    return mask.unsqueeze(-1)


def padding_mask(keep: torch.Tensor, queries: int) -> torch.Tensor:
    """From (batch, keys, 1) of ones and zeros to True where a key is padding: (batch, queries,
    keys).
    """
    return keep.squeeze(-1).lt(1).unsqueeze(1).expand(-1, queries, -1)


class Encoder(nn.Module):
    """Frames (batch, length, features) to memory (batch, length, width)."""

    positions: torch.Tensor

    def __init__(self, features: int, width: int, heads: int, inner: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.forward_nets = nn.ModuleList(FeedForward(width, inner) for _ in range(layers))
        self.register_buffer("positions", _positions(width), persistent=False)

    def forward(self, frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """See the class."""
        keep = non_pad_mask(frames, lengths)
        mask = padding_mask(keep, frames.shape[1])
        hidden = self.norm(self.embed(frames)) + self.positions[: frames.shape[1]]
        for attention, feed_forward in zip(self.attention, self.forward_nets, strict=True):
            hidden = attention(hidden, hidden, mask) * keep
            hidden = feed_forward(hidden) * keep
        return hidden


class Decoder(nn.Module):
    """Targets (batch, length) and memory to logits (batch, length + 1, vocabulary) and shifted
    targets.
    """

    positions: torch.Tensor

    def __init__(self, vocabulary: int, width: int, heads: int, inner: int, layers: int) -> None:
        super().__init__()
        self.scale = np.power(width, 0.5)
        self.tokens = nn.Embedding(vocabulary, width)
        self.self_attention = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.cross_attention = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.forward_nets = nn.ModuleList(FeedForward(width, inner) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("positions", _positions(width), persistent=False)

    def shifted(self, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Padding removed, start put before and end put after: decoder inputs and wanted
        outputs.
        """
        rows = [row[row != _IGNORED] for row in targets]
        start, end = rows[0].new_full((1,), _START), rows[0].new_full((1,), _END)
        inputs = [torch.cat([start, row]) for row in rows]
        wanted = [torch.cat([row, end]) for row in rows]
        return (
            nn.utils.rnn.pad_sequence(inputs, batch_first=True, padding_value=_END),
            nn.utils.rnn.pad_sequence(wanted, batch_first=True, padding_value=_IGNORED),
        )

    def forward(
        self, targets: torch.Tensor, memory: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        inputs, wanted = self.shifted(targets)
        length = inputs.shape[1]
        keep = inputs.ne(_END).to(memory.dtype).unsqueeze(-1)
        future = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
        self_mask = padding_mask(keep, length) | future
        cross_mask = padding_mask(non_pad_mask(memory, lengths), length)
        hidden = self.tokens(inputs) * self.scale + self.positions[:length]
        for self_attention, cross_attention, feed_forward in zip(
            self.self_attention, self.cross_attention, self.forward_nets, strict=True
        ):
            hidden = self_attention(hidden, hidden, self_mask) * keep
            hidden = cross_attention(hidden, memory, cross_mask) * keep
            hidden = feed_forward(hidden) * keep
        return self.head(hidden), wanted


class SpeechTransformer(nn.Module):
    """Encoder and decoder."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(
        self, frames: torch.Tensor, lengths: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``frames`` (batch, length, features), ``lengths`` (batch,), ``targets`` (batch, tokens)
        int64.
        """
        return self.decoder(targets, self.encoder(frames, lengths), lengths)


def _build(setting: Setting) -> Case:
    features, width, heads, inner, layers = setting.pick((320, 512, 8, 2048, 6), (8, 32, 2, 64, 2))
    vocabulary, frames, tokens = setting.pick((4233, 256, 24), (50, 12, 5))
    model = SpeechTransformer(
        Encoder(features, width, heads, inner, layers),
        Decoder(vocabulary, width, heads, inner, layers),
    )
    model = model.to(device=setting.device, dtype=setting.dtype).eval()

    def draw_batch(draw: Draw, index: int) -> Batch:
        lengths = torch.tensor([frames], device=setting.device)
        utterance = draw.normal(1, frames, features, dtype=setting.dtype)
        return Batch(args=(utterance, lengths, draw.integers(2, vocabulary, 1, tokens)))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="speech_transformer_inference",
        suite="TB",
        batch=1,
        build=_build,
        traits=("CPU scalars", "graph breaks"),
    ),
)
