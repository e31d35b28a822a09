"""The generated code of a region, run with another allocation function.

Generated code takes the memory of its buffers from one function of its module. The same code object
over a copy of the module's namespace, with that function replaced, shows which allocation became
which output, and lets a capture put exactly these allocations where the runtime wants them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.multiprocessing import reductions

from pygraph_rt.errors import Unprovable
from pygraph_rt.host_values import ops
from pygraph_rt.inductor.reused_inputs import source_of
from pygraph_rt.inductor.runner_inlining import Inlined
from pygraph_rt.plan.outputs import Allocate, Dims, Layout

ALLOCATE = "empty_strided_cuda"


def with_allocator(function: Callable[..., Any], allocate: Allocate) -> Callable[..., Any]:
    """The same code over a copy of its module's namespace in which buffers come from `allocate`."""
    if isinstance(function, Inlined):
        return function.over(with_allocator(function.generated, allocate))
    if not isinstance(function, types.FunctionType):
        raise Unprovable(
            "its generated code is not a Python function (cpp_wrapper?); switch that option off to "
            "use graphs"
        )
    return types.FunctionType(
        function.__code__,
        {**function.__globals__, ALLOCATE: allocate},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def allocator_of(function: Callable[..., Any]) -> Allocate:
    """The allocation function of a region's generated module."""
    found: Allocate | None = getattr(function, "__globals__", {}).get(ALLOCATE)
    if found is None:
        raise Unprovable(
            f"its generated module has no {ALLOCATE}; this version of Inductor is not known to "
            "pygraph"
        )
    return found


def constants_of(function: Callable[..., Any]) -> list[torch.Tensor]:
    """GPU tensors that the generated module holds itself, or that are kept for it."""
    values = getattr(function, "__globals__", {}).values()
    held = [v for v in values if isinstance(v, torch.Tensor) and v.is_cuda and v.numel()]
    return [*held, *ops.kept()]


def adds_in_any_order(function: Callable[..., Any]) -> bool:
    """Whether its module has a Triton kernel that adds with atomic operations. A hint: results may
    differ from call to call, and those of torch's own kernels may, too.
    """
    return "atomic_add(" in source_of(function)


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of a live tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


class AllocationTrace:
    """Passes allocations on and notes which storage each one made."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self.requests: list[Layout] = []
        self._owner: dict[int, int] = {}
        self._storages: list[reductions.StorageWeakRef] = []

    def __call__(self, size: Dims, stride: Dims, dtype: torch.dtype) -> torch.Tensor:
        tensor = self._allocate(size, stride, dtype)
        # Held weakly, a dead storage's identity is not given to memory of a library call.
        self._storages.append(reductions.StorageWeakRef(tensor.untyped_storage()))  # type: ignore[no-untyped-call]
        self._owner[storage_id(tensor)] = len(self.requests)
        self.requests.append((tuple(size), tuple(stride), dtype))
        return tensor

    def ordinal(self, tensor: torch.Tensor) -> int | None:
        """Which allocation a live tensor's storage came from."""
        return self._owner.get(storage_id(tensor))


class PlacedAllocator:
    """Serves chosen allocations with given tensors, the rest from the ordinary function."""

    def __init__(
        self, allocate: Allocate, requests: Sequence[Layout], placed: dict[int, torch.Tensor]
    ) -> None:
        """`requests` are those of the observed call, `placed` tensors for some, by ordinal."""
        self._allocate = allocate
        self._requests = requests
        self._placed = placed
        self.count = 0

    def __call__(self, size: Dims, stride: Dims, dtype: torch.dtype) -> torch.Tensor:
        n = self.count
        self.count += 1
        if n >= len(self._requests) or self._requests[n] != (tuple(size), tuple(stride), dtype):
            raise Unprovable(
                "it allocates other memory than on the call before; code that depends on data "
                "cannot be replayed"
            )
        placed = self._placed.get(n)
        return self._allocate(size, stride, dtype) if placed is None else placed
