"""Sizes that change, recompilations, and which code a call gets."""

from __future__ import annotations

import contextlib

import torch

from tests.gpu.adverse.harness import Context, case
from tests.gpu.adverse.parts import Net, grads


@case(auto=True)
def dynamic_batches(c: Context) -> object:
    """Batches of 8, 1, 0, 2, 33 rows, dynamic by itself and marked; in training."""
    m = Net(c)
    f = c.compile(m)
    for i in range(60):
        n = [8, 8, 1, 2, 8, 33, 0, 8, 33, 33][i % 10]
        x = c.tensor(n, 32)
        if n > 1 and i > 30:
            torch._dynamo.mark_dynamic(x, 0)
        x.requires_grad_()
        y = c.attempt(f, x)
        if isinstance(y, str):
            c.keep(y)
            continue
        y.sum().backward()
        c.keep(y, x.grad, grads(m))
        m.zero_grad()


@case()
def two_backends_nested(c: Context) -> object:
    """Compiled code calls code that is compiled apart, through a disabled function; recompilations
    run out.
    """
    m = Net(c)
    inner = c.compile(m)

    @torch.compiler.disable(recursive=False)
    def middle(x):
        return inner(x) * 2

    f = c.compile(lambda x: middle(x.sin()) + middle(x) * x.shape[0])
    old = torch._dynamo.config.recompile_limit
    torch._dynamo.config.recompile_limit = 4
    try:
        for i in range(30):
            x = c.tensor(4 + i % 3 if i < 18 else 4 + i, 32).requires_grad_()
            y = f(x)
            y.sum().backward()
            c.keep(
                y.detach().round(decimals=2) if i > 17 else y,
                x.grad.round(decimals=1) if i > 17 else x.grad,
            )
    finally:
        torch._dynamo.config.recompile_limit = old


@case()
def stances(c: Context) -> object:
    """Stances and disabled code between calls: eager, errors on recompilation, skipped guards."""
    m = Net(c)
    f = c.compile(m)
    with torch.no_grad():
        for i in range(30):
            stance = [None, None, None, "force_eager", "eager_on_recompile", "fail_on_recompile"][
                i % 6
            ]
            x = c.tensor(8 if i % 5 else 12, 32)
            with (
                torch.compiler.set_stance(stance) if stance and i > 5 else contextlib.nullcontext()
            ):
                r = c.attempt(f, x)
            c.keep(r if isinstance(r, str) else r.round(decimals=3) if stance else r)
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            for _ in range(6):
                c.keep(f(c.tensor(8, 32)))


@case()
def guards_left_out(c: Context) -> object:
    """Guards on tensors are filtered out (as serving engines do), and then strides, shapes or
    devices differ.
    """
    f = c.compile(
        lambda x, w: (x @ w).sin() + w,
        options={
            "guard_filter_fn": lambda guards: [g.guard_type != "TENSOR_MATCH" for g in guards]
        },
    )
    w = c.tensor(16, 16)
    with torch.no_grad():
        for _ in range(8):
            c.keep(f(c.tensor(16, 16), w))
        c.keep(c.attempt(f, c.tensor(16, 16), w.t()))
        c.keep(c.attempt(f, c.tensor(16, 16)[:8], w))
        c.keep(c.attempt(f, c.tensor(32, 16)[::2], w))
        c.keep(c.attempt(f, c.tensor(16, 16).cpu(), w))
        c.keep(c.attempt(f, c.tensor(16, 16), w))
