"""Tensors that hypothesis draws: odd values, odd shapes, every dtype, strides, gradients."""

from __future__ import annotations

import os

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("PYGRAPH_FIX_EXAMPLES", "25"))
FEW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
_VALUES = [0.0, -0.0, 1.0, -2.5, 3.0, 60000.0, -65504.0, float("inf"), -float("inf"), float("nan")]


@st.composite
def tensors(
    draw: st.DrawFn, dtypes: list[torch.dtype] | None = None, min_rank: int = 0
) -> torch.Tensor:
    """A tensor of rank up to 3: empty, 0-d, of size 1, transposed, asking for gradients or not."""
    dtype = draw(st.sampled_from(dtypes or DTYPES))
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=min_rank, max_size=3))
    count = 1
    for size in shape:
        count *= size
    numbers = draw(st.lists(st.sampled_from(_VALUES), min_size=count, max_size=count))
    if not dtype.is_floating_point:
        numbers = [int(it) % 5 if abs(it) < 1e6 else 1 for it in numbers]
    result = torch.tensor(numbers, dtype=torch.float64).to(dtype).reshape(shape)
    if len(shape) > 1 and draw(st.booleans()):
        result = result.transpose(0, -1)
    if dtype.is_floating_point and draw(st.booleans()):
        result.requires_grad_()
    return result
