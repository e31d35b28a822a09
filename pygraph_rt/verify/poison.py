"""Memory filled with 0xFF, which shows who reads or writes it."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def poison(tensors: Sequence[torch.Tensor]) -> None:
    """Fill byte tensors with 0xFF (a NaN in every floating-point format)."""
    for tensor in tensors:
        tensor.fill_(255)


def untouched(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether byte tensors of a multiple of 8 bytes still hold 0xFF throughout. Waits for the
    GPU.
    """
    for tensor in tensors:
        low, high = torch.aminmax(tensor.view(torch.int64))
        if int(low) != -1 or int(high) != -1:
            return False
    return True
