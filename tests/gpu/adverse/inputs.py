"""What comes in: memory that is shared or moves, layouts, dtypes, Python numbers."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

from tests.gpu.adverse.harness import DEVICE, Context, case
from tests.gpu.adverse.parts import N, Net, churn, filled, grads, some


@case()
def overlapping_views(c: Context) -> object:
    """Two inputs are views of one storage, which overlap in other ways from call to call."""
    f = c.compile(lambda a, b: (a * 2 + b.flip(0), a @ b.t(), b[1:]))
    pool = c.tensor(4096)
    with torch.no_grad():
        for i in range(N):
            k, j = (i * 64) % 1024, (i * 96 + (i % 5 == 4)) % 1024
            c.keep(f(pool[k : k + 1024].view(32, 32), pool[j : j + 1024].view(32, 32)))


@case()
def overlapping_mutated(c: Context) -> object:
    """An input is written to; another one overlaps it on some calls only."""

    def g(a, b):
        a.mul_(0.5).add_(b)
        return a.sum(0), b * 3

    f = c.compile(g)
    pool = c.tensor(8192) * 0.1
    with torch.no_grad():
        for i in range(N):
            k = (i % 4) * 512 if i % 3 else 4096
            r = c.attempt(f, pool[:1024].view(32, 32), pool[k : k + 1024].view(32, 32))
            c.keep(r, pool)


@case()
def output_feeds_next_input(c: Context) -> object:
    """Outputs, views of outputs and mutated inputs of a call are the inputs of the next one."""

    def g(x, y):
        x.add_(y, alpha=0.1)
        z = torch.tanh(x @ y)
        return z, x, z[::2]

    f = c.compile(g)
    x, y = c.tensor(32, 32), c.tensor(32, 32)
    with torch.no_grad():
        for i in range(N):
            z, same, half = f(x, y)
            c.keep(z, half, same is x)
            x, y = (z, same) if i % 2 else (same, z)


@case()
def pool_slices_alignment(c: Context) -> object:
    """Slices of a pool with every alignment, written to by the call."""

    def g(x, s):
        x.copy_(x * s + 1)
        return x.cumsum(0), (x > 0).sum()

    f = c.compile(g)
    pool = c.tensor(1 << 14)
    with torch.no_grad():
        for i in range(48):
            at = [0, 64, 1, 4, 128, 3, 16, 2][i % 8] * (1 + i // 8)
            c.keep(f(pool[at : at + 1000], c.tensor(1)), pool)


@case()
def storage_swapped(c: Context) -> object:
    """set_, .data =, storage resized to nothing and back, between calls, of inputs and weights."""
    m = Net(c)
    f = c.compile(m)
    x = c.tensor(16, 32)
    with torch.no_grad():
        for i in range(N):
            if i % 6 == 1:
                x.set_(c.tensor(16, 32))
            if i % 6 == 2:
                m.a.weight.data = c.tensor(64, 32)
            if i % 6 == 3:
                x = x.clone()
                copy_ = x.clone()
                x.untyped_storage().resize_(0)
                _junk = churn(i)
                x.untyped_storage().resize_(copy_.nbytes)
                x.copy_(copy_)
            if i % 6 == 4:
                m.b.weight.set_(
                    c.tensor(32 * 64 + 8).untyped_storage(), 8 * (i % 2), (32, 64), (64, 1)
                )
            c.keep(f(x), x)


@case()
def requires_grad_toggled(c: Context) -> object:
    """requires_grad of an input and of a weight, no_grad and inference_mode alternate."""
    m = Net(c)
    f = c.compile(m)
    modes = [contextlib.nullcontext, torch.no_grad, torch.inference_mode]
    for i in range(36):
        x = c.tensor(8, 32).requires_grad_(i % 2 == 0)
        m.a.weight.requires_grad_(i % 4 < 2)
        with modes[i // 6 % 3]():
            y = f(x)
            c.keep(y, y.requires_grad, y.is_inference())
        if y.requires_grad:
            y.sin().sum().backward()
            c.keep(x.grad, grads(m))
            m.zero_grad()


@case()
def strides_change(c: Context) -> object:
    """The same shape with other strides and offsets; static and dynamic."""
    base = c.tensor(64, 64)
    for dynamic in (False, True):
        f = c.compile(lambda x: (x.softmax(-1) @ x, x.mean(0), x.t()), dynamic=dynamic)
        with torch.no_grad():
            for i in range(N):
                x = [
                    base[:32, :32],
                    base[:32, :32].t(),
                    base[::2, ::2],
                    base[1, :32].expand(32, 32),
                    base[:32, :32].clone(),
                    base[5:37, 3:35],
                ][i % 6 if i > 12 else i % 2]
                c.keep(f(x))
        c.reset()


@case()
def zero_sizes(c: Context) -> object:
    """Batches of no rows between others."""
    m = Net(c)
    f = c.compile(m, dynamic=True)
    for i in range(N):
        x = c.tensor([4, 0, 7, 4, 0, 4][i % 6], 32).requires_grad_()
        y = f(x)
        y.sum().backward()
        c.keep(y, x.grad, grads(m))
        m.zero_grad()


# Without torch's caches: code compiled for 0.0 is found there for -0.0, too.
@case(env={"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"})
def python_scalars(c: Context) -> object:
    """Floats, ints, bools and None alternate: both zeros, NaN, infinity, True beside 1."""

    def g(x, s, b=None):
        y = x * s
        return (
            y + b
            if b is not None
            else (y, 1 / (y.abs() + 1e-9), torch.copysign(x, torch.full_like(x, s)))
        )

    f = c.compile(g)
    x = c.tensor(16)
    values = [0.0, -0.0, 1, True, 1.0, float("nan"), float("inf"), 2.5, 2.5, 2.5, 0.0, -0.0]
    torch._dynamo.config.recompile_limit = 32
    with torch.no_grad():
        for i in range(60):
            v = values[i % 12] if i % 2 else values[i // 5]
            c.keep(f(x, v), f(x, v, None if i % 3 else x))
    f2 = c.compile(g, dynamic=True)
    with torch.no_grad():
        for i in range(60):
            c.keep(f2(x, [0.0, -0.0, 0.25, 0.25][i % 4]), f2(x, i // 4))


@case()
def dtypes(c: Context) -> object:
    """bool, int8, uint8, float64, float16, bfloat16 and float8, in and out."""

    def g(a, b, i8, u8, f64, h):
        return (
            a & b,
            i8 // 3 + u8.to(torch.int16),
            f64.cumsum(0),
            h.to(torch.float8_e4m3fn),
            h.to(torch.float8_e5m2).to(torch.float32),
            (u8 >> 1),
            a.sum(),
            i8.amax(),
            h.argsort(),
        )

    f = c.compile(g)
    with torch.no_grad():
        for _ in range(12):
            c.keep(
                f(
                    c.tensor(64, dtype=torch.bool),
                    c.tensor(64, dtype=torch.bool),
                    c.tensor(64, dtype=torch.int8),
                    c.tensor(64, dtype=torch.uint8),
                    c.tensor(64, dtype=torch.float64),
                    c.tensor(64, dtype=torch.bfloat16),
                )
            )


@case()
def complex_and_conj(c: Context) -> object:
    """Complex inputs, conjugate and negative views as inputs, alternating; gradients too."""
    f = c.compile(
        lambda z, w: (z @ w, z.abs(), torch.view_as_real(z * 2), z.imag * 3, w.conj() + z)
    )
    w = c.tensor(8, 8, dtype=torch.complex64).requires_grad_()
    for i in range(N):
        z = c.tensor(8, 8, dtype=torch.complex64)
        z = z.conj() if i % 2 and i > 8 else z
        r = c.attempt(f, z, w)
        if isinstance(r, str):
            c.keep(r)
            continue
        sum(t.abs().sum() for t in r).backward()
        c.keep(r, w.grad)
        w.grad = None


@case()
def jagged_nested(c: Context) -> object:
    """Jagged nested tensors of other lengths on each call."""
    lin = nn.Linear(8, 8).to(DEVICE)
    with torch.no_grad():
        lin.weight.copy_(c.tensor(8, 8)), lin.bias.zero_()

    f = c.compile(lambda n: torch.relu(lin(n)) * 2)
    for i in range(18):
        rows = [[3, 5], [3, 5], [3, 5], [2, 2, 7], [2, 2, 7], [1]][i % 6]
        n = torch.nested.nested_tensor([c.tensor(r, 8) for r in rows], layout=torch.jagged)
        r = c.attempt(lambda: f(n).values())
        c.keep(r)


@case()
def nan_and_signed_zero_inputs(c: Context) -> object:
    """Not-a-numbers with payloads, infinities, denormals and both zeros go through bit for bit."""
    f = c.compile(
        lambda x, h: (
            x.clone(),
            x + 0.0,
            x.minimum(x.flip(0)),
            torch.sort(x)[0],
            -x,
            h.view(torch.int16).clone(),
            x.sign(),
        )
    )
    bits = torch.tensor(
        [0x7FC00001, 0x7F800001, -0x400000, 0x00000001, -0x80000000, 0x7F800000, 0x3F800000, 0],
        dtype=torch.int64,
    ).to(torch.int32)
    x, h = bits.view(torch.float32).to(DEVICE), c.tensor(8, dtype=torch.bfloat16)
    with torch.no_grad():
        for i in range(12):
            c.keep(f(x.roll(i).clone(), h))


@case()
def the_same_tensor_twice(c: Context) -> object:
    """Two arguments are the same tensor on some calls; one of them is written to, or a weight is
    passed.
    """
    m = Net(c)

    def g(a, b, k):
        if k:
            a.mul_(0.99)
        return a @ b.t(), b + m.a.weight[0, 0]

    f = c.compile(g)
    pool = [c.tensor(32, 32) for _ in range(3)]
    with torch.no_grad():
        for i in range(36):
            a, b = pool[i % 3], pool[(i * i) % 3]
            if i % 9 == 8:
                b = m.a.weight[:32]
            c.keep(f(a, b, i % 2), *pool)


@case()
def memory_formats_alternate(c: Context) -> object:
    """Channels-last and contiguous inputs and gradients alternate; gradients are kept and
    preallocated.
    """
    torch.backends.cudnn.deterministic = True
    m = filled(c, nn.Sequential(nn.Conv2d(4, 8, 3), nn.GELU(), nn.Conv2d(8, 4, 1)), 0.3)
    f = c.compile(m)
    for i in range(26):
        x = c.tensor(2, 4, 9, 9)
        x = (x.to(memory_format=torch.channels_last) if i % 3 == 2 else x).requires_grad_()
        g = c.tensor(2, 4, 7, 7)
        g = g.to(memory_format=torch.channels_last) if i % 4 > 1 else g

        def train():
            y = f(x)
            y.backward(g)
            c.keep(y, x.grad, grads(m))

        # torch 2.11 guards no strides of weights: there, compiled code raises after the change.
        c.keep(c.attempt(train))
        if i % 5 == 4:
            m.zero_grad(set_to_none=i % 2 == 0)
        if i == 15:
            m.to(memory_format=torch.channels_last)
    torch.backends.cudnn.deterministic = False


@case()
def subclass_of_two_tensors(c: Context) -> object:
    """Inputs and weights are a subclass of two tensors, one of which alone moves."""
    from torch.testing._internal.two_tensor import TwoTensor

    w = nn.Parameter(TwoTensor(c.tensor(16, 16), c.tensor(16, 16)))
    f = c.compile(lambda x: (x @ w).sin())
    for i in range(16):
        x = TwoTensor(c.tensor(8, 16), c.tensor(8, 16)).requires_grad_()
        y = f(x)
        y.sum().backward()
        c.keep(y.a, y.b, x.grad.a, w.grad.a, w.grad.b)
        w.grad = None
        if i == 8:
            w.data.b.mul_(2)


@case()
def static_addresses_that_move(c: Context) -> object:
    """Inputs that are marked static move, and so do marked buffers."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", c.tensor(32))

        def forward(self, x, y):
            self.b.mul_(0.9)
            return x * self.b + y

    m = M()
    torch._dynamo.mark_static_address(m.b)
    f = c.compile(m)
    y = c.tensor(32)
    torch._dynamo.mark_static_address(y)
    with torch.no_grad():
        for i in range(N):
            if i in (8, 15):
                y = c.tensor(40)[i % 8 : 32 + i % 8]
                torch._dynamo.mark_static_address(y)
            if i == 18:
                m.b.data = c.tensor(32)
            c.keep(f(c.tensor(4, 32), y), m.b)


