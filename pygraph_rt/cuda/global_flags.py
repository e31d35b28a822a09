"""Global switches that library calls read when they are launched.

A captured graph holds what they chose at capture. The switches are part of a graph's key: when
one of them differs, compiled code runs (and may be captured under the new switches).
Only those are read on each call that the graph's own library calls read.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import torch

from pygraph_rt.errors import Unprovable

# By what reads them: "any" operator, or a family of library calls.
_SWITCHES = {
    "any": (
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "_get_deterministic_algorithms",
        "_get_deterministic_algorithms_warn_only",
        "_get_deterministic_fill_uninitialized_memory",
    ),
    "blas": (
        "fp32_precision matmul",
        "_get_cublas_allow_fp16_reduced_precision_reduction",
        "_get_cublas_allow_bf16_reduced_precision_reduction",
        "_get_cublas_allow_fp16_accumulation",
        "_get_sm_carveout_experimental",
        "_get_blas_preferred_backend",
    ),
    "cudnn": (
        "fp32_precision conv",
        "fp32_precision rnn",
        "_get_cudnn_enabled",
        "_get_cudnn_benchmark",
        "_get_cudnn_deterministic",
    ),
    "attention": (
        "_get_flash_sdp_enabled",
        "_get_mem_efficient_sdp_enabled",
        "_get_math_sdp_enabled",
        "_get_cudnn_sdp_enabled",
        "_get_overrideable_sdp_enabled",
        "_get_fa3_sdp_enabled",
        "_get_math_sdp_allow_fp16_bf16_reduction",
        "_get_sdp_priority_order",
    ),
    # Of calls that are not known. CUDA's libraries do not go by the precision's older name, but a
    # call of somebody else's may.
    "others": ("_get_linalg_preferred_backend", "_get_float32_matmul_precision"),
}
_EVERY = frozenset(_SWITCHES)
# Library calls of generated code, and which families they read; another name may read all of them.
_CALLS = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "bias_addmm"), ("blas",)),
    "convolution": ("blas", "cudnn"),
    **{
        f"_scaled_dot_product_{kind}_attention{end}": ("blas", "cudnn", "attention")
        for kind in ("flash", "efficient", "cudnn")
        for end in ("", "_backward")
    },
}
# What else generated code names, none of which computes anything but its own kernels.
_PLUMBING = {name for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
_PLUMBING |= {"torch", "cuda", "ops", "aten", "default", "extern_kernels"}
_PLUMBING |= {"_DeviceGuard", "set_device", "get_raw_stream", "clear", "run"}
_PLUMBING |= {"assert_size_stride", "assert_alignment", "reinterpret_tensor"}
_PLUMBING |= {"copy_if_misaligned", "copy_misaligned"}
_PLUMBING |= {"empty_strided", "empty_strided_cuda"}
_KERNEL = "triton_"


def _reader(name: str) -> Callable[[], Hashable] | None:
    """What reads a switch; None where this torch has none of that name."""
    if name.startswith("fp32_precision "):
        # What library calls go by, whatever name it was set under. Torch refuses to read the older
        # switches where the newer ones disagree with them.
        getter = getattr(torch._C, "_get_fp32_precision_getter", None)
        return None if getter is None else partial(getter, "cuda", name.split()[1])
    found = getattr(torch._C, name, getattr(torch, name, None))
    if found is None or name not in ("_get_sdp_priority_order", "_get_float32_matmul_precision"):
        return found
    return partial(_hashable, found)


def _hashable(reader: Callable[[], Any]) -> Hashable:
    try:
        found = reader()
    except RuntimeError as error:
        return str(error)
    return tuple(found) if isinstance(found, list) else found


def _autocast() -> Hashable:
    enabled, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    return enabled, dtype, torch.is_autocast_cache_enabled()


def check(function: Any) -> None:
    """Raise Unprovable where this torch has no switch of a name that a generated function's library
    calls read: it may have another name there, and a graph would be served whatever it says. All
    torch versions from 2.11 to 2.15 have all of them.
    """
    missing = [
        name
        for family in sorted(families(function))
        for name in _SWITCHES[family]
        if _reader(name) is None
    ]
    if missing:
        raise Unprovable(
            f"this torch has no switch {', '.join(missing)}, which its library calls were known to "
            "read; use a version of torch that pygraph knows"
        )


def _readers() -> dict[str, list[Callable[[], Hashable]]]:
    """What reads the switches that this torch has and can read, by family; one that cannot be read
    is left out for good.
    """
    return {
        family: [r for name in names if (r := _reader(name)) is not None and _readable(r)]
        for family, names in _SWITCHES.items()
    }


def _readable(reader: Callable[[], Hashable]) -> bool:
    try:
        return isinstance(hash(reader()), int)
    except (RuntimeError, TypeError):
        return False


_READERS = _readers()


def families(function: Any) -> frozenset[str]:
    """The families of library calls that a generated function makes; all of them where its code
    names something unknown.
    """
    code = getattr(function, "__code__", None)
    if code is None or any(isinstance(c, types.CodeType) for c in code.co_consts):
        return _EVERY
    found = {"any"}
    for name in code.co_names:
        if name in _CALLS:
            found.update(_CALLS[name])
        elif name not in _PLUMBING and not name.startswith(_KERNEL):
            return _EVERY
    return frozenset(found)


def state_of(function: Any) -> Callable[[], Hashable]:
    """What reads the switches that a generated function's library calls read: equal values mean
    that they would choose alike.
    """
    wanted = families(function)
    readers = [reader for family in _SWITCHES if family in wanted for reader in _READERS[family]]
    anywhere = torch._C._is_any_autocast_enabled

    def state() -> Hashable:
        found = tuple([reader() for reader in readers])
        return (found, _autocast()) if anywhere() else found

    return state
