"""The two operators that placement puts into graphs.

They are operators of our own because Inductor moves CPU tensors to the GPU on its own account where
it sees only operators that it knows; `inductor.py` says what they compile to. Inductor's cache
keys graphs by the names of their operators: a change of what these compile to needs a new
namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_LIBRARY: Any = torch.library.Library("pygraph_1", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("to_gpu(Tensor[] values, Device device) -> Tensor")
_LIBRARY.define("stay(Tensor(a) value) -> Tensor(a)")

TO_GPU = torch.ops.pygraph_1.to_gpu.default
"""Elements of CPU tensors of one dtype, one after the other, in fresh memory of a GPU."""

STAY = torch.ops.pygraph_1.stay.default
"""A CPU tensor, which stays where it is."""


def _to_gpu(values: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    flat = torch.cat([value.reshape(-1) for value in values])
    return flat.to(device, non_blocking=True)


def _fake_to_gpu(values: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    count = sum(value.numel() for value in values)
    return values[0].new_empty((count,), device=device)


def _stay(value: torch.Tensor) -> torch.Tensor:
    return value.view_as(value)


_LIBRARY.impl("to_gpu", _to_gpu, "CPU")
_LIBRARY.impl("stay", _stay, "CPU")
torch.library.register_fake("pygraph_1::to_gpu", _fake_to_gpu, lib=_LIBRARY)
torch.library.register_fake("pygraph_1::stay", _stay, lib=_LIBRARY)