@case()
def versions_of_inputs(c: Context) -> object:
    """Version counters of inputs and buffers that compiled code writes to; saved by autograd
    outside.
    """

    def g(x, y):
        x.add_(y)
        return x * 2

    f = c.compile(g)
    w = c.tensor(16).requires_grad_()
    for _ in range(16):
        x, y = c.tensor(16), c.tensor(16)
        z = (w * x).sum()
        before = x._version
        r = f(x, y)
        c.keep(r, x, x._version - before, y._version, c.attempt(lambda: z.backward()))


@case()
def inputs_at_the_end_of_a_segment(c: Context) -> object:
    """Inputs are slices at the very end of their memory segment, at offsets that change."""
    pool = c.tensor(1 << 19)
    f = c.compile(lambda x: (x.clone(), x * 2, x.sum(), torch.roll(x, 1)))
    with torch.no_grad():
        for i in range(20):
            n = [128, 128, 64, 128][i % 4]
            c.keep(
                f(pool[(1 << 19) - 128 * (1 + i % 3) :][:128]),
                f(pool[(1 << 19) - n :][:n].view(-1)) if n == 128 else None,
            )


@case()
def large_inputs_written(c: Context) -> object:
    """Large inputs that are written to, views of one storage, results that are views of them."""

    def g(x, y, i):
        x.mul_(0.9)
        x[i] = y[0]
        z = torch.sort(x @ y.t(), dim=-1)[0]
        y.copy_(z[:, : y.shape[1]])
        return z, x[1:], y.view(-1)[7:]

    f = c.compile(g)
    pool = c.tensor(3 * 1024 * 1024) * 0.01
    with torch.no_grad():
        for i in range(16):
            at = (i % 5) * 4096
            x, y = (
                pool[at : at + (1 << 20)].view(1024, 1024),
                pool[(1 << 21) - at : 3 * (1 << 20) - at].view(1024, 1024),
            )
            z, v, w = f(x, y, torch.tensor([i], device=DEVICE))
            c.keep(
                some(z), some(pool), v.data_ptr() - pool.data_ptr(), w.data_ptr() - pool.data_ptr()
            )
