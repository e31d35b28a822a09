"""What a program is called with, and under which settings of torch."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.fixes.fuzz.programs import ARGUMENTS

_DTYPES = (torch.float32, torch.float32, torch.float16, torch.int64, torch.float64, torch.uint8)
_SHAPES = ((2, 3), (3, 3), (1, 3), (0, 3), (2, 1), (2, 2, 3))


def arguments(seed: int, floating: bool = False) -> tuple[Any, ...]:
    """ARGUMENTS of ``forward``, in their order."""
    rng = random.Random(seed)
    dtype = torch.float32 if floating else rng.choice(_DTYPES)
    shape = rng.choice(_SHAPES if rng.random() < 0.5 else _SHAPES[:2])
    x = _laid_out(rng, (torch.arange(18) % 5).float()[: _size(shape)].view(shape))
    x = (x * rng.choice((1.0, 0.5, 3.0)) - rng.choice((0.0, 0.0, 1.0, 2.0))).to(dtype)
    if dtype.is_floating_point and x.numel() and rng.random() < 0.4:
        x[(0,) * x.dim()] = rng.choice((float("inf"), float("nan"), -float("inf"), -0.0, 1e4))
    y = torch.tensor(rng.choice((0.5, -1.0, 2.0))).to(dtype)
    y = y.reshape(1) if rng.random() < 0.1 else y
    mask = torch.tensor([rng.random() < 0.8 for _ in range(3)])
    if dtype.is_floating_point and rng.random() < 0.5:
        x.requires_grad_()
    rows = torch.tensor([[1, 2], [3, 2]])[: rng.choice((0, 1, 2, 2))]
    k = rng.choice((2, 2, 2, 1, 0, 3, -1))
    p = rng.choice((0.0, 0.5, 1.0, -1.0, float("nan"), 0.2))
    found = (x, y, mask, rows, k, p)
    assert len(found) == len(ARGUMENTS)
    return found


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for each in shape:
        size *= each
    return size


def _laid_out(rng: random.Random, x: torch.Tensor) -> torch.Tensor:
    """The same values, sometimes with other strides."""
    form = rng.random()
    if form < 0.15:
        return x.t().contiguous().t() if x.dim() == 2 else x
    if form < 0.25:
        return torch.stack([x, x], -1)[..., 0]
    return x


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


Context = Callable[[], contextlib.AbstractContextManager[Any]]
CONTEXTS: dict[str, Context] = {
    "plain": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float64": lambda: _default_dtype(torch.float64),
    "bfloat16": lambda: _default_dtype(torch.bfloat16),
}


def context(seed: int) -> str:
    """The name of a context, more often than not the plain one."""
    rng = random.Random(f"context {seed}")
    return "plain" if rng.random() < 0.6 else rng.choice(list(CONTEXTS))
