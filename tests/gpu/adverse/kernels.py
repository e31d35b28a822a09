"""Triton kernels of the program's own."""

from __future__ import annotations

import contextlib

import torch

from tests.gpu.adverse.harness import DEVICE, Context, case
from tests.gpu.adverse.parts import N, opaque

with contextlib.suppress(ImportError):  # there is none where torch is for CPUs
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    from tests.gpu.adverse.triton_kernels import (
        add_inplace_kernel,
        count_kernel,
        fill_with,
        put_pointer,
        read_through,
        scale_kernel,
        tma_add,
        tma_inside,
    )


def read_by_pointer(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    """Twice the numbers of `x` in reverse order, read through a pointer in GPU memory, as grouped
    matrix products do. In between it writes to memory of its own, or not, as `flag` says.
    """
    n = x.numel()
    table = torch.empty(1, dtype=torch.int64, device=x.device)
    put_pointer[(1,)](x, table)
    other = torch.empty_like(x)
    fill_with[(triton.cdiv(n, 1024),)](other, float("nan"), flag, n, 1024)
    out = torch.empty_like(x)
    read_through[(triton.cdiv(n, 1024),)](table, out, n, 1024)
    return out


@case(cuda=True)
def triton_atomic_counts(c: Context) -> object:
    """A Triton kernel adds atomically to a counter that the caller keeps; an integer argument
    changes.
    """

    def g(x, counts, k):
        count_kernel[(4,)](x, counts, x.numel(), k, 64)
        return counts * 2

    f = c.compile(g)
    counts = torch.zeros(64, dtype=torch.int32, device=DEVICE)
    with torch.no_grad():
        for i in range(36):
            c.keep(
                f(c.tensor(256, dtype=torch.int32), counts, [8, 1, 16, 17, 8][i // 4 % 5]), counts
            )
            if i % 7 == 6:
                counts = counts.clone()


@case(cuda=True)
def triton_aliased_pointers(c: Context) -> object:
    """A Triton kernel whose pointers are the same tensor on some calls, or misaligned views."""

    def g(x, y, out, s):
        scale_kernel[(2,)](x, y, out, 128, s, 64)
        return out.sum()

    f = c.compile(g)
    pool = c.tensor(1024)
    with torch.no_grad():
        for i in range(30):
            a, b, o = pool[:128], pool[256:384], pool[512:640]
            if i % 5 == 3:
                b = a
            if i % 5 == 4:
                a, o = pool[1:129], pool[515:643]
            c.keep(f(a, b, o, 1.5), pool)


@case()
def inplace_on_values_of_sizes(c: Context) -> object:
    """What is computed from sizes alone is written to: by index_put, a custom operator, a Triton
    kernel.
    """
    name = opaque("bump")

    @torch.library.custom_op(name, mutates_args=("x",))
    def bump(x: torch.Tensor) -> None:
        x.add_(1)

    def g(x):
        m = torch.arange(x.shape[0], dtype=torch.float32).sqrt().to(x.device)
        bump(m)
        k = torch.full((x.shape[0],), 3.0).cumsum(0).to(x.device)
        k[1:3] += x[1:3, 0]
        k.index_put_((torch.tensor([0], device=x.device),), x[0, :1])
        q = torch.sqrt(torch.tensor(float(x.shape[0]))).to(x.device)
        q.mul_(2)
        if x.is_cuda:
            w = torch.linspace(0, 1, 8).to(x.device)
            add_inplace_kernel[(1,)](w, 8, 8)
        else:
            w = torch.linspace(0, 1, 8).to(x.device) + 1
        return x + m[:, None], k, q, w, m

    for dynamic in (False, True):
        f = c.compile(g, dynamic=dynamic)
        with torch.no_grad():
            for i in range(30):
                c.keep(f(c.tensor([8, 8, 12][i % 3] if dynamic else 8, 4)))
        c.reset()


@case(cuda=True)
def triton_op(c: Context) -> object:
    """torch.library.triton_op with a kernel that is wrapped, forward and backward."""
    name = opaque("fused")

    @torch.library.triton_op(name, mutates_args={})
    def fused(x: torch.Tensor, y: torch.Tensor, s: float) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(scale_kernel)[(triton.cdiv(x.numel(), 64),)](
            x, y, out, x.numel(), s, 64
        )
        return out

    fused.register_autograd(
        lambda ctx, g: (g * 2.0, g, None), setup_context=lambda ctx, inputs, output: None
    )
    w = c.tensor(128).requires_grad_()
    f = c.compile(lambda x, w: fused(x, w, 2.0).sin())
    for _ in range(N):
        x = c.tensor(128).requires_grad_()
        y = f(x, w)
        y.sum().backward()
        c.keep(y, x.grad, w.grad)


@case(cuda=True)
def host_tma_descriptors(c: Context) -> object:
    """A Triton kernel with tensor descriptors made on the host and in the kernel."""

    def g(x, y):
        out = torch.empty_like(x)
        dx, dy, do = (TensorDescriptor.from_tensor(t, [16, 16]) for t in (x, y, out))
        tma_add[(2, 2)](dx, dy, do, 16)
        return out * 2

    def h(x):
        out = torch.empty_like(x)
        tma_inside[(2, 2)](x, out, 32, 32, 16)
        return out + x

    triton.set_allocator(
        lambda size, align, stream: torch.empty(size, device=DEVICE, dtype=torch.int8)
    )
    f1, f2 = c.compile(g), c.compile(h)
    pool = c.tensor(1 << 14)
    with torch.no_grad():
        for i in range(20):
            at = (i * 256) % 4096
            x, y = pool[at : at + 1024].view(32, 32), pool[8192 + at : 9216 + at].view(32, 32)
            c.keep(c.attempt(f1, x, y), c.attempt(f2, x))


@case(cuda=True, expected="limit")
def pointer_in_memory_inference(c: Context) -> object:
    """An operator reads a large intermediate through a pointer that it keeps in GPU memory."""
    name = opaque("through")

    @torch.library.custom_op(name, mutates_args=())
    def through(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return read_by_pointer(x, flag)

    through.register_fake(lambda x, flag: torch.empty_like(x))
    f = c.compile(lambda a, flag: through(a.sin(), flag).sum(0) + 1)
    spare = [torch.empty(1 << 24, device=DEVICE) for _ in range(6)]
    a = c.tensor(1 << 20).repeat(16).view(4096, 4096)
    with torch.no_grad():
        for i in range(16):
            if i == 2:
                spare.clear()  # free memory of this size, for the comparison of the first call
            if i == 6:
                torch.cuda.empty_cache()
            c.keep(f(a + i, torch.tensor([int(i > 8)], device=DEVICE)))


@case(cuda=True, expected="limit")
def pointer_in_memory_training(c: Context) -> object:
    """The same with a saved activation that the backward reads through a pointer."""
    name, name2 = opaque("keep"), opaque("keep_back")

    @torch.library.custom_op(name, mutates_args=())
    def keep(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return x * 1.5

    @torch.library.custom_op(name2, mutates_args=())
    def back(x: torch.Tensor, g: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return read_by_pointer(x, flag) * g

    keep.register_fake(lambda x, flag: torch.empty_like(x))
    back.register_fake(lambda x, g, flag: torch.empty_like(x))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, g):
        x, flag = ctx.saved_tensors
        return back(x, g.contiguous(), flag), None

    keep.register_autograd(backward, setup_context=setup)
    w = (c.tensor(4096) * 0.1).requires_grad_()
    f = c.compile(lambda a, flag: keep((a * w).sin(), flag).cos() * 0.5)
    a = c.tensor(1 << 20).repeat(16).view(4096, 4096)
    for i in range(16):
        if i == 6:
            torch.cuda.empty_cache()
        y = f(a + i, torch.tensor([int(i > 8)], device=DEVICE))
        y.backward(torch.ones_like(y))
        c.keep(w.grad)
        w.grad = None
        del y
