"""Backwards of every kind, and function transforms."""

from __future__ import annotations

import torch

from tests.gpu.adverse.harness import DEVICE, Context, case
from tests.gpu.adverse.parts import N, Net, grads


@case()
def backward_twice(c: Context) -> object:
    """retain_graph, backward twice, gradients of parts, double backward, a graph that is freed."""
    m = Net(c)
    f = c.compile(lambda x: (m(x), m.a(x).tanh()))
    for i in range(N):
        x = c.tensor(8, 32).requires_grad_()
        y, z = f(x)
        if i % 4 == 0:
            c.keep(
                c.attempt(lambda: (y.sum().backward(retain_graph=True), z.sum().backward())[0]),
                x.grad,
            )
        if i % 4 == 1:
            c.keep(c.attempt(lambda: torch.autograd.grad(z.sum(), x)))
        if i % 4 == 2:
            c.keep(
                c.attempt(
                    lambda: torch.autograd.grad(y.sum(), x, create_graph=True)[0].sum().backward()
                )
            )
        if i % 4 == 3:
            c.keep(c.attempt(lambda: (y.sum().backward(), y.sum().backward())[0]))
        c.keep(grads(m))


@case()
def gradients_that_come_in_as_conjugates(c: Context) -> object:
    """A gradient's memory holds the conjugates of its numbers; sizes and strides are the same."""
    f = c.compile(lambda x: torch.fft.fft(x) * 1)
    for i in range(N):
        x, a = c.tensor(8).requires_grad_(), c.tensor(8)
        z = f(x)
        loss = z * a if i < N // 2 else z.conj() + a
        loss.abs().sum().backward()
        c.keep(x.grad)


@case()
def tangents_of_every_kind(c: Context) -> object:
    """Gradients that come in expanded, transposed, misaligned, the same for two outputs, or for one
    only.
    """

    def g(x, w):
        y = x @ w
        return y.sin(), y + x, (y * 2).t()

    f = c.compile(g)
    w = c.tensor(16, 16).requires_grad_()
    pool = c.tensor(4096)
    for i in range(42):
        x = c.tensor(16, 16).requires_grad_()
        y, z, q = f(x, w)
        k = i % 7 if i >= 7 else 0
        g1 = pool[:256].view(16, 16)
        given = [
            ([y, z, q], [g1, pool[256:512].view(16, 16), pool[512:768].view(16, 16)]),
            ([y, z], [g1, g1]),
            ([y, z, q], [g1.t(), g1, g1.t()]),
            ([y], [pool[7].expand(16, 16)]),
            ([y, q], [pool[1:257].view(16, 16), pool[3:259].view(16, 16)]),
            ([z, q], [g1, pool[128:384].view(16, 16)]),
            ([y, z, q], [pool[:512].view(16, 32)[:, ::2], g1, torch.zeros_like(g1)]),
        ][k]
        torch.autograd.backward(*given)
        c.keep(x.grad, w.grad, pool[:8])
        w.grad = None


@case()
def gradients_of_some_inputs(c: Context) -> object:
    """Other inputs need gradients from call to call; backward(inputs=...), unused results, frozen
    weights.
    """
    m = Net(c)
    f = c.compile(lambda x, y: (m(x) * y.sum(), (x * y).t(), y.exp()))
    for i in range(30):
        x, y = (
            c.tensor(8, 32).requires_grad_(i % 3 != 1),
            c.tensor(8, 32).requires_grad_(i % 5 == 2),
        )
        m.b.weight.requires_grad_(i % 7 != 6)
        r = f(x, y)
        used = [t for k, t in enumerate(r) if t.requires_grad and (i % 4 != k)]
        if used:
            sum(t.sin().sum() for t in used).backward(
                inputs=[p for p in (m.a.weight, x) if p.requires_grad] if i % 6 == 5 else None
            )
        c.keep(r, x.grad, y.grad, grads(m))
        m.zero_grad()


