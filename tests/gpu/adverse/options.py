"""Switches of torch, options of Inductor and of the backend."""

from __future__ import annotations

import torch
from torch import nn

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, case
from tests.gpu.adverse.parts import Net, grads, step


def train(c: Context, **options: object) -> None:
    """Ten steps of a small model that is compiled with options."""
    m = nn.Sequential(Net(c), nn.Linear(32, 32), nn.ReLU(), Net(c, 32, 0.2)).to(DEVICE)
    with torch.no_grad():
        m[1].weight.copy_(c.tensor(32, 32, scale=0.2)), m[1].bias.zero_()
    f = c.compile(m, options=options)
    for _ in range(10):
        x = c.tensor(16, 32).requires_grad_()
        step(c, f, m, x)


@case()
def switches(c: Context) -> object:
    """TF32, precision, determinism, cudnn flags, blas library and reduced precision change between
    calls.
    """
    conv = nn.Conv2d(8, 8, 3, padding=1).to(DEVICE)
    with torch.no_grad():
        conv.weight.copy_(c.tensor(8, 8, 3, 3)), conv.bias.zero_()
    f = c.compile(lambda x, h: (conv(x), x.flatten(1) @ x.flatten(1).t(), h @ h.t()))
    torch._dynamo.config.recompile_limit = 64
    with torch.no_grad():
        for i in range(60):
            k = i // 4
            torch.backends.cuda.matmul.allow_tf32 = k % 2 == 1
            torch.backends.cudnn.allow_tf32 = k % 3 == 1
            torch.backends.cudnn.deterministic = True
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = k % 5 != 4
            torch.set_float32_matmul_precision(["highest", "high", "medium"][k % 3])
            if CUDA:
                torch.backends.cuda.preferred_blas_library(["cublas", "cublaslt"][k % 2])
            c.keep(f(c.tensor(4, 8, 16, 16), c.tensor(64, 512, dtype=torch.bfloat16)))
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.deterministic = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    torch.set_float32_matmul_precision("highest")


@case()
def default_dtype_and_device(c: Context) -> object:
    """The default dtype and the default device change between calls, captures included."""
    m = Net(c)

    def made(x):
        return m(x), torch.arange(3.0) + 1, torch.zeros(2), x * torch.tensor(0.5)

    f = c.compile(made)
    torch._dynamo.config.recompile_limit = 32
    try:
        with torch.no_grad():
            for i in range(36):
                torch.set_default_dtype([torch.float32, torch.float64, torch.bfloat16][i // 6 % 3])
                torch.set_default_device([None, DEVICE][i // 3 % 2] or "cpu")
                x = c.tensor(8, 32)
                found, wanted = f(x), made(x)
                c.keep(found)
                # torch 2.11's default mode may take code of another dtype out of its cache.
                assert [t.dtype for t in found] == [t.dtype for t in wanted]
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


@case()
def option_memory_planning(c: Context) -> object:
    """Inductor's memory planning: buffers are parts of pools."""
    train(c, memory_planning=True)


@case()
def option_combo(c: Context) -> object:
    """Combined kernels, no reuse of buffers, shape padding."""
    train(c, combo_kernels=True, allow_buffer_reuse=False, shape_padding=True)


@case()
def option_cudagraphs_too(c: Context) -> object:
    """Inductor's own CUDA graphs are asked for as well."""
    train(c, **{"triton.cudagraphs": True}) if c.mode != "default" else train(c)


@case()
def option_freezing(c: Context) -> object:
    """Frozen weights: constants of the generated module."""
    m = Net(c).eval()
    f = c.compile(m, options={"freezing": True})
    with torch.no_grad():
        for i in range(14):
            c.keep(f(c.tensor(8, 32)))
            if i == 8:
                m.a.weight.add_(1)


@case()
def option_inplace_and_asserts(c: Context) -> object:
    """No in-place buffers, no size asserts, alignment asserts, the static launcher off."""
    train(
        c,
        inplace_buffers=False,
        size_asserts=False,
        use_static_cuda_launcher=False,
        alignment_asserts=True,
    )


@case()
def option_cpp_wrapper(c: Context) -> object:
    """cpp_wrapper: no Python code to capture."""
    m = Net(c)
    f = c.compile(m, options={"cpp_wrapper": True})
    with torch.no_grad():
        for _ in range(6):
            c.keep(f(c.tensor(8, 32)))


@case()
def options_of_partitions(c: Context) -> object:
    """Inductor's own settings about partitions and CUDA graphs."""
    for options in (
        {"graph_partition": False},
        {"triton.cudagraph_skip_dynamic_graphs": True},
        {"triton.cudagraph_trees": False},
        {"triton.slow_path_cudagraph_asserts": True},
    ):
        m = Net(c, 32, 0.2)
        f = c.compile(m, dynamic=True, options=options)
        for i in range(8):
            x = c.tensor([8, 12][i % 2], 32).requires_grad_()
            y = f(x)
            y.sum().backward()
            c.keep(y, x.grad, grads(m))
            m.zero_grad()
        c.reset()


@case()
def backend_options(c: Context) -> object:
    """observe=3, no comparison, one variant, hardly any memory for graphs, no placement."""
    for options in (
        {"observe": 3},
        {"verify": False},
        {"variants": 1, "placement": False},
        {"graph_memory": 1e-9},
    ):
        m = Net(c, 32, 0.2)
        f = c.compile(m, options=options)
        for _ in range(10):
            x = c.tensor(16, 32).requires_grad_()
            step(c, f, m, x)
        c.reset()
