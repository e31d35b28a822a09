"""What a capture cannot take: arguments and allocators, refused by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from pygraph_rt.errors import DriverError, Unprovable
from pygraph_rt.memory import pool

Inputs = dict[int, torch.Tensor]


def check_inputs(args: Sequence[Any], device: int, numbers: Collection[int] = ()) -> Inputs:
    """The GPU tensors with memory among a region's arguments. Raises Unprovable for arguments a
    graph cannot take. `numbers` are arguments that may be CPU scalars; a GPU's generator is taken,
    because an observed call has drawn nothing from it (see `maker.observe`).
    """
    found: Inputs = {}
    for i, value in enumerate(args):
        if isinstance(value, (bool, int, float)) or value is None:
            continue
        if isinstance(value, torch.Generator) and value.device.type == "cuda":
            continue
        if not isinstance(value, torch.Tensor):
            raise Unprovable(f"argument {i} is a {type(value).__name__}, which a graph cannot take")
        if i in numbers:
            continue
        _check_tensor(i, value, device)
        if value.numel():
            found[i] = value
    return found


def _check_tensor(i: int, value: torch.Tensor, device: int) -> None:
    if not value.is_cuda:
        raise Unprovable(
            f"argument {i} is a CPU tensor of shape {tuple(value.shape)}, whose value would be "
            "frozen into the graph; create it on the GPU, or pass a Python number"
        )
    if value.device.index != device:
        raise Unprovable(
            f"its arguments are on GPUs {device} and {value.device.index}; a graph belongs to "
            "one GPU"
        )
    if value.layout is not torch.strided or value.is_quantized:
        raise Unprovable(f"argument {i} is a sparse or quantized tensor")
    if value.is_conj() or value.is_neg():
        raise Unprovable(
            f"argument {i} is a view as conjugate or negative numbers, which its memory does not "
            "hold; call `resolve_conj()` or `resolve_neg()` on it"
        )


def check_allocator() -> None:
    """Raise Unprovable unless torch's own caching allocator is in use: only its pools can be
    looked into.
    """
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        raise Unprovable(
            f"the CUDA allocator is {backend}; graphs need torch's native allocator (unset "
            "PYTORCH_CUDA_ALLOC_CONF=backend and pluggable allocators)"
        )


def check_pool(device: int) -> None:
    """Raise Unprovable while this thread allocates from a memory pool of the caller's.

    torch cannot give a capture's own pool back while another one is in use: it ends the process.
    """
    specimen = torch.empty((1,), device=torch.device("cuda", device))
    address = specimen.data_ptr()
    for segment in pool.snapshot():
        inside = segment["address"] <= address < segment["address"] + segment["total_size"]
        if inside and tuple(segment["segment_pool_id"]) != (0, 0):
            raise Unprovable(
                "the first calls were made inside torch.cuda.use_mem_pool; make them outside of it"
            )


def reason_of(error: BaseException) -> str:
    """Why a capture failed, as a clause for the report."""
    if isinstance(error, Unprovable):
        return str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return "the GPU ran out of memory while it was captured; free memory or use smaller inputs"
    if isinstance(error, DriverError):
        return f"the CUDA driver refused it ({error})"
    first_line = (str(error).splitlines() or [""])[0][:200]
    return (
        f"it cannot be captured ({type(error).__name__}: {first_line}); code that waits for the "
        "GPU or reads values on the CPU has to stay outside of the compiled region"
    )