@case()
def hooks_that_call_compiled_code(c: Context) -> object:
    """Tensor and module hooks that call compiled functions, in forward and backward."""
    m, other = Net(c), Net(c)
    f, g = c.compile(m), c.compile(other)
    seen = []
    m.a.register_full_backward_hook(lambda mod, gi, go: seen.append(go[0].sum()))
    for _ in range(N):
        x = c.tensor(8, 32).requires_grad_()
        y = f(x)
        y.register_hook(lambda grad: grad + g(grad.detach()).detach() * 0.1)
        x.register_hook(lambda grad: f(grad.detach()).detach())
        y.sin().sum().backward()
        c.keep(y, x.grad, grads(m))
        m.zero_grad()
    return [s.clone() for s in seen]


@case()
def function_transforms(c: Context) -> object:
    """torch.func inside of compiled code: grad, vmap, jvp, jacrev, functional_call with other
    weights.
    """
    m = Net(c, 16)
    params = dict(m.named_parameters())

    def loss(p, x):
        return torch.func.functional_call(m, p, (x,)).sin().sum()

    g1 = c.compile(lambda p, x: torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(p, x))
    g2 = c.compile(lambda x, v: torch.func.jvp(lambda y: (y.sin() @ y).cos(), (x,), (v,)))
    g3 = c.compile(lambda x: torch.func.jacrev(lambda y: (y * y).sum(0).tanh())(x))
    with torch.no_grad():
        for i in range(14):
            p = {k: v.detach() * (1 + 0.1 * (i % 3)) for k, v in params.items()}
            c.keep(
                c.attempt(g1, p, c.tensor(3, 4, 16)),
                c.attempt(g2, c.tensor(8, 8), c.tensor(8, 8)),
                c.attempt(g3, c.tensor(6, 6)),
            )


@case()
def compiled_autograd(c: Context) -> object:
    """The backward is traced by compiled autograd and compiled as one graph."""
    m = Net(c)
    f = c.compile(m)
    for _ in range(14):
        x = c.tensor(8, 32).requires_grad_()
        with torch._dynamo.compiled_autograd._enable(c.compile):
            y = f(x)
            y.sin().sum().backward()
        c.keep(y, x.grad, grads(m))
        m.zero_grad()


@case()
def autograd_inside(c: Context) -> object:
    """torch.autograd.grad and detach inside of the compiled function; higher orders."""

    def g(x, w):
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            e = (z @ w).tanh().sum()
            (d,) = torch.autograd.grad(e, z, create_graph=True)
        return d * 2, e.detach()

    f = c.compile(g)
    w = c.tensor(8, 8).requires_grad_()
    for _ in range(12):
        r = c.attempt(f, c.tensor(4, 8), w)
        c.keep(r)
        if not isinstance(r, str) and r[0].requires_grad:
            c.keep(c.attempt(lambda: r[0].sum().backward()), w.grad)
            w.grad = None


@case()
def forward_mode_and_vmap_outside(c: Context) -> object:
    """Forward-mode dual numbers and vmap around compiled code."""
    import torch.autograd.forward_ad as fwAD

    f = c.compile(lambda x: (x.sin() * x).cumsum(0))
    for _ in range(12):
        x, v = c.tensor(8), c.tensor(8)

        def dual():
            with fwAD.dual_level():
                r = f(fwAD.make_dual(x, v))
                p = fwAD.unpack_dual(r)
                return p.primal.clone(), None if p.tangent is None else p.tangent.clone()

        c.keep(
            f(x),
            c.attempt(dual),
            c.attempt(lambda: torch.func.vmap(f)(c.tensor(3, 8))),
            c.attempt(lambda: torch.func.grad(lambda t: f(t).sum())(x)),
        )


@case()
def backward_writes_a_buffer(c: Context) -> object:
    """An autograd function whose backward writes to tensors that the forward saved."""
    count, last = torch.zeros(4, device=DEVICE), torch.zeros(8, 4, device=DEVICE)

    class Note(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, seen, store):
            ctx.save_for_backward(x, seen, store)
            return x.sin(), (x > 0).sum()

        @staticmethod
        def backward(ctx, g, _):
            x, seen, store = ctx.saved_tensors
            seen.add_(g.sum(0))
            store.copy_(g)
            return g * x.cos(), None, None

    f = c.compile(lambda x: Note.apply(x * 2, count, last)[0].exp())
    for _ in range(N):
        x = c.tensor(8, 4).requires_grad_()
        r = c.attempt(lambda: f(x).sum().backward())
        c.keep(r, x.grad, count, last)
