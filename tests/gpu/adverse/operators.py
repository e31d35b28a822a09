"""Operators of the program's own: state, side effects, other streams."""

from __future__ import annotations

import gc

import torch
import torch.nn.functional as F

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, Skip, case, wait
from tests.gpu.adverse.parts import N, Net, churn, grads, opaque


@case(expected="limit")
def op_with_host_scale(c: Context) -> object:
    """A custom operator reads a Python number that the program changes (a schedule)."""
    state, name = {"s": 1.0}, opaque("scaled")

    @torch.library.custom_op(name, mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * state["s"]

    scaled.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: scaled(x) + 1)
    with torch.no_grad():
        for i in range(N):
            state["s"] = 1.0 if i < 10 else 3.0
            c.keep(f(c.tensor(16)))


@case(expected="limit")
def op_counts_every_tenth(c: Context) -> object:
    """A custom operator does something else on every tenth call (host control flow)."""
    state, name = {"n": 0}, opaque("tenth")

    @torch.library.custom_op(name, mutates_args=("x",))
    def tenth(x: torch.Tensor) -> None:
        state["n"] += 1
        if state["n"] % 10 == 0:
            x.zero_()
        else:
            x.add_(1)

    f = c.compile(lambda x: (tenth(x), x * 2)[1])
    x = c.tensor(16)
    with torch.no_grad():
        for _ in range(36):
            c.keep(f(x), x)
    return state["n"]


@case()
def op_keeps_a_table(c: Context) -> object:
    """A custom operator keeps a table on the GPU, makes a larger one when asked, and reads past its
    start.
    """
    table, name = {"t": None}, opaque("rotary")

    @torch.library.custom_op(name, mutates_args=())
    def rotary(x: torch.Tensor, scale: float) -> torch.Tensor:
        if table["t"] is None:
            table["t"] = torch.arange(4096, device=x.device, dtype=torch.float32) * 0.01
        return x * table["t"][3 : 3 + x.shape[0], None]

    rotary.register_fake(lambda x, scale: torch.empty_like(x))
    f = c.compile(lambda x: rotary(x, 1.0) + 1)
    with torch.no_grad():
        for i in range(N):
            if i == 12:
                table["t"] = torch.arange(8192, device=DEVICE, dtype=torch.float32) * 0.02
                gc.collect()
                _junk = torch.full((4096,), float("nan"), device=DEVICE)
            c.keep(f(c.tensor(8, 4)))


@case()
def op_keeps_state_on_gpu(c: Context) -> object:
    """A custom operator updates a GPU tensor of its own, which the program reads and replaces."""
    state, name = {"n": torch.zeros(70, device=DEVICE)}, opaque("running")

    @torch.library.custom_op(name, mutates_args=())
    def running(x: torch.Tensor) -> torch.Tensor:
        state["n"][5:21].mul_(0.9).add_(x)
        return state["n"][5:21] * 2

    running.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: running(x) + x)
    with torch.no_grad():
        for i in range(N):
            if i == 14:
                state["n"] = torch.ones(70, device=DEVICE)
            c.keep(f(c.tensor(16)), state["n"])


@case(expected="limit")
def op_remembers_its_input(c: Context) -> object:
    """A custom operator keeps the tensor that it was given last (a cache for a later backward)."""
    last, name = [None], opaque("remember")

    @torch.library.custom_op(name, mutates_args=())
    def remember(x: torch.Tensor) -> torch.Tensor:
        last[0] = x
        return x * 2

    remember.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: remember(x + 1) - 1)
    with torch.no_grad():
        for _ in range(N):
            c.keep(f(c.tensor(16)))
            c.keep(last[0].clone())


@case(cuda=True)
def op_on_side_stream(c: Context) -> object:
    """A custom operator forks to a stream of its own and joins again, with and without a pause."""
    side, name = torch.cuda.Stream(), opaque("forked")

    @torch.library.custom_op(name, mutates_args=())
    def forked(x: torch.Tensor) -> torch.Tensor:
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            y = x * 2
            for _ in range(10):
                y = y * 1.01 + x
        z = x.cumsum(0)
        here.wait_stream(side)
        y.record_stream(here)
        return y + z

    forked.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: forked(x * 3).relu() @ x)
    with torch.no_grad():
        for i in range(N):
            _junk = churn(i)
            c.keep(f(c.tensor(256, 256)))


