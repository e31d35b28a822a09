"""GPT-2-like and Llama-like language models of any size, with random weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    """A model's size. kind: "gpt2" (LayerNorm, GELU, learned positions) or "llama" (RMSNorm, gated
    MLP, rotary positions). inner: width of the MLP; 0: the kind's usual one. key_heads: of
    grouped-query attention; 0: as many as heads.
    """

    kind: str = "llama"
    hidden: int = 768
    layers: int = 12
    heads: int = 12
    vocabulary: int = 32000
    length: int = 1024
    inner: int = 0
    key_heads: int = 0

    @property
    def width(self) -> int:
        """Of the MLP."""
        usual = 4 * self.hidden if self.kind == "gpt2" else 8 * self.hidden // 3 // 8 * 8
        return self.inner or usual

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads


def rotation(shape: Shape) -> torch.Tensor:
    """Cosines and sines of rotary positions: (2, length, head)."""
    steps = torch.arange(0, shape.head, 2).float() / shape.head
    angles = torch.outer(torch.arange(shape.length).float(), 10000.0**-steps)
    angles = torch.cat([angles, angles], dim=-1)
    return torch.stack([angles.cos(), angles.sin()])


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Turn x (batch, heads, length, head) by `turns` (2, length, head)."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (x * turns[0] + turned * turns[1]).to(x.dtype)


class Attention(nn.Module):
    """Causal attention; a rank of tensor parallel has a part of the heads."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        keys = (shape.key_heads or shape.heads) * shape.head
        self.head, self.grouped = shape.head, bool(shape.key_heads)
        bias = shape.kind == "gpt2"
        self.query = nn.Linear(shape.hidden, shape.hidden, bias=bias)
        self.key = nn.Linear(shape.hidden, keys, bias=bias)
        self.value = nn.Linear(shape.hidden, keys, bias=bias)
        self.out = nn.Linear(shape.hidden, shape.hidden, bias=bias)

    def forward(
        self, x: torch.Tensor, turns: torch.Tensor | None, cache: Any = None, place: Any = None
    ) -> torch.Tensor:
        """x: (batch, length, hidden); cache: keys and values so far, each (batch, heads, most,
        head), written at `place`.
        """
        query, key, value = (
            y.unflatten(-1, (-1, self.head)).transpose(1, 2)
            for y in (self.query(x), self.key(x), self.value(x))
        )
        if turns is not None:
            query, key = rotate(query, turns), rotate(key, turns)
        mask = None
        if cache is not None:
            keys, values = cache
            keys.index_copy_(2, place, key)
            values.index_copy_(2, place, value)
            key, value = keys, values
            mask = (torch.arange(keys.shape[2], device=x.device) <= place)[None, None]
        found = F.scaled_dot_product_attention(
            query, key, value, mask, is_causal=cache is None, enable_gqa=self.grouped
        )
        return self.out(found.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """The other half of a block."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        bias = shape.kind == "gpt2"
        self.gate = None if bias else nn.Linear(shape.hidden, shape.width, bias=False)
        self.up = nn.Linear(shape.hidden, shape.width, bias=bias)
        self.down = nn.Linear(shape.width, shape.hidden, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.gate is None:
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """One layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        norm = nn.LayerNorm if shape.kind == "gpt2" else nn.RMSNorm
        self.attention_norm, self.mlp_norm = norm(shape.hidden), norm(shape.hidden)
        self.attention, self.mlp = Attention(shape), Mlp(shape)

    def forward(
        self, x: torch.Tensor, turns: torch.Tensor | None, cache: Any = None, place: Any = None
    ) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), turns, cache, place)
        return x + self.mlp(self.mlp_norm(x))


class Model(nn.Module):
    """A decoder. `first` and `last` say which ends a pipeline stage has; layers are its own."""

    def __init__(
        self, shape: Shape, layers: range | None = None, first: bool = True, last: bool = True
    ) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.hidden) if first else None
        places = first and shape.kind == "gpt2"
        self.places = nn.Embedding(shape.length, shape.hidden) if places else None
        numbers = range(shape.layers) if layers is None else layers
        self.blocks = nn.ModuleDict({str(n): Block(shape) for n in numbers})
        norm = nn.LayerNorm if shape.kind == "gpt2" else nn.RMSNorm
        self.norm = norm(shape.hidden) if last else None
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False) if last else None
        turns = rotation(shape) if shape.kind == "llama" else None
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, x: torch.Tensor, caches: Any = None, place: Any = None) -> torch.Tensor:
        """Tokens (batch, length), or a stage's input, to logits, or a stage's output. caches: each
        block's, with the `place` (one integer) of the one token.
        """
        where = place if place is not None else slice(x.shape[1])
        if self.embed is not None:
            found = self.embed(x)
            if self.places is not None:
                found = found + self.places.weight[where]
            x = found
        turns = None if self.turns is None else self.turns[:, where]
        for number, block in enumerate(self.blocks.values()):
            x = block(x, turns, None if caches is None else caches[number], place)
        return x if self.norm is None or self.head is None else self.head(self.norm(x))


def loss_of(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy."""
    return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten())
