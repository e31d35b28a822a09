"""What comes out: whose memory it is, what callers do with it."""

from __future__ import annotations

import gc
import io
import weakref

import torch
from torch import nn

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, case, wait
from tests.gpu.adverse.parts import N, Net, churn, filled, grads, net_of


@case()
def outputs_changed_by_caller(c: Context) -> object:
    """The caller writes to, resizes, re-points and frees results; others are kept for long."""
    m = Net(c)
    f = c.compile(lambda x: (m(x), x * 2, m.a(x).relu(), x.sum()))
    with torch.no_grad():
        for i in range(48):
            a, b, r, s = f(c.tensor(8, 32))
            c.keep(a.clone(), b.clone(), r.clone(), s)
            if i % 4 == 0:
                a.fill_(float("nan"))
            if i % 4 == 1:
                b.resize_(4096).fill_(7)
            if i % 4 == 2:
                r.untyped_storage().resize_(0)
            if i % 4 == 3:
                a.set_(b.untyped_storage(), 0, (8,), (1,))
                a.zero_()


@case()
def inputs_freed_at_once(c: Context) -> object:
    """Inputs are freed and their memory filled with NaN as soon as the call returns; results copied
    late.
    """
    m = Net(c, 256)
    f = c.compile(m)
    late = []
    with torch.no_grad():
        for _ in range(N):
            x = c.tensor(512, 256)
            late.append(f(x))
            del x
            _junk = [torch.full((512, 256), float("nan"), device=DEVICE) for _ in range(3)]
            del _junk
            if len(late) == 6:
                c.keep(*late)
                late = []


@case()
def results_changed_before_backward(c: Context) -> object:
    """The caller changes results in place before the backward: errors or gradients as without
    graphs.
    """
    m = Net(c)
    fs = [
        c.compile(lambda x: x.exp()),
        c.compile(lambda x: m(x).sigmoid()),
        c.compile(lambda x: (lambda e: (e, e.t(), e.view(-1)))((x @ x.t()).tanh())),
        c.compile(lambda x: m(x).softmax(-1).unsqueeze(0)),
        c.compile(lambda x: x.view(-1)),
    ]
    for k, f in enumerate(fs):
        for i in range(12):
            x = (c.tensor(8, 32) * 0.3).requires_grad_()
            y = f(x)
            y = y if isinstance(y, tuple) else (y,)
            versions = [t._version for t in y]

            def change():
                if i % 4 == 1:
                    y[0].mul_(2)
                if i % 4 == 2:
                    y[-1].detach().fill_(0.5)
                if i % 4 == 3:
                    with torch.no_grad():
                        y[-1].add_(1)
                sum(t.sin().sum() for t in y).backward()

            r = c.attempt(change)
            raised_by = [t._version - v for t, v in zip(y, versions, strict=True)]
            c.keep(
                k,
                r,
                x.grad,
                raised_by,
                [type(t.grad_fn).__name__ for t in y],
                [t._is_view() for t in y],
            )


@case()
def results_that_are_views(c: Context) -> object:
    """Results that are views of inputs or of each other: base, writes through them, gradients."""
    f = c.compile(lambda x, y: (x.view(-1), x[1:], y.detach(), (x + y)[::2], x.t(), y))
    for i in range(N):
        x, y = c.tensor(8, 8), c.tensor(8, 8)
        if i % 3 == 2:
            x = c.tensor(80)[i % 4 : 64 + i % 4].view(8, 8)
        r = f(x, y)
        r[0][3] = 9.0
        r[4][0, 1] = -1.0
        r[2].mul_(0)
        c.keep(r, x, y, r[5] is y, [t._base is x for t in r])


