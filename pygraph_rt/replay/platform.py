"""The few questions to torch that a served call asks; the tests answer them without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch

from pygraph_rt.cuda.native.memory import Helper
from pygraph_rt.rng.generator import Generator

_Same = Callable[[list[Any], list[Any], list[int]], bool]


@dataclass(frozen=True)
class Native:
    """The compiled helpers, where there are any: `launch` patches and launches, `memory` follows
    inputs and allocates, `fill_stack` is for captures.
    """

    launch: Any = None
    memory: Helper | None = None
    fill_stack: Callable[[int], object] | None = None


def same_addresses(tensors: list[Any], addresses: list[Any], indices: list[int]) -> bool:
    """Whether the tensors at `indices` are where `addresses` says (the meaning of torch's own
    function of C++, in Python).
    """
    return all(tensors[i].data_ptr() == addresses[i] for i in indices)


@dataclass(frozen=True)
class Platform:
    """capturing: whether the current stream is being captured. device: the current GPU. stream: a
    GPU's current stream. generator: a GPU's default generator. reinterpret: a view of a tensor by
    size, strides and offset. state_of: what reads the global switches that a generated function's
    library calls read (cuda/global_flags.py). guard_of: what tells whether tensors have the sizes,
    strides, dtypes and devices of given ones, and no other bits for conjugates or negatives; it may
    say False where they have.
    """

    capturing: Callable[[], bool]
    device: Callable[[], int]
    stream: Callable[[int], int]
    generator: Callable[[int], Generator]
    reinterpret: Callable[..., torch.Tensor]
    state_of: Callable[[Any], Callable[[], Hashable]]
    native: Native = Native()
    same_addresses: _Same = same_addresses
    guard_of: Callable[[list[Any]], Callable[..., bool]] | None = None
