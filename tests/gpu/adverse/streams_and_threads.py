"""Streams, threads, coroutines, and CUDA graphs of the caller's own."""

from __future__ import annotations

import asyncio
import threading

import torch
import torch.nn.functional as F

from tests.gpu.adverse.harness import DEVICE, Context, case, wait
from tests.gpu.adverse.parts import Net, churn, grads, some


@case(cuda=True)
def streams_rotating(c: Context) -> object:
    """Three streams in turn, inputs freed at once, results used on another stream."""
    m = Net(c, 256)
    f = c.compile(m)
    streams = [torch.cuda.Stream(priority=-1), torch.cuda.Stream(), torch.cuda.current_stream()]
    given = [c.tensor(256, 256) for _ in range(45)]
    wait()
    with torch.no_grad():
        for i in range(45):
            s, o = streams[i % 3], streams[(i + i // 9) % 3]
            with torch.cuda.stream(s):
                x = given[i] * 2
                y = f(x)
                x.fill_(float("nan"))
                del x
            o.wait_stream(s)
            y.record_stream(o)
            with torch.cuda.stream(o):
                z = f(y)
            torch.cuda.current_stream().wait_stream(o)
            torch.cuda.current_stream().wait_stream(s)
            c.keep(y[:8], z[:8])


@case(cuda=True)
def streams_inside(c: Context) -> object:
    """The compiled function switches streams and records events itself."""
    s = torch.cuda.Stream()

    def g(x):
        y = x * 2
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            z = (y @ y).sin()
        torch.cuda.current_stream().wait_stream(s)
        return z + y

    f = c.compile(g)
    with torch.no_grad():
        for _ in range(14):
            c.keep(c.attempt(f, c.tensor(128, 128)))


@case(cuda=True)
def large_on_two_streams(c: Context) -> object:
    """Large intermediates, two streams that never wait for each other, inputs freed at once."""

    def g(x):
        a = F.gelu(x @ x)
        b = torch.sort(a, dim=-1)[0]
        d = a.softmax(-1) @ b
        return d + b, d.sum(0), (a * 2).t()

    f = c.compile(g)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    given = [c.tensor(768, 768) for _ in range(24)]
    results = []
    wait()
    with torch.no_grad():
        for i in range(24):
            with torch.cuda.stream(streams[i % 2]):
                x = given[i] + 1
                r = f(x)
                x.fill_(float("nan"))
                del x
                results.append([some(t) for t in r])
                del r
        wait()
    return results


@case(cuda=True)
def backward_on_other_streams(c: Context) -> object:
    """Forward on one stream, loss and backward on another one, several steps not waited for."""
    m = Net(c, 128)
    f = c.compile(m)
    streams = [torch.cuda.Stream() for _ in range(3)]
    pending = []
    x0 = [c.tensor(256, 128) for _ in range(30)]
    wait()
    for i in range(30):
        s, b = streams[i % 3], streams[(i + 1) % 3]
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            x = x0[i].detach().requires_grad_()
            y = f(x)
        b.wait_stream(s)
        with torch.cuda.stream(b):
            y.record_stream(b)
            loss = y.sin().sum()
            loss.backward()
        torch.cuda.current_stream().wait_stream(b)
        torch.cuda.current_stream().wait_stream(s)
        pending.append((y, x.grad))
        c.keep(*grads(m))
        m.zero_grad()
    c.keep(*pending)


@case()
def backward_in_threads(c: Context) -> object:
    """Backward is called from other threads than the forward."""
    m = Net(c)
    f = c.compile(m)
    for _ in range(18):
        x = c.tensor(8, 32).requires_grad_()
        y = f(x)
        t = threading.Thread(target=lambda: y.sin().sum().backward())
        t.start()
        t.join()
        c.keep(y, x.grad, grads(m))


@case(cuda=True)
def threads_share_code(c: Context) -> object:
    """Four threads call the same compiled code on streams of their own, in training."""
    m = Net(c, 64)
    f = c.compile(m)
    for _ in range(4):
        x = c.tensor(32, 64).requires_grad_()
        f(x).sin().sum().backward()
    given = [[c.tensor(32, 64) for _ in range(20)] for _ in range(4)]
    results = [None] * 4
    wait()

    def work(k):
        mine = []
        with torch.cuda.stream(torch.cuda.Stream()):
            for x in given[k]:
                x = x.detach().requires_grad_()
                y = f(x)
                (g,) = torch.autograd.grad(y.sin().sum(), x)
                mine.append((y.detach(), g))
            torch.cuda.current_stream().synchronize()
        results[k] = mine

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


@case(cuda=True)
def threads_make_graphs_together(c: Context) -> object:
    """Four threads make the first calls of four functions together, each in its own stream."""
    ms = [Net(c, 32 + 16 * k) for k in range(4)]
    fs = [c.compile(m) for m in ms]
    given = [[c.tensor(16, 32 + 16 * k) for _ in range(24)] for k in range(4)]
    for k in range(4):
        with torch.no_grad():
            fs[k](given[k][0])  # compiled one by one; graphs are made together
    results = [[] for _ in range(4)]
    wait()

    def work(k):
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for x in given[k]:
                results[k].append(fs[k](x))
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wait()
    return results


@case()
def small_thread_stacks(c: Context) -> object:
    """The calls that make graphs come from threads with small stacks."""
    ms = [Net(c, 32, 0.2) for _ in range(3)]
    fs = [c.compile(m) for m in ms]
    given = [[c.tensor(8, 32) for _ in range(10)] for _ in range(3)]
    for f, xs in zip(fs, given, strict=True):
        with torch.no_grad():
            f(xs[0])
    results = []
    for size, f, xs in zip((160 << 10, 256 << 10, 512 << 10), fs, given, strict=True):
        old = threading.stack_size(size)

        def work():
            with torch.no_grad():
                for x in xs:
                    results.append(f(x))

        t = threading.Thread(target=work)
        t.start()
        t.join()
        threading.stack_size(old)
    return results


@case()
def coroutines(c: Context) -> object:
    """Coroutines take turns between forward and backward."""
    m = Net(c)
    f = c.compile(m)
    order = []

    async def worker(k):
        for i in range(8):
            x = given[k][i].detach().requires_grad_()
            y = f(x)
            await asyncio.sleep(0)
            (g,) = torch.autograd.grad(y.sin().sum(), x)
            order.append((k, y.detach(), g))
            await asyncio.sleep(0)

    given = [[c.tensor(8, 32) for _ in range(8)] for _ in range(4)]

    async def run():
        await asyncio.gather(*[worker(k) for k in range(4)])

    asyncio.run(run())
    return order


@case(cuda=True)
def whole_step_captured_by_caller(c: Context) -> object:
    """The caller captures forward, backward and optimizer in a CUDA graph, before and after
    serving.
    """
    m = Net(c, 64)
    f = c.compile(m)
    opt = torch.optim.SGD(m.parameters(), lr=0.01, foreach=True)
    static = c.tensor(16, 64)

    def step(x):
        opt.zero_grad(set_to_none=False)
        y = f(x)
        y.sin().sum().backward()
        opt.step()
        return y

    side = torch.cuda.Stream()
    for round_ in range(2):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(1 if round_ == 0 else 6):
                step(static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = step(static)
        for i in range(6):
            static.copy_(c.tensor(16, 64))
            graph.replay()
            c.keep(out.detach().clone(), [p.detach().clone() for p in m.parameters()])
            c.keep(step(c.tensor(16, 64)))
            _junk = churn(i)


@case(cuda=True)
def graphed_callables(c: Context) -> object:
    """torch.cuda.make_graphed_callables around compiled code, mixed with direct calls."""
    m = Net(c, 64)
    f = c.compile(m)
    x = c.tensor(16, 64).requires_grad_()
    for _ in range(4):
        f(x).sum().backward()
    h = c.attempt(torch.cuda.make_graphed_callables, lambda t: f(t).sin(), (x,))
    m.zero_grad()
    for _ in range(12):
        for call in (h, f):
            if isinstance(call, str):
                c.keep(call)
                continue
            x = c.tensor(16, 64).requires_grad_()
            y = call(x)
            y.sum().backward()
            c.keep(y.detach().clone(), x.grad.clone(), grads(m))
        m.zero_grad()


@case(cuda=True)
def first_calls_inside_a_capture(c: Context) -> object:
    """The very first calls are made inside of a capture of the caller's, with dropout."""
    m = Net(c, 32, 0.5)
    f = c.compile(m)
    static = c.tensor(8, 32)
    with torch.no_grad():
        c.keep(f(static))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            a = f(static)
            b = f(a)
        for _ in range(16):
            graph.replay()
            c.keep(a.clone(), b.clone(), f(c.tensor(8, 32)), torch.rand(1, device=DEVICE))
