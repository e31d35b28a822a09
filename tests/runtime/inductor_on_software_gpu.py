"""Programs that torch.compile compiles, with graphs on the GPU made of CPU memory.

Inductor compiles for the CPU and leaves every operation to torch (`FALLBACK`). Each of them is a
kernel: recorded during a capture, run at the addresses of its parameters in a launch. So captures,
patches, launches and comparisons are the runtime's own, and results are those of default mode, bit
for bit, or wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pygraph_rt import backend
from pygraph_rt.capture import capture
from pygraph_rt.inductor import autograd_cache, hook
from pygraph_rt.inductor.collectives import is_collective
from pygraph_rt.inductor.runner_inlining import Inlined
from pygraph_rt.plan.memory_blocks import alignment_class, extent
from pygraph_rt.region import variants
from pygraph_rt.replay import inputs
from pygraph_rt.select.groups import Selector
from pygraph_rt.select.trial import Instruments
from tests.runtime import software_gpu
from tests.runtime.software_gpu import KERNELS, SoftwareGpu, tensor_at

FALLBACK = {"fallback_by_default": True}
"""Inductor's option that makes results those of torch's own operators."""
OPTIONS = {**FALLBACK, "graphs": "always", "placement": False}
# What torch's allocator for the CPU aligns to.
_ALIGNED = 64


class Layout:
    """Where a kernel's tensor begins is a parameter; all else of it is not."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.size, self.stride, self.dtype = tensor.size(), tensor.stride(), tensor.dtype
        self.nbytes = extent(self.size, self.stride, self.dtype.itemsize)

    def __repr__(self) -> str:
        return f"{tuple(self.size)} {self.stride} {self.dtype}"

    def at(self, address: int) -> torch.Tensor:
        if not self.nbytes:
            return torch.empty_strided(self.size, self.stride, dtype=self.dtype)
        return tensor_at(address, self.nbytes, self.size, self.stride, self.dtype, 0)


class Kernel:
    """An operator and what is not a tensor among its arguments."""

    def __init__(self, op: Any, arguments: Any, results: Sequence[torch.Tensor]) -> None:
        self._op = op
        leaves, self._form = pytree.tree_flatten(arguments)
        self._leaves = [Layout(x) if isinstance(x, torch.Tensor) else x for x in leaves]
        self._results = [Layout(result) for result in results]
        count = sum(isinstance(leaf, Layout) for leaf in self._leaves) + len(self._results)
        self.__code__ = SimpleNamespace(co_argcount=count)
        # Those with one name do the same.
        self.name = f"{op} {self._leaves} {self._form} {self._results}"

    def __call__(self, *addresses: int) -> None:
        left = iter(addresses)
        leaves = [x.at(next(left)) if isinstance(x, Layout) else x for x in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._form)
        found = tensors(self._op(*args, **kwargs))
        for layout, result in zip(self._results, found, strict=False):
            layout.at(next(left)).copy_(result)


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class Operators(TorchDispatchMode):
    """Makes a kernel of every operator that computes; its results lie in memory of `allocate`."""

    def __init__(self, gpu: SoftwareGpu, allocate: Any) -> None:
        super().__init__()
        self._gpu, self._allocate = gpu, allocate

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert not is_collective(op), f"{op} is in a partition"
        kwargs = kwargs or {}
        writes = any(
            a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments
        )
        if not writes and any(r.alias_info is not None for r in op._schema.returns):
            return op(*args, **kwargs)  # a view
        results = kwargs.get("out", args[0]) if writes else op(*args, **kwargs)
        made = [] if writes else [self._place(t) for t in tensors(results)]
        kernel = Kernel(op, (args, kwargs), made)
        KERNELS[kernel.name] = kernel
        self._gpu.launch_kernel(kernel.name, *tensors((args, kwargs)), *made)
        left = iter(made)
        return (
            results if writes else pytree.tree_map_only(torch.Tensor, lambda t: next(left), results)
        )

    def _place(self, tensor: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self._allocate(tensor.size(), tensor.stride(), tensor.dtype)
        return found


class Gpu(SoftwareGpu):
    """Takes memory outside of captures as programs do."""

    def allocate(self, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        if self.recording is not None:
            return super().allocate(size, stride, dtype)
        return torch.empty_strided(size, stride, dtype=dtype)


class Now:
    """A stamp of a GPU that has no queue."""

    def __init__(self, device: int) -> None:
        self._at = time.perf_counter_ns()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Now) -> float:
        return (end._at - self._at) / 1e6


def install(patch: pytest.MonkeyPatch) -> Gpu:
    """Have the backend serve compiled code for the CPU with graphs of this GPU. Programs compile
    with `backend="pygraph"` and OPTIONS, and with Inductor's caches off.
    """
    from torch._inductor.scheduler import Scheduler

    gpu = Gpu()
    maker = software_gpu.install(patch, gpu)
    instruments = Instruments(time.perf_counter_ns, Now, lambda: False)
    selector = Selector(instruments)
    patch.setattr(backend, "_graph_maker", lambda: maker)
    patch.setattr(backend, "_selector", lambda: selector)
    patch.setattr(backend, "_machine", lambda device: {})
    patch.setattr(backend, "why_without_graphs", lambda: None)
    patch.setattr(autograd_cache, "why_not_ours", lambda: None)
    should_partition = Scheduler.should_partition

    def as_for_a_gpu(scheduler: Any, node: Any, *rest: Any) -> Any:
        found = should_partition(scheduler, node, *rest)
        if isinstance(found, bool):  # torch 2.11
            name = getattr(getattr(node, "node", None), "op_overload", None)
            return name is not None and is_collective(name)
        return found if "custom partition op" in str(found) else None

    patch.setattr(Scheduler, "should_partition", as_for_a_gpu)
    for module in (variants, capture, inputs):
        patch.setattr(module, "alignment_class", lambda a: min(alignment_class(a), _ALIGNED))
    wrap_partitions = hook.wrap_partitions

    def wrap_for(compiled: Any, graph: Any, wrap: Any, refuse: Any = hook.keep) -> None:
        compiled.device_types, compiled.device_idxs = {"cuda"}, {0}
        wrap_partitions(compiled, graph, partial(_wrap, gpu, wrap), refuse)

    patch.setattr(hook, "wrap_partitions", wrap_for)
    return gpu


def _wrap(gpu: Gpu, wrap: Any, function: Any, info: Any) -> Any:
    """A region of a generated function whose operators are the GPU's kernels."""
    generated = getattr(function, "generated", function)

    def run(args: Any, allocate: Callable[..., Any]) -> Any:
        with Operators(gpu, allocate):
            return generated(args)

    made = gpu.generated(
        "def partition_0(args):\n    return run(args, empty_strided_cuda)\n",
        run=run,
        __file__=generated.__globals__["__file__"],
    )
    if generated is not function:
        made = Inlined(made, function.runner, function.reinterpret)
    return wrap(made, info)
