"""Global switches that library calls read when they are launched.

A captured graph holds what they chose at capture. The switches are part of a graph's key: when
one of them differs, the ordinary compiled path runs (and may be captured under the new switches).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import torch

_SWITCHES = (
    "_get_cublas_allow_tf32",
    "_get_cublas_allow_fp16_reduced_precision_reduction",
    "_get_cublas_allow_bf16_reduced_precision_reduction",
    "_get_cublas_allow_fp16_accumulation",
    "_get_float32_matmul_precision",
    "_get_cudnn_allow_tf32",
    "_get_cudnn_enabled",
    "_get_cudnn_benchmark",
    "_get_cudnn_deterministic",
    "_get_deterministic_algorithms",
    "_get_deterministic_algorithms_warn_only",
    "_get_deterministic_fill_uninitialized_memory",
    "_get_flash_sdp_enabled",
    "_get_mem_efficient_sdp_enabled",
    "_get_math_sdp_enabled",
    "_get_cudnn_sdp_enabled",
    "_get_overrideable_sdp_enabled",
    "_get_fa3_sdp_enabled",
    "_get_math_sdp_allow_fp16_bf16_reduction",
    "_get_sm_carveout_experimental",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_autocast_cache_enabled",
    "_get_blas_preferred_backend",
    "_get_linalg_preferred_backend",
)
# Matmul first: it alone is read on each call, the others only when the old switches do not say.
_PRECISIONS = (("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn"), ("generic", "all"))


def _precision_readers() -> list[Callable[[], Hashable]]:
    """The newer names of the TF32 switches, one reader for each operation."""
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    if getter is None:
        return []
    return [partial(getter, backend, operation) for backend, operation in _PRECISIONS]


def _sdp_order_reader() -> Callable[[], Hashable] | None:
    getter = getattr(torch._C, "_get_sdp_priority_order", None)
    return None if getter is None else (lambda: tuple(getter()))


def _autocast_reader() -> Callable[[], Hashable]:
    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    return lambda: dtype("cuda") if enabled("cuda") else None


def _readers() -> tuple[Callable[[], Hashable], ...]:
    """The switches that this torch has and can read; one that cannot be read is left out for
    good.
    """
    candidates = [getattr(torch._C, name, getattr(torch, name, None)) for name in _SWITCHES]
    candidates += [_sdp_order_reader(), _autocast_reader(), *_precision_readers()[:1]]
    found: list[Callable[[], Hashable]] = []
    for reader in candidates:
        if reader is None:
            continue
        try:
            hash(reader())
        except (RuntimeError, TypeError):
            continue
        found.append(reader)
    return tuple(found)


_READERS = _readers()


def global_state() -> tuple[Hashable, ...]:
    """The switches' values now; equal tuples mean that library calls would choose alike."""
    try:
        return tuple([reader() for reader in _READERS])
    except RuntimeError:
        # torch refuses to read an old switch when the new ones behind it disagree: read those too.
        return tuple(_read(reader) for reader in (*_READERS, *_precision_readers()))


def _read(reader: Callable[[], Hashable]) -> Hashable:
    try:
        return reader()
    except RuntimeError as error:
        return str(error)
