"""Seeds, states and offsets of random numbers."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, case
from tests.gpu.adverse.parts import N, Net, grads, net_of, some


@case()
def random_state_games(c: Context) -> object:
    """Seeds, states, forks and offsets are set between calls, and between forward and backward."""
    m = Net(c, 32, 0.5)
    f = c.compile(lambda x: m(x) + torch.rand_like(x) * torch.randn((), device=x.device))
    state = torch.cuda.get_rng_state() if CUDA else torch.get_rng_state()
    for i in range(36):
        if i % 6 == 1:
            torch.manual_seed(i)
        if i % 6 == 2:
            torch.cuda.set_rng_state(state) if CUDA else torch.set_rng_state(state)
        if i % 6 == 3:
            state = torch.cuda.get_rng_state() if CUDA else torch.get_rng_state()
        x = c.tensor(8, 32).requires_grad_()
        with torch.random.fork_rng() if i % 6 == 4 else contextlib.nullcontext():
            y = f(x)
            c.keep(torch.rand(3, device=DEVICE))
        if i % 6 == 5:
            torch.manual_seed(1000 + i)
        y.sum().backward()
        c.keep(y, x.grad, torch.randn(2, device=DEVICE))
    if CUDA:
        g = torch.cuda.default_generators[0]
        return g.initial_seed(), g.get_offset()
    return None


@case()
def random_operators(c: Context) -> object:
    """Every operator that draws, generated and of the library, in one graph."""

    def g(x, p):
        return (
            torch.randperm(17, device=x.device),
            torch.randint_like(x, 3, 99),
            torch.bernoulli(p),
            torch.poisson(p * 9),
            torch.multinomial(p, 4),
            torch.normal(x, 2.0),
            torch.empty_like(x).exponential_(2.0),
            torch.empty_like(x).geometric_(0.3),
            torch.empty_like(x).cauchy_(),
            F.dropout(x, 0.4),
            F.alpha_dropout(x, 0.2, True),
            torch.rand(3, 5, device=x.device),
            F.rrelu(x, training=True),
            torch.randint(2**40, (4,), device=x.device),
            torch.empty_like(x).log_normal_(),
            F.gumbel_softmax(x),
        )

    for fallback in (False, True):
        f = c.compile(g, options={"fallback_random": fallback})
        with torch.no_grad():
            for _ in range(N // 2):
                c.keep(f(c.tensor(8, 16), c.tensor(8, 16).sigmoid()))
        c.reset()


@case(cuda=True)
def random_beside_callers_graph(c: Context) -> object:
    """The caller has a CUDA graph of its own that draws numbers; both take turns."""
    f = c.compile(lambda x: F.dropout(x, 0.5) + torch.rand_like(x))
    static, out = c.tensor(64), None
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            F.dropout(static, 0.5)
        torch.cuda.current_stream().wait_stream(s)
        with torch.cuda.graph(graph):
            out = F.dropout(static, 0.5) * 2
        for i in range(N):
            c.keep(f(c.tensor(64)))
            graph.replay()
            c.keep(out.clone(), torch.rand(2, device=DEVICE))
            if i == 10:
                second = torch.cuda.CUDAGraph()
                with torch.cuda.graph(second):
                    out2 = f(static)
            if i > 10:
                second.replay()
                c.keep(out2.clone())
            if i == 16:
                torch.manual_seed(5)


@case(cuda=True)
def generators(c: Context) -> object:
    """Own generators, and the default one exchanged by graphsafe states and clones."""
    g = torch.Generator(DEVICE).manual_seed(7)

    def h(x):
        return F.dropout(x, 0.5), x + torch.rand_like(x)

    f = c.compile(h)
    d = torch.cuda.default_generators[0]
    other = d.clone_state()
    with torch.no_grad():
        for i in range(N):
            if i % 8 == 5:
                mine = d.graphsafe_get_state()
                d.graphsafe_set_state(other)
            c.keep(f(c.tensor(32)), torch.rand(2, device=DEVICE, generator=g))
            if i % 8 == 7:
                d.graphsafe_set_state(mine)


@case(cuda=True)
def random_offsets_at_their_limits(c: Context) -> object:
    """Generator offsets beyond 32 bits, at odd places, and near the end."""
    f = c.compile(lambda x: (F.dropout(x, 0.5), torch.rand_like(x)))
    fb = c.compile(lambda x: F.dropout(x, 0.5), options={"fallback_random": True})
    d = torch.cuda.default_generators[0]
    with torch.no_grad():
        for i in range(30):
            d.set_offset([0, 2**32 - 4, 2**33, 2**40, 2**62, 2**31][i // 2 % 6])
            c.keep(f(c.tensor(64)), fb(c.tensor(64)), d.get_offset())


@case(cuda=True)
def attention_offsets(c: Context) -> object:
    """Efficient attention with dropout: seed and offset handed to the backward, at their limits,
    several pending.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    d = torch.cuda.default_generators[0]
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]):
        f = c.compile(
            lambda q, k, v: F.scaled_dot_product_attention(
                F.dropout(q, 0.1), k, v, dropout_p=0.3
            ).sin()
        )
        pending = []
        for i in range(24):
            torch.manual_seed([5, 2**64 - 1, -7, 2**63][i % 4])
            d.set_offset([0, 2**32 - 4, 2**40][i % 3])
            q, k, v = (c.tensor(1, 2, 32, 16).requires_grad_() for _ in range(3))
            y = f(q, k, v)
            pending.append((q, y))
            if i % 3 == 2:
                for q, y in pending[::-1]:
                    y.sum().backward()
                    c.keep(y, q.grad)
                pending = []


@case()
def large_attention_train(c: Context) -> object:
    """Attention in bfloat16 with dropout and large results; the seed changes in between."""
    lin = net_of(c, 256, 768)

    def g(x):
        q, k, v = lin(x).view(2, 256, 3, 4, 64).permute(2, 0, 3, 1, 4).unbind(0)
        return (
            F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
            .transpose(1, 2)
            .reshape(2, 256, 256)
        )

    f = c.compile(g)
    lin.to(torch.bfloat16)
    torch.use_deterministic_algorithms(True, warn_only=True)
    pending = []
    for i in range(18):
        x = c.tensor(2, 256, 256, dtype=torch.bfloat16).requires_grad_()
        y = f(x)
        if i == 9:
            torch.manual_seed(3)
        pending.append((x, y))
        if i % 3 == 2:
            for x, y in pending:
                y.float().square().sum().backward()
                c.keep(some(y), some(x.grad))
            pending = []
            c.keep([some(g) for g in grads(lin)])
            lin.zero_grad()
    torch.use_deterministic_algorithms(False)


@case(auto=True)
def trial_with_dropout_and_errors(c: Context) -> object:
    """A trial on live calls with dropout, exceptions in hooks, state, and steps of two shapes."""
    m = Net(c, 64, 0.3)
    f = c.compile(m)
    state = torch.zeros(64, device=DEVICE)
    for i in range(220):
        x = c.tensor([16, 16, 24][i % 3] if i > 100 else 16, 64).requires_grad_()
        y = f(x)
        if i % 50 == 49:

            def bad(g):
                raise RuntimeError("hook")

            y.register_hook(bad)
        r = c.attempt(lambda: y.square().sum().backward())
        with torch.no_grad():
            state.mul_(0.9).add_(y.sum(0))
        if i % 10 == 9:
            c.keep(r, y, state, *grads(m))
            m.zero_grad()
    return torch.rand(4, device=DEVICE)
