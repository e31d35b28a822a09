"""Two sets of named tensors: equal bit for bit, or what differs and by how much."""

from __future__ import annotations

from typing import Any

import torch

Named = dict[str, torch.Tensor]
SHOWN = 5


def difference(old: Named, new: Named) -> dict[str, Any]:
    """``equal``, and where not: names missing or added, names that differ, the largest gap.

    Equal means the same names, dtypes, shapes, strides left aside, and values; NaN equals NaN.
    """
    both = [name for name in old if name in new]
    differ = [name for name in both if not same(old[name], new[name])]
    missing = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    if not (differ or missing or added):
        return {"equal": True}
    return {
        "equal": False,
        "largest": max((gap(old[name], new[name]) for name in differ), default=0.0),
        "differ": differ[:SHOWN],
        "count": len(differ),
        "missing": missing[:SHOWN],
        "added": added[:SHOWN],
    }


def same(one: torch.Tensor, two: torch.Tensor) -> bool:
    """The same dtype, shape, device and values, NaN being equal to NaN."""
    if (one.dtype, one.shape, one.device) != (two.dtype, two.shape, two.device):
        return False
    if not one.is_floating_point() and not one.is_complex():
        return torch.equal(one, two)
    return torch.allclose(one, two, rtol=0, atol=0, equal_nan=True)


def gap(one: torch.Tensor, two: torch.Tensor) -> float:
    """The largest absolute difference; infinite where the shapes are not the same."""
    if one.shape != two.shape:
        return float("inf")
    if not one.numel():
        return 0.0
    kind = torch.complex128 if one.is_complex() else torch.float64
    return float((one.to(kind) - two.to(kind)).abs().nan_to_num(nan=0.0).max())