@case()
def effectful_op(c: Context) -> object:
    """A custom operator that is registered with an ordered effect, in a nested region, too."""
    try:
        from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
    except ImportError:
        raise Skip("no effects in this torch") from None

    seen, name = [], opaque("effect")

    @torch.library.custom_op(name, mutates_args=())
    def effect(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return x + 1

    effect.register_fake(lambda x: torch.empty_like(x))
    _register_effectful_op(effect._opoverload, _EffectType.ORDERED)
    f = c.compile(lambda x: effect(x * 2) + effect(x))
    nested = torch.compiler.nested_compile_region(lambda x: effect(x.sin()).cos())
    g = c.compile(lambda x: nested(nested(x)) + 1)
    with torch.no_grad():
        for _ in range(12):
            c.keep(f(c.tensor(16)), g(c.tensor(16)))
    return len(seen)


@case()
def op_returns_a_cached_tensor(c: Context) -> object:
    """A custom operator returns the same tensor on each call, until the program replaces it."""
    cache, name = {"t": c.tensor(64)}, opaque("cached")

    @torch.library.custom_op(name, mutates_args=())
    def cached(x: torch.Tensor) -> torch.Tensor:
        return cache["t"]

    cached.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: (cached(x), cached(x) * x))
    with torch.no_grad():
        for i in range(N):
            if i == 10:
                cache["t"] = c.tensor(64)
            if i == 16:
                cache["t"].fill_(3)
            a, b = f(c.tensor(64))
            c.keep(a, b)


@case()
def op_returns_parts(c: Context) -> object:
    """A custom operator returns parts of larger memory, expanded tensors, several of one storage,
    none.
    """
    name = opaque("parts")

    @torch.library.custom_op(name, mutates_args=())
    def parts(
        x: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        big = x.new_empty(1000)
        big[:100].copy_(x.view(-1)[:100])
        other = (x * 2).contiguous()
        return (
            big[3:103].view(10, 10),
            x[:1].sum().clone().expand(5),
            other[1:].clone()[1:],
            [other.clone(), other.new_zeros(0)],
        )

    @parts.register_fake
    def _(x):
        return (
            x.new_empty(1000)[3:103].view(10, 10),
            x.new_empty(()).expand(5),
            x.new_empty(*x.shape)[1:][1:],
            [torch.empty_like(x), x.new_empty(0)],
        )

    f = c.compile(lambda x: parts(x + 1))
    g = c.compile(lambda x: [t * 2 for t in (lambda r: (r[0], r[1], r[2], r[3][0]))(parts(x))])
    with torch.no_grad():
        for _ in range(16):
            r = c.attempt(f, c.tensor(12, 12))
            if not isinstance(r, str):
                c.keep(r[1:], r[0].view(-1)[:97], r[0].storage_offset())
                c.keep(r[0].untyped_storage().nbytes())
            c.keep(c.attempt(lambda: [t.view(-1)[:90] for t in g(c.tensor(12, 12))]))


@case()
def op_that_calls_compiled_code(c: Context) -> object:
    """A custom operator runs compiled code itself; both draw random numbers."""
    m = Net(c, 16)
    inner = c.compile(lambda x: F.dropout(m(x), 0.5))
    name = opaque("nested")

    @torch.library.custom_op(name, mutates_args=())
    def nested(x: torch.Tensor) -> torch.Tensor:
        return inner(x).clone()

    nested.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: F.dropout(nested(x * 2), 0.3).sin())
    with torch.no_grad():
        for i in range(N):
            c.keep(f(c.tensor(8, 16)), inner(c.tensor(8, 16)) if i % 3 == 0 else None)


@case()
def op_that_waits_or_empties(c: Context) -> object:
    """Custom operators that wait for the GPU, empty the cache, or print a value."""
    name, name2 = opaque("waits"), opaque("empties")

    @torch.library.custom_op(name, mutates_args=())
    def waits(x: torch.Tensor) -> torch.Tensor:
        return x * float(x.abs().max())

    @torch.library.custom_op(name2, mutates_args=())
    def empties(x: torch.Tensor) -> torch.Tensor:
        y = x.new_empty(1 << 19).fill_(1)
        del y
        if CUDA:
            torch.cuda.empty_cache()
        return x + 1

    waits.register_fake(lambda x: torch.empty_like(x))
    empties.register_fake(lambda x: torch.empty_like(x))
    f, g = (
        c.compile(lambda x: waits(x.sin()) + F.dropout(x, 0.5)),
        c.compile(lambda x: empties(x * 2) + torch.rand_like(x)),
    )
    with torch.no_grad():
        for _ in range(14):
            c.keep(f(c.tensor(16)), g(c.tensor(16)), torch.rand(1, device=DEVICE))


