"""Small models whose generated code is compared: 12 without CPU values, 8 with them.

Each is a function of the device; CPU values are made on the CPU by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Arguments = tuple[Any, ...]
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Model:
    """A module and its arguments, made on a device. cpu_values: the graph reads or makes tensors
    on the CPU.
    """

    name: str
    module: Callable[[], nn.Module]
    arguments: Callable[[torch.device], Arguments]
    train: bool = False
    dynamic: bool | None = None
    cpu_values: bool = False


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, inputs)
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.silu(self.norm(x))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 16, 3, padding=1)
        self.down, self.middle = Block(16, 32), Block(32, 32)
        self.up, self.leave = Block(48, 16), nn.Conv2d(16, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.enter(x)
        low = self.middle(self.down(F.avg_pool2d(first, 2)))
        both = torch.cat([F.interpolate(low, scale_factor=2.0), first], 1)
        return self.leave(self.up(both))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.first(x))), 3, 2, 1)
        x = F.relu(x + self.bn2(self.second(x)))
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Written out, so that it takes the same form on every device."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        scores = (q @ k.transpose(-1, -2)) / (width // 4) ** 0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        weights = F.dropout(weights, self.dropout, self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Transformer(nn.Module):
    def __init__(self, dropout: float = 0.0, words: int = 100, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, dropout)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = dropout

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        x = x + self.attention(self.norm1(x))
        inner = F.gelu(self.up(self.norm2(x)))
        return x + self.down(F.dropout(inner, self.dropout, self.training))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(self.norm(x))))


class Scatter(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        added = torch.zeros(20, 32, device=x.device).index_add(0, index, x)
        most = added.scatter_reduce(0, index[:, None].expand(-1, 32), x, "amax")
        return added[index] * 2, most.gather(1, index[:20, None] % 32)


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 1000)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        scores = self.head(x)
        return F.cross_entropy(scores, target) + x.var() + x.flatten().norm()


class Buffers(nn.Module):
    """Writes to its buffers: a running mean, and a cache at a position."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(64))
        self.register_buffer("cache", torch.zeros(4, 32, 64))
        self.proj = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.mean.lerp_(x.mean((0, 1)), 0.1)
        self.cache.index_copy_(1, position, self.proj(x))
        return (self.cache - self.mean).softmax(1).sum(1)


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noisy = x + torch.randn_like(x) * 0.1
        kept = torch.rand(x.shape, device=x.device) > 0.5
        out = torch.zeros_like(x)
        out[:, 1:] = noisy[:, :-1]
        return torch.where(kept, out, noisy).cumsum(1)


class Scaled(nn.Module):
    """A CPU scalar as an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.proj(x) * scale).softmax(-1)


class Positions(nn.Module):
    """Positions made on the CPU and copied."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        where = torch.arange(x.shape[1], device=CPU).to(x.device)
        return F.layer_norm(x + self.table(where), (64,))


class Times(nn.Module):
    """A convolution model with time steps, whose frequencies are computed from a constructor on
    the CPU: what rounds differently in `exp` reaches convolutions that round to TF32.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.conv = nn.Linear(32, 3), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        power = torch.arange(16, dtype=torch.float32, device=CPU) / 16
        rates = torch.exp(-9.21 * power).to(x.device)
        angles = times[:, None] * rates
        embedded = self.embed(torch.cat([angles.cos(), angles.sin()], -1))
        return self.conv(x + embedded[:, :, None, None])


class Table(nn.Module):
    """A small CPU tensor as an argument, copied in the model."""

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (x * weights.to(x.device)).sum(-1).tanh()


class Step(nn.Module):
    """Counts calls in a CPU buffer, and reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.ones((), device=CPU))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step.add_(1)
        return x.sin() / self.step


class ToHost(nn.Module):
    """A result on the CPU, between two parts on the GPU."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.sin().softmax(-1)
        return y.sum().to(CPU), (y @ x).relu()


class Lengths(nn.Module):
    """A CPU value computed from a dynamic size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = torch.full((), x.shape[1], dtype=torch.float32, device=CPU)
        return x.sum(1) / count.sqrt()


def _image(device: torch.device) -> Arguments:
    return (torch.randn(2, 3, 32, 32, device=device),)


def _timed(device: torch.device) -> Arguments:
    return (*_image(device), torch.tensor([900.0, 3.0], device=device))


def _rows(device: torch.device) -> Arguments:
    return (torch.randn(8, 64, device=device),)


def _half_rows(device: torch.device) -> Arguments:
    return (torch.randn(8, 64, device=device, dtype=torch.float16),)


def _tokens(device: torch.device) -> Arguments:
    return (torch.randint(0, 100, (2, 16), device=device),)


def _sequence(device: torch.device) -> Arguments:
    return (torch.randn(4, 16, 64, device=device),)


def _with_scalar(device: torch.device) -> Arguments:
    return (*_rows(device), torch.tensor(0.5, device=CPU))


def _with_vector(device: torch.device) -> Arguments:
    return (*_rows(device), torch.ones(64, device=CPU))


def _scatter(device: torch.device) -> Arguments:
    return torch.randn(50, 32, device=device), torch.randint(0, 20, (50,), device=device)


def _loss(device: torch.device) -> Arguments:
    x = torch.randn(2048, 64, device=device)
    return x, torch.randint(0, 1000, (2048,), device=device)


def _cached(device: torch.device) -> Arguments:
    return torch.randn(4, 1, 64, device=device), torch.ones(1, dtype=torch.int64, device=device)


MODELS = (
    Model("UNet, fp32", UNet, _image),
    Model("UNet, fp32, training", UNet, _image, train=True),
    Model("ResNet with batch norm, training", ResNet, _image, train=True),
    Model("Transformer block, training with dropout", lambda: Transformer(0.1), _tokens, True),
    Model("Transformer block, bf16", lambda: Transformer().bfloat16(), _tokens),
    Model("MLP, fp16, training", lambda: Mlp().half(), _half_rows, True),
    Model("Embedding, training, dynamic shapes", Transformer, _tokens, True, True),
    Model("scatter and gather", Scatter, _scatter),
    Model("cross entropy and large reductions, training", Loss, _loss, True),
    Model("written buffers", Buffers, _cached),
    Model("random numbers, writes in place", Noise, _rows),
    Model("MLP, dynamic shapes", Mlp, _sequence, dynamic=True),
    Model("CPU scalar", Scaled, _with_scalar, cpu_values=True),
    Model("CPU scalar, training", Scaled, _with_scalar, True, cpu_values=True),
    Model("positions from the CPU", Positions, _sequence, cpu_values=True),
    Model("time steps, frequencies from the CPU", Times, _timed, cpu_values=True),
    Model("CPU table", Table, _with_vector, cpu_values=True),
    Model("CPU step counter", Step, _rows, cpu_values=True),
    Model("CPU result", ToHost, lambda d: (torch.randn(32, 32, device=d),), cpu_values=True),
    Model("CPU value of a size", Lengths, _sequence, dynamic=True, cpu_values=True),
)
