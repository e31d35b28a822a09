"""What programs are made of."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.gpu.adverse.harness import DEVICE, Context

N = 24
_numbers = itertools.count()


def opaque(name: str) -> str:
    """A name for an operator, in a namespace of its own for each run."""
    return f"adverse{next(_numbers)}::{name}"


def churn(i: int) -> torch.Tensor:
    """Move the allocator about."""
    return torch.full((((i * 37) % 11 + 1) * 1000,), float("nan"), device=DEVICE)


def filled(c: Context, module: nn.Module, scale: float = 0.2) -> Any:
    """The module on the device, with the program's numbers for weights."""
    module.to(DEVICE)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(c.tensor(*p.shape, scale=scale))
    return module


class Net(nn.Module):
    """A residual block; its weights are the program's numbers."""

    def __init__(self, c: Context, width: int = 32, dropout: float = 0.0) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        filled(c, self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.dropout(self.b(F.gelu(self.a(x)))))


def net_of(c: Context, *sizes: int) -> nn.Sequential:
    """Linear layers of these sizes."""
    return filled(c, nn.Sequential(*[nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]))


def grads(m: nn.Module) -> list[torch.Tensor | None]:
    """Copies of all gradients."""
    return [None if p.grad is None else p.grad.clone() for p in m.parameters()]


def step(c: Context, run: Any, m: nn.Module, x: torch.Tensor) -> None:
    """One training step, whose result and gradients are kept; the next one begins without any."""
    y = run(x)
    y.sin().sum().backward()
    c.keep(y, x.grad, grads(m))
    m.zero_grad()


def some(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A part of a large result, and a sum of its bits."""
    flat = t.detach().reshape(-1)
    bits = flat.view(torch.int32).long() if t.element_size() == 4 else flat.view(torch.int16).long()
    return flat[:: max(1, flat.numel() // 64)].clone(), bits.sum()
