"""Functions that use CPU tensors beside GPU tensors, one for each way that they meet.

Each is a short stack of layers, so that a graph pays, and takes its CPU values as arguments, which
differ from call to call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Tensors = list[torch.Tensor]
LAYERS, KINDS, WIDTH = 12, 4, 256


@dataclass(frozen=True)
class Case:
    """function: takes the GPU input, the weight, and the CPU values of `make`. what: the row of the
    table.
    """

    name: str
    what: str
    function: Callable[..., Any]
    make: Callable[[], Tensors]


def _layers(
    x: torch.Tensor, weight: torch.Tensor, scale: Callable[[torch.Tensor, int], torch.Tensor]
) -> torch.Tensor:
    """A dozen layers; `scale` gets what is of a layer's kind."""
    for layer in range(LAYERS):
        x = scale(torch.tanh(x @ weight), layer % KINDS)
    return x


def indexed(x: torch.Tensor, w: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return _layers(x, w, lambda y, i: y * scales[i])


def sums(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    return _layers(x, w, lambda y, i: y * (s + r[i]))


def products(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    return _layers(x, w, lambda y, i: y + r[0] * r[i])


def mixed_users(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor, r: torch.Tensor) -> Any:
    return _layers(x, w, lambda y, i: y * s), torch.cumsum(r * s, 0), s


def mutated(x: torch.Tensor, w: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    step.add_(1)
    return _layers(x, w, lambda y, i: y / step)


def copied(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return _layers(x, w, lambda y, i: y + bias.to(x.device))


def returned(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> Any:
    return _layers(x, w, lambda y, i: y * s), s + 1, torch.ones(4), s.to(x.device)


def indices(x: torch.Tensor, w: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return _layers(x, w, lambda y, i: y)[rows]


def there_and_back(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> Any:
    y = _layers(x, w, lambda y, i: y)
    top = y.amax().cpu() + s
    return _layers(y, w, lambda y, i: y * top), top


def constants(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    table = torch.tensor([0.5, 0.75, 1.0])
    return _layers(x, w, lambda y, i: y * table[i % 3] + torch.full((), 0.25))


def wide_scalars(x: torch.Tensor, w: torch.Tensor, d: torch.Tensor, n: torch.Tensor) -> Any:
    return _layers(x, w, lambda y, i: torch.where(n > i, y * d, y))


def _vector() -> torch.Tensor:
    return torch.rand(KINDS) + 0.5


def _scalar() -> torch.Tensor:
    return torch.rand(()) + 0.5


CASES = {
    case.name: case
    for case in (
        Case("indexed", "scalars indexed out of a CPU vector", indexed, lambda: [_vector()]),
        Case(
            "sums",
            "a CPU scalar plus an element of a CPU vector",
            sums,
            lambda: [_scalar(), _vector()],
        ),
        Case(
            "products", "a product of two elements of a CPU vector", products, lambda: [_vector()]
        ),
        Case(
            "mixed_users",
            "a CPU scalar that CPU code uses too",
            mixed_users,
            lambda: [_scalar(), _vector()],
        ),
        Case("mutated", "a CPU scalar that is counted up", mutated, lambda: [_scalar()]),
        Case(
            "copied",
            "a CPU vector copied to the GPU on each call",
            copied,
            lambda: [torch.rand(WIDTH)],
        ),
        Case("returned", "CPU values that are returned", returned, lambda: [_scalar()]),
        Case("indices", "indexing with a CPU tensor", indices, lambda: [torch.randint(8, (5,))]),
        Case(
            "there_and_back",
            "a GPU value used on the CPU, and the result on the GPU",
            there_and_back,
            lambda: [_scalar()],
        ),
        Case("constants", "CPU tensors made from numbers", constants, list),
        Case(
            "wide_scalars",
            "a double and an integer CPU scalar",
            wide_scalars,
            lambda: [_scalar().double(), torch.randint(KINDS, ())],
        ),
    )
}
