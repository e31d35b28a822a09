"""What the operators of placement compile to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from pygraph_rt.host_values.ops import FROM_SIZES, NUMBER, STAY, TO_GPU

aten = torch.ops.aten


def _call(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of a library's operator: no code is generated for it."""
    from torch._inductor.lowering import fallback_handler

    made: Any = fallback_handler(operator, add_to_fallback_set=False)  # type: ignore[no-untyped-call]
    return made(*args, **kwargs)


def _stay(value: Any) -> Any:
    return value


def _to_gpu(values: Sequence[Any], device: torch.device) -> Any:
    """Put values into memory of the CPU that is neither the caller's nor pinned: when the copy
    returns, the driver has taken the bytes, and whoever writes there next changes nothing.
    Inductor's own `DeviceCopy.create` would pin it, and the copy would be read later.
    """
    from torch._inductor import ir
    from torch._inductor.lowering import lowerings
    from torch._inductor.virtualized import V

    flat = [lowerings[aten.view.default](value, [value.get_numel()]) for value in values]
    join = aten.cat.default if len(flat) > 1 else aten.clone.default
    what = flat if len(flat) > 1 else flat[0]
    # Inductor's first code for the CPU costs a process many seconds, in which it compiles and
    # runs programs that ask what the CPU can do. Where nothing is computed, a library does it.
    computed = not all(ir.is_storage_and_layout(value) for value in flat)
    joined = lowerings[join](what) if computed else _call(join, what)
    staged = ir.ExternKernel.realize_input(joined)
    for end in (device, staged.get_device_or_error()):
        V.graph.add_device_info(end)
    layout = ir.FixedLayout(device, staged.get_dtype(), staged.get_size(), [1])
    return ir.TensorBox.create(ir.DeviceCopy(layout, [staged], (True,)))


def _from_sizes(copy: Callable[[Any], Any], sizes: Sequence[Any], *program: Any) -> Any:
    """`program`: its source, its elements, their dtype and device."""
    from torch._inductor.virtualized import V

    kept = _call(FROM_SIZES, sizes, *program)
    V.graph.never_reuse_buffers.add(kept.get_name())
    # Whoever computes from it reads it there; whoever writes to it, or returns it, has a copy.
    return copy(kept)


def _number(value: float, dtype: torch.dtype) -> Any:
    return _call(aten.scalar_tensor.default, value, dtype=dtype, device=torch.device("cpu"))


@cache
def register_lowerings() -> None:
    """Tell Inductor what the operators of placement compile to."""
    from torch._inductor.lowering import lowerings, register_lowering

    copy = lowerings[aten.clone.default]
    register_lowering(NUMBER, type_promotion_kind=None)(_number)
    register_lowering(STAY, type_promotion_kind=None)(_stay)
    register_lowering(TO_GPU, type_promotion_kind=None)(_to_gpu)
    register_lowering(FROM_SIZES, type_promotion_kind=None)(partial(_from_sizes, copy))