@case()
def unsafe_op_in_training(c: Context) -> object:
    """An operator that may not be captured splits a training step; it writes to what the parts pass
    on.
    """
    name, name2 = opaque("unsafe"), opaque("unsafe_write")
    tags = (torch.Tag.cudagraph_unsafe,)

    @torch.library.custom_op(name, mutates_args=(), tags=tags)
    def unsafe(x: torch.Tensor) -> torch.Tensor:
        return x * (1.0 if float(x.sum()) > 0 else 2.0)

    @torch.library.custom_op(name2, mutates_args=("x",), tags=tags)
    def unsafe_write(x: torch.Tensor, k: float) -> None:
        x.add_(k)

    unsafe.register_fake(lambda x: torch.empty_like(x))
    unsafe.register_autograd(lambda ctx, g: g * 1.5, setup_context=lambda ctx, inputs, output: None)
    m1, m2 = Net(c, 32, 0.2), Net(c, 32, 0.2)

    def g(x, scratch):
        h = unsafe(m1(x))
        unsafe_write(scratch, 1.0)
        y = m2(h) * scratch.clone()
        scratch.mul_(0.5)
        return y, h, h.view(-1)[3:]

    f = c.compile(g)
    scratch = c.tensor(32)
    for i in range(N):
        x = c.tensor(8, 32).requires_grad_()
        y, h, v = f(x, scratch)
        (y.sin().sum() + h.sum()).backward()
        c.keep(y, h, v, x.grad, scratch, grads(m1))
        if i % 8 == 7:
            scratch = scratch.clone()
        m1.zero_grad(), m2.zero_grad()


@case()
def unsafe_op_dynamic(c: Context) -> object:
    """The same without gradients, with sizes that change and integers that one part gives to the
    next.
    """
    name = opaque("unsafe")

    @torch.library.custom_op(name, mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
    def unsafe(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    unsafe.register_fake(lambda x: torch.empty_like(x))

    def g(x, y):
        a = torch.cat([x, y]).sin()
        b = unsafe(a)
        z = b.t() @ a
        return unsafe(z).view(-1)[: x.shape[0]] * x.shape[0], b[x.shape[0] :], a.shape[0]

    f = c.compile(g, dynamic=True)
    with torch.no_grad():
        for i in range(40):
            n = [4, 4, 4, 6, 9, 4, 6][i % 7]
            c.keep(f(c.tensor(n, 8), c.tensor(13 - n if i % 2 else 5, 8)))


@case(cuda=True, expected="limit")
def op_counts_on_a_side_stream(c: Context) -> object:
    """A custom operator adds to a counter of its own on a stream that it does not join."""
    side, counter, name = torch.cuda.Stream(), torch.zeros(8, device=DEVICE), opaque("stat")
    wait()

    @torch.library.custom_op(name, mutates_args=())
    def stat(x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(side):
            counter.add_(1)
        return x * 2

    stat.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: stat(x.sin()) + 1)
    with torch.no_grad():
        for _ in range(N):
            c.keep(f(c.tensor(16)))
    wait()
    return counter


@case(expected="limit")
def op_draws_on_the_cpu(c: Context) -> object:
    """A custom operator draws from the CPU's generator, and from NumPy-like host state, on each
    call.
    """
    name = opaque("cpu_noise")

    @torch.library.custom_op(name, mutates_args=())
    def noise(x: torch.Tensor) -> torch.Tensor:
        return x + float(torch.rand(()))

    noise.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: noise(x) * 2)
    with torch.no_grad():
        for _ in range(N):
            c.keep(f(c.tensor(16)))


@case(expected="limit")
def op_reads_an_iterator(c: Context) -> object:
    """A custom operator takes the next number of an iterator, and raises when it is at its end."""
    numbers, name = iter([0.5] * 20), opaque("feed")

    @torch.library.custom_op(name, mutates_args=())
    def feed(x: torch.Tensor) -> torch.Tensor:
        value = next(numbers, None)
        if value is None:
            raise IndexError("at its end")
        return x * value

    feed.register_fake(lambda x: torch.empty_like(x))
    f = c.compile(lambda x: feed(x.cos()) - 1)
    with torch.no_grad():
        for _ in range(26):
            c.keep(c.attempt(f, c.tensor(16)))
    return len(list(numbers))