@case()
def odd_results(c: Context) -> object:
    """None, numbers, sizes, nested containers, the input itself, things that do not depend on
    inputs.
    """

    def g(x, n):
        return {
            "a": [x, None, x.shape[0] * 2, x.stride()],
            "b": (torch.ones(4, device=x.device), 3.5, n),
            "c": torch.tensor([1, 2, 3], device=x.device),
            "d": x.new_zeros(3),
            "e": (x * 0 + 2)[:0],
        }

    f, g2 = (
        c.compile(g),
        c.compile(
            lambda: (
                torch.ones(4, device=DEVICE),
                torch.arange(5, device=DEVICE) * 2,
                torch.tensor([7.0], device=DEVICE),
            )
        ),
    )
    with torch.no_grad():
        for i in range(N):
            r = f(c.tensor([4, 4, 6][i % 3], 2), i % 2)
            q = g2()
            c.keep(
                torch.utils._pytree.tree_map(
                    lambda t: t.clone() if isinstance(t, torch.Tensor) else t, [r, q]
                )
            )
            for t in [*q, r["b"][0], r["c"], r["d"]]:
                t.add_(5)


@case(cuda=True)
def results_copied_without_waiting(c: Context) -> object:
    """Results go to pinned memory without waiting, and are freed meanwhile."""
    m = Net(c, 256)
    f = c.compile(m)
    with torch.no_grad():
        pinned = [torch.empty(512, 256).pin_memory() for _ in range(N)]
        for i in range(N):
            x = c.tensor(512, 256)
            torch.cuda._sleep(2_000_000)
            y = f(x)
            pinned[i].copy_(y, non_blocking=True)
            del y, x
        wait()
        c.keep(*[p[:16] for p in pinned])


@case()
def weak_references(c: Context) -> object:
    """Weak references to inputs and results die when they do without graphs."""
    m = net_of(c, 16, 16, 16)
    f = c.compile(lambda x: (m(x).sigmoid().tanh(), x * 2))
    alive = []
    for _ in range(20):
        x = c.tensor(4, 16).requires_grad_()
        y, z = f(x)
        refs = [weakref.ref(t) for t in (x, y, z)]
        y.sum().backward()
        c.note(x.grad, grads(m))
        m.zero_grad()
        del x, y, z
        alive.append([r() is not None for r in refs])
    return alive


@case(expected="limit")
def gradients_are_own_memory(c: Context) -> object:
    """The caller writes to the whole storage of one gradient."""
    m = filled(c, nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)]), 0.4)
    f = c.compile(m)
    for i in range(12):
        m.zero_grad()
        f(c.tensor(4, 8)).sin().sum().backward()
        found = [p.grad for p in m.parameters()]
        found[3].untyped_storage().fill_(0)
        _junk = churn(i)
        c.keep(*[g.clone() for k, g in enumerate(found) if k != 3])


@case(expected="limit")
def gradients_are_saved_small(c: Context) -> object:
    """What torch.save writes for a gradient, its offset in its storage, and the storage's size."""
    m = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)]).to(DEVICE)
    f = c.compile(m)
    sizes = []
    for _ in range(6):
        m.zero_grad()
        f(c.tensor(4, 8)).sin().sum().backward()
        file = io.BytesIO()
        torch.save(m[1].weight.grad, file)
        g = m[3].bias.grad
        sizes.append(
            (len(file.getvalue()) // 512, g.storage_offset(), g.untyped_storage().nbytes())
        )
    return sizes


@case()
def model_deleted_while_pending(c: Context) -> object:
    """A model and its compiled code are deleted while its work is queued; memory is taken by
    others.
    """
    for _r in range(4):
        m = Net(c, 256)
        f = c.compile(m, hold=False)
        with torch.no_grad():
            for i in range(6):
                x = c.tensor(512, 256)
                if CUDA and i == 5:
                    torch.cuda._sleep(20_000_000)
                y = f(x)
        del m, f, x
        c.reset()
        gc.collect()
        _junk = [torch.full((512, 256), float("nan"), device=DEVICE) for _ in range(8)]
        c.keep(y)
        del _junk
