"""Small models that several complaints are about."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn


def mlp(*sizes: int, act: type[nn.Module] = nn.ELU) -> nn.Sequential:
    """Linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for size, following in pairwise(sizes):
        layers += [nn.Linear(size, following), act()]
    return nn.Sequential(*layers[:-1])


class GatedMlp(nn.Module):
    """Llama's MLP with its norm and residual."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(size)
        self.gate, self.up = (nn.Linear(size, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, size) to the same."""
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Layer(nn.Module):
    """A transformer layer: attention and MLP, each with norm and residual."""

    def __init__(self, size: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = mlp(size, 4 * size, size, act=nn.GELU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, size) to the same."""
        parts = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.second(x))


class Language(nn.Module):
    """A decoder over tokens: embedding, layers, logits."""

    def __init__(self, tokens: int, size: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, size)
        self.layers = nn.ModuleList(Layer(size, heads, causal=True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, tokens, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """(batch, length) to logits (batch, length, tokens)."""
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class ConvBlock(nn.Module):
    """Two convolutions with group norm, and a residual."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(size, size, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.GroupNorm(8, size) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, size, height, width) to the same."""
        y = self.first(F.silu(self.norms[0](x)))
        return x + self.second(F.silu(self.norms[1](y)))


def drawn(
    seed: int, *shape: int, device: str, dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    """Eight normal tensors of a shape, the same in each mode."""
    source = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=source).to(device, dtype) for _ in range(8)]
