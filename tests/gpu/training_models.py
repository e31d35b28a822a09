"""Ten small models of three kinds for the training tests: transformers with dropout, convolutional
networks with batch norm, recommenders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from tests.gpu.support import DEVICE

Batch = tuple[torch.Tensor, ...]


class Case(NamedTuple):
    """A model, what makes a batch for it, and the dtype of autocast (None: without)."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    autocast: torch.dtype | None = None


class Block(nn.Module):
    """A transformer block with dropout after attention and after the feed-forward part, and in
    attention when `inside`.
    """

    def __init__(self, width: int, causal: bool, inside: float, explicit: bool) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.causal, self.inside, self.explicit = causal, inside, explicit

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        rate = self.inside if self.training else 0.0
        if not self.explicit:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=self.causal)
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        return F.dropout(scores.softmax(-1), rate, self.training) @ v

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.qkv(self.first(x)).view(rows, length, 3, 4, width // 4)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = self.attend(q, k, v).transpose(1, 2).reshape(rows, length, width)
        x = x + F.dropout(self.out(mixed), 0.1, self.training)
        fed = self.down(F.gelu(self.up(self.second(x))))
        return x + F.dropout(fed, 0.1, self.training)


class Transformer(nn.Module):
    """Two blocks between an embedding and a head; `tied`: both have the same weight."""

    def __init__(
        self,
        width: int = 128,
        causal: bool = False,
        inside: float = 0.1,
        explicit: bool = False,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, width)
        self.blocks = nn.Sequential(*(Block(width, causal, inside, explicit) for _ in range(2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 100, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.embed(tokens), 0.1, self.training)
        return self.head(self.norm(self.blocks(x)))


class Convolutions(nn.Module):
    """Strided convolutions, each with a batch norm; residual and depthwise when `deep`."""

    def __init__(self, deep: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16)
        self.wide = nn.Conv2d(16, 16, 3, 1, 1, groups=16 if deep else 1)
        self.second = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)
        self.deep, self.dropout = deep, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.stem(x)))
        y = F.relu(self.second(self.wide(x)))
        x = x + y if self.deep else y
        return self.head(F.dropout(x.mean((2, 3)), self.dropout, self.training))


class UNet(nn.Module):
    """Down, up, and a connection across."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.down, self.up = nn.Conv2d(8, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(16, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.norm(self.first(x)))
        y = F.dropout2d(self.up(F.silu(self.down(x))), 0.1, self.training)
        return self.last(torch.cat([x, y], 1))


class Recommender(nn.Module):
    """Embeddings and numbers, concatenated; batch norm when `norm`."""

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(1000, 16), nn.Embedding(500, 16)
        self.deep = nn.Linear(40, 32)
        self.norm = nn.BatchNorm1d(32) if norm else nn.Identity()
        self.out = nn.Linear(32, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.users(user), self.items(item), dense], 1)
        return self.out(F.dropout(F.relu(self.norm(self.deep(x))), 0.2, self.training))


class Factors(nn.Module):
    """The product of two embeddings, and their biases."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(1000, 32), nn.Embedding(500, 32)
        self.bias = nn.Embedding(500, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        product = (F.dropout(self.users(user), 0.1, self.training) * self.items(item)).sum(1)
        return product[:, None] + self.bias(item) + dense.mean(1, keepdim=True)


def tokens() -> Batch:
    return (torch.randint(0, 100, (4, 64), device=DEVICE),)


def images() -> Batch:
    return (torch.randn(8, 3, 32, 32, device=DEVICE),)


def visits() -> Batch:
    return (
        torch.randint(0, 1000, (64,), device=DEVICE),
        torch.randint(0, 500, (64,), device=DEVICE),
        torch.randn(64, 8, device=DEVICE),
    )


CASES = {
    "transformer": Case(Transformer, tokens),
    "transformer-bf16": Case(lambda: Transformer(causal=True), tokens, torch.bfloat16),
    "transformer-tied": Case(lambda: Transformer(inside=0.0, tied=True), tokens),
    "transformer-explicit": Case(lambda: Transformer(explicit=True), tokens, torch.float16),
    "convolutions": Case(Convolutions, images),
    "convolutions-deep": Case(lambda: Convolutions(True, 0.2), images),
    "u-net": Case(UNet, images, torch.bfloat16),
    "recommender": Case(Recommender, visits),
    "recommender-batch-norm": Case(lambda: Recommender(True), visits),
    "factors": Case(Factors, visits),
}
