"""Small saved activations share memory. Pure: plans in, plans out.

A training step saves hundreds of small tensors for its backward, and memory for each of them costs
a microsecond or more of the host's time. They are let go of together, at the end of the backward,
so one piece of memory serves many of them. What the caller sees has memory of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch

from .outputs import Fresh, OutputPlan, Sizes, Storage

# Of what a call returns: saved activations may be let go of one by one, these cannot.
_SHARE = 16
_ALIGNMENT = 256


class Slab(NamedTuple):
    """`memory` to ask for (size, strides, dtype), the numbers of the `storages` in it, where each
    of them begins (bytes), and the views that are their outputs (size, strides, elements).
    """

    memory: tuple[Sizes, Sizes, torch.dtype]
    storages: tuple[int, ...]
    offsets: tuple[int, ...]
    views: tuple[tuple[Sizes, Sizes, int], ...]


def small(plan: OutputPlan, saved: Collection[int]) -> frozenset[int]:
    """Storages that may share memory: those of `saved` outputs (positions), each of which is all of
    its storage, from the smallest up, as long as together they are a small part of all outputs.
    """
    found = [
        (plan.storages[output.storage].nbytes, output.storage)
        for i, output in enumerate(plan.outputs)
        if i in saved and isinstance(output, Fresh) and output.whole
    ]
    found = sorted(item for item in found if item[0])
    room = sum(storage.nbytes for storage in plan.storages) // _SHARE
    sums = accumulate(_padded(nbytes) for nbytes, _ in found)
    return frozenset(number for (_, number), end in zip(found, sums, strict=True) if end <= room)


def slabs(storages: Sequence[Storage], chosen: Sequence[int]) -> list[Slab]:
    """One slab for each dtype of which there are several among the `chosen` storages."""
    by_dtype: dict[torch.dtype, list[int]] = {}
    for number in chosen:
        by_dtype.setdefault(storages[number].dtype, []).append(number)
    return [
        _slab(dtype, [storages[n] for n in numbers], numbers)
        for dtype, numbers in by_dtype.items()
        if len(numbers) > 1
    ]


def _slab(dtype: torch.dtype, storages: Sequence[Storage], numbers: Sequence[int]) -> Slab:
    *starts, end = accumulate((_padded(s.nbytes) for s in storages), initial=0)
    views = tuple(
        (storage.size, storage.stride, start // dtype.itemsize)
        for storage, start in zip(storages, starts, strict=True)
    )
    memory = ((end // dtype.itemsize,), (1,), dtype)
    return Slab(memory, tuple(numbers), tuple(starts), views)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
