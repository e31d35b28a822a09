"""Inductor's code for a CUDA device, generated without one.

A graph is traced on the meta device, where autograd needs no driver. Before joint-graph passes,
partitioning and Inductor see it, every meta tensor in it becomes a fake tensor on `cuda:0`. From
there on it is torch's own code, asked about the properties of an H100; generated modules are kept
as text and not loaded. What needs a GPU or Triton at compile time is left out: attention and
padding patterns (they are benchmarked), autotuning, and what library calls choose.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._dynamo.device_interface
import torch._functorch.aot_autograd
import torch._functorch.config
import torch._inductor.compile_fx
import torch._inductor.config
from torch._inductor.fx_passes import joint_graph
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")
_GPU = torch.device("cuda", 0)
_CUDA_SLOT, _META_SLOT = 1, 14  # c10::DeviceType
_H100 = SimpleNamespace(
    name="NVIDIA H100",
    major=9,
    minor=0,
    multi_processor_count=132,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
    total_memory=80 << 30,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    L2_cache_size=50 << 20,
    gcnArchName="",
)
Compile = Callable[[Any, Any], Any]


class _Compiled(Exception):
    """Ends a call once its graph is compiled."""


def _move(value: Any) -> Any:
    """The same value on the GPU; a fake tensor is changed in place, so that aliases stay so."""
    if isinstance(value, FakeTensor) and value.fake_device.type == "meta":
        value.fake_device = _GPU
    return _GPU if isinstance(value, torch.device) and value.type == "meta" else value


_trace = torch._functorch.aot_autograd.aot_stage1_graph_capture


def _trace_and_move(state: Any, function: Any) -> Any:
    traced = _trace(state, function)
    for node in traced.graph_module.graph.nodes:
        node.args = torch.fx.node.map_aggregate(node.args, _move)
        node.kwargs = torch.fx.node.map_aggregate(node.kwargs, _move)
        pytree.tree_map(_move, node.meta.get("val"))
    traced.graph_module.recompile()
    pytree.tree_map(_move, (traced.updated_flat_args, state.flat_args))
    return traced


@contextlib.contextmanager
def _device_guard() -> Iterator[None]:
    """A build of torch without CUDA has no guard for its devices; lend it meta's, which does
    nothing.
    """
    path = Path(torch.__file__).parent / "lib" / "libc10.so"
    slots = (ctypes.c_void_p * (_META_SLOT + 1)).in_dll(
        ctypes.CDLL(str(path)), "_ZN3c104impl26device_guard_impl_registryE"
    )
    before = slots[_CUDA_SLOT]
    slots[_CUDA_SLOT] = before or slots[_META_SLOT]
    try:
        yield
    finally:
        slots[_CUDA_SLOT] = before


class _OnCpu(TorchDispatchMode):
    """Constant folding calculates with real tensors of one element; here it does on the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(_to_cpu, (tuple(args), dict(kwargs or {})))
        return func(*args, **kwargs)


def _to_cpu(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) else value


_deduce = joint_graph.UniformValueConstantFolder._deduce_value


def _deduce_on_cpu(folder: Any, node: Any) -> Any:
    with _OnCpu():
        return _deduce(folder, node)


def _module(sources: list[str]) -> Callable[[Any], Any]:
    def compile_to_module(graph: Any) -> Any:
        sources.append(graph.codegen()[0].value)
        return SimpleNamespace(call=lambda args: None, runner=None, __file__="")

    return compile_to_module


@contextlib.contextmanager
def _gpu(sources: list[str]) -> Iterator[None]:
    """What Inductor asks of a CUDA device, answered."""
    interface = torch._dynamo.device_interface.CudaInterface
    answers: dict[str, Any] = {
        "torch.cuda.is_available": True,
        "torch.cuda.device_count": 1,
        "torch.cuda.current_device": 0,
        "torch.cuda.get_device_properties": _H100,
        "torch.cuda.get_device_capability": (9, 0),
        "torch.cuda.is_bf16_supported": True,
        "torch.cuda._exchange_device": 0,
        "torch.cuda._maybe_exchange_device": 0,
        "torch.cuda.get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "torch.cuda.set_rng_state": None,
        "torch.cuda.synchronize": None,
        "torch._subclasses.fake_tensor.init_gpu_context": None,
        "torch.utils._triton.triton_hash_with_backend": "",
        "torch._inductor.scheduler.has_triton": True,
        "torch._inductor.fx_passes.joint_graph.lazy_init": None,
    }
    own = {
        (interface, "get_device_properties"): _H100,
        (interface, "current_device"): 0,
        (interface, "raise_if_triton_unavailable"): None,
        (interface.Worker, "get_device_properties"): _H100,
    }
    replaced = {
        "torch._inductor.graph.GraphLowering.compile_to_module": _module(sources),
        "torch._functorch.aot_autograd.aot_stage1_graph_capture": _trace_and_move,
        f"{joint_graph.__name__}.UniformValueConstantFolder._deduce_value": _deduce_on_cpu,
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch(name, _says(answer)))
        for (owner, name), answer in own.items():
            stack.enter_context(mock.patch.object(owner, name, staticmethod(_says(answer))))
        for name, function in replaced.items():
            stack.enter_context(mock.patch(name, function))
        stack.enter_context(_device_guard())
        yield


def _says(answer: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: answer


def generate(
    module: torch.nn.Module,
    arguments: tuple[Any, ...],
    compile_graph: Compile,
    train: bool,
    dynamic: bool | None,
) -> list[str]:
    """The modules that Inductor writes for the forward (and, with `train`, the backward) of a
    module on the meta device, by `compile_graph(gm, inputs)`.
    """
    sources: list[str] = []

    def backend(gm: Any, inputs: Any) -> Any:
        with _gpu(sources):
            compile_graph(gm, inputs)
        raise _Compiled

    torch._dynamo.reset()
    eager_backward = torch._functorch.config.patch(force_non_lazy_backward_lowering=True)
    no_cache = torch._inductor.config.patch(force_disable_caches=True, compile_threads=1)
    with eager_backward, no_cache, torch.set_grad_enabled(train):
        try:
            torch.compile(module, backend=backend, dynamic=dynamic, fullgraph=True)(*arguments)
        except torch._dynamo.exc.BackendCompilerFailed as error:
            if not isinstance(error.inner_exception, _Compiled):
                raise
    return sources
