"""Values on the CPU that GPU code reads, and values of sizes."""

from __future__ import annotations

import torch
from torch import nn

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, case, wait
from tests.gpu.adverse.parts import N


@case()
def cpu_scalars_change(c: Context) -> object:
    """Small CPU tensors of several dtypes that change on each call, in place and anew."""

    def g(x, s, v, n, flag):
        s2 = s * 2 + n
        v.add_(1)
        return torch.where(flag.to(x.device), x * s2, x + v[1]), s2, v * s, x.sum() + n

    f = c.compile(g)
    s, v = torch.tensor(0.5, dtype=torch.float64), torch.tensor([1.0, 2.0, 3.0])
    with torch.no_grad():
        for i in range(N):
            if i % 3:
                s.mul_(1.01)
            else:
                s = torch.tensor(0.1 * i, dtype=torch.float64)
            r = f(c.tensor(8, 8), s, v, torch.tensor(i), torch.tensor(i % 2 == 0))
            s_now = s.clone()
            s.fill_(777.0)  # right after the call
            c.keep(r, v)
            s.copy_(s_now)


@case(cuda=True)
def pinned_inputs_overwritten(c: Context) -> object:
    """Pinned CPU values are overwritten right after the call that reads them."""
    f = c.compile(lambda x, p, q: x * p.to(x.device) + q)
    p, q = torch.randn(512).pin_memory(), torch.tensor(1.5).pin_memory()
    x = c.tensor(2048, 512)
    with torch.no_grad():
        for i in range(N):
            p.copy_(torch.full((512,), 1.0 + i))
            q.fill_(i)
            torch.cuda._sleep(1_000_000)
            r = f(x, p, q)
            p.zero_(), q.fill_(-5)
            wait()
            c.keep(r[:4])


@case()
def cpu_buffers_count(c: Context) -> object:
    """A module counts on the CPU and scales on the GPU; the counter is reset, loaded and copied."""

    class Warm(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.tensor(0))
            self.register_buffer("scale", torch.tensor([0.5, 2.0], dtype=torch.float64))
            self.w = nn.Parameter(c.tensor(16, 16))

        def forward(self, x):
            self.n += 1
            rate = 1.0 / (1 + self.n) * self.scale[0]
            self.scale.mul_(1.01)
            return (x @ self.w) * rate + self.scale[1], rate

    m = Warm()
    f = c.compile(m)
    for i in range(N):
        if i == 8:
            m.n.zero_()
        if i == 12:
            m.n = torch.tensor(100)
        if i == 16:
            m.load_state_dict({k: v.clone() for k, v in m.state_dict().items()}, assign=True)
        y, rate = f(c.tensor(4, 16))
        y.sum().backward()
        c.keep(y, rate, m.n, m.scale, m.w.grad)
        m.w.grad = None


@case()
def optimizers_compiled(c: Context) -> object:
    """Compiled optimizer steps with a learning rate that is a float, a CPU tensor, a GPU tensor."""
    for kind in ("float", "cpu", "gpu"):
        p = [c.tensor(16, 16).requires_grad_() for _ in range(3)]
        lr = {"float": 0.1, "cpu": torch.tensor(0.1), "gpu": torch.tensor(0.1, device=DEVICE)}[kind]
        opt = torch.optim.AdamW(
            p,
            lr=lr,
            capturable=CUDA and kind != "float",
            foreach=True if kind == "float" or CUDA else None,
        )
        step = c.compile(lambda: opt.step())
        for i in range(12):
            for q in p:
                q.grad = c.tensor(16, 16)
            if kind == "float":
                opt.param_groups[0]["lr"] = 0.1 / (1 + i // 4)
            else:
                opt.param_groups[0]["lr"].fill_(0.1 / (1 + i))
            step()
            c.keep(*p)
        c.keep([s["step"] for s in opt.state.values()])


@case()
def sizes_from_values(c: Context) -> object:
    """Sizes that come from values on the GPU: nonzero, masked_select, item() as a size."""
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    torch._dynamo.config.capture_scalar_outputs = True
    try:

        def g(x):
            n = (x > 0.5).sum().item()
            torch._check(n >= 0), torch._check(n <= 64)
            picked = x[x > 0]
            return (
                torch.arange(n, device=x.device) * 2,
                picked.cumsum(0),
                picked.shape[0] + n,
                x.nonzero().sum(0),
            )

        f = c.compile(g)
        with torch.no_grad():
            for _ in range(20):
                c.keep(f(c.tensor(64)))
    finally:
        torch._dynamo.config.capture_dynamic_output_shape_ops = False
        torch._dynamo.config.capture_scalar_outputs = False
