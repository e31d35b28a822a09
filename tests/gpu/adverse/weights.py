"""Weights and buffers that are written to, replaced, shared, copied."""

from __future__ import annotations

import contextlib
import copy
import pickle

import torch
import torch.nn.functional as F
from torch import nn

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, case, wait
from tests.gpu.adverse.parts import N, Net, filled, grads, some, step


@case()
def batch_norm_alternates(c: Context) -> object:
    """Training and evaluation alternate; buffers are written to, replaced and averaged."""
    m = filled(
        c,
        nn.Sequential(
            nn.Conv2d(3, 6, 3, bias=False),
            nn.BatchNorm2d(6, momentum=0.3),
            nn.ReLU(),
            nn.Conv2d(6, 4, 1),
        ),
        0.4,
    )
    f = c.compile(m)
    ema = copy.deepcopy(m)
    for i in range(40):
        m.train(i % 5 != 4)
        x = c.tensor(2, 3, 9, 9)
        y = f(x)
        if m.training:
            y.square().mean().backward()
            c.keep(*grads(m))
            m.zero_grad(set_to_none=i % 2 == 0)
        with torch.no_grad():
            for a, b in zip(ema.buffers(), m.buffers(), strict=True):
                a.copy_(b) if not a.is_floating_point() else a.lerp_(b, 0.1)
        if i == 20:
            m[1].running_mean = torch.zeros(6, device=DEVICE)
        c.keep(y, *m.buffers(), *ema.buffers())


@case()
def caches_with_positions(c: Context) -> object:
    """A key-value cache is written in place, swapped, rolled, and lives as a module's buffer."""

    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(2, 16, 8, device=DEVICE))
            self.register_buffer("n", torch.zeros((), dtype=torch.int64, device=DEVICE))

        def forward(self, q, x):
            self.k.index_copy_(1, self.n.view(1) % 16, x[:, None])
            self.n += 1
            mask = torch.arange(16, device=q.device) < self.n
            return (q[:, None] @ self.k.mT).masked_fill(~mask, -1e9).softmax(-1) @ self.k

    m = Cached()
    f = c.compile(m)
    with torch.no_grad():
        for i in range(40):
            if i == 12:
                m.k = m.k.clone()
            if i == 20:
                m.k.copy_(m.k.roll(1, 1))
            if i == 28:
                m.n.zero_()
            if i == 33:
                saved = copy.deepcopy(m.state_dict())
            if i == 36:
                m.load_state_dict(saved, assign=True)
            c.keep(f(c.tensor(2, 8), c.tensor(2, 8)), m.k, m.n)


@case()
def parameters_replaced(c: Context) -> object:
    """load_state_dict(assign), .to of another dtype and back, tied weights, swapped modules, LoRA
    switched.
    """

    class Lora(Net):
        on = False

        def forward(self, x):
            y = super().forward(x)
            return y + (x @ self.down) @ self.up if self.on else y

    m = Lora(c)
    m.down, m.up = nn.Parameter(c.tensor(32, 4)), nn.Parameter(c.tensor(4, 32))
    f = c.compile(m)
    torch._dynamo.config.recompile_limit = 32
    for i in range(48):
        k = i // 6
        if i % 6 == 0 and k == 1:
            m.load_state_dict({n: v.clone() * 0.9 for n, v in m.state_dict().items()}, assign=True)
        if i % 6 == 0 and k == 2:
            m.double().float()
        if i % 6 == 0 and k == 3:
            m.up = nn.Parameter(m.down.detach().t().contiguous())
        if i % 6 == 0 and k == 4:
            m.a, m.b = nn.Linear(32, 64).to(DEVICE), m.b
            with torch.no_grad():
                m.a.weight.copy_(c.tensor(64, 32)), m.a.bias.zero_()
        if i % 6 == 0 and k == 5:
            m.b.weight = nn.Parameter(m.a.weight.detach().t().contiguous())
        if i % 6 == 0 and k == 6:
            with torch.no_grad():
                m.a.weight.data = m.b.weight.detach().t()
        m.on = i % 4 < 2
        # torch 2.11 guards no strides of weights: there, compiled code raises in the last steps.
        c.keep(c.attempt(step, c, f, m, c.tensor(8, 32).requires_grad_()))
        m.zero_grad()


@case()
def copies_and_pickles(c: Context) -> object:
    """A compiled module is copied and pickled while graphs serve; both go on."""
    m = Net(c)
    f = c.compile(m)
    with torch.no_grad():
        for _ in range(8):
            c.keep(f(c.tensor(8, 32)))
        g = c.attempt(copy.deepcopy, f)
        h = c.attempt(lambda: pickle.loads(pickle.dumps(f)))
        c.keep(g if isinstance(g, str) else "ok", h if isinstance(h, str) else "ok")
        for _ in range(10):
            for x in (f, g, h):
                if not isinstance(x, str):
                    c.keep(x(c.tensor(8, 32)))
            m.a.weight.add_(0.1)


@case()
def flat_parameters(c: Context) -> object:
    """All parameters and gradients are views of two flat buffers, at offsets that are aligned to
    nothing.
    """
    m = Net(c, 30)
    params = list(m.parameters())
    total = sum(p.numel() for p in params)
    flat, flat_grad = torch.zeros(total + 7, device=DEVICE), torch.zeros(total + 7, device=DEVICE)
    at = 3
    for p in params:
        flat[at : at + p.numel()].copy_(p.data.view(-1))
        p.data = flat[at : at + p.numel()].view(p.shape)
        p.grad = flat_grad[at : at + p.numel()].view(p.shape)
        at += p.numel()
    f = c.compile(m)
    for i in range(N):
        flat_grad.zero_()
        y = f(c.tensor(9, 30))
        y.sin().sum().backward()
        c.keep(y, flat_grad)
        with torch.no_grad():
            flat.add_(flat_grad, alpha=-0.01)
        if i == 12:
            moved = flat.clone()
            at = 3
            for p in params:
                p.data = moved[at : at + p.numel()].view(p.shape)
                at += p.numel()
            flat = moved
    return flat


@case()
def parametrized_weights(c: Context) -> object:
    """weight_norm, spectral_norm (buffers written in training), and a cached parametrization."""
    from torch.nn.utils import parametrizations, parametrize

    m = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(8, 8)),
        parametrizations.spectral_norm(nn.Linear(8, 8)),
    ).to(DEVICE)
    with torch.no_grad():
        for p in [*m.parameters(), *m.buffers()]:
            p.copy_(c.tensor(*p.shape).abs() * 0.3 + 0.1)
    f = c.compile(m)
    for i in range(30):
        m.train(i % 6 != 5)
        with parametrize.cached() if i % 6 == 4 else contextlib.nullcontext():
            y = f(c.tensor(4, 8))
            y.sum().backward()
        c.keep(y, grads(m), *m.buffers())
        m.zero_grad()


@case()
def two_models_share_weights_and_memory(c: Context) -> object:
    """Two compiled models share weights, and each other's results and saved tensors in one
    backward.
    """
    a, b = Net(c, 32, 0.2), Net(c, 32, 0.2)
    b.a = a.a
    f, g = c.compile(a), c.compile(b)
    opt = torch.optim.SGD(
        [*a.parameters(), *[p for n, p in b.named_parameters() if not n.startswith("a.")]], lr=0.01
    )
    for _ in range(N):
        x = c.tensor(8, 32).requires_grad_()
        y = f(x)
        z = g(y) + f(g(x))
        (z.sin().sum() + y.sum()).backward()
        c.keep(y, z, x.grad, grads(a), grads(b))
        opt.step()
        opt.zero_grad()


@case(auto=True)
def many_inputs(c: Context) -> object:
    """A hundred parameters and gradients, with the memory helper, for 150 steps, some replaced."""
    m = filled(
        c, nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(40)]), 0.4
    )
    f = c.compile(m)
    opt = torch.optim.SGD(m.parameters(), lr=0.01)
    for i in range(150):
        y = f(c.tensor(4, 8))
        y.square().sum().backward()
        if i % 25 == 24:
            c.keep(y, *grads(m)[::7])
            k = (i // 25) % 40
            m[k][0].weight.data = m[k][0].weight.detach().clone()
        opt.step()
        opt.zero_grad()
    return [p.detach() for p in m.parameters()][::5]


@case(cuda=True)
def weights_in_turn_on_two_streams(c: Context) -> object:
    """Sets of weights in turn on two streams that do not wait, until executables of their own are
    made.
    """

    def block(x, a, b, n):
        h = F.gelu(x @ a)
        for k in range(4):
            h = F.layer_norm(h @ a.t() @ a, (64,), n) + k
        return torch.sort(h @ b, dim=-1)[0]

    f = c.compile(block)
    sets = [
        [c.tensor(64, 64, scale=0.1), c.tensor(64, 64, scale=0.1), c.tensor(64)] for _ in range(4)
    ]
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    xs = [c.tensor(64, 64) for _ in range(8)]
    results = []
    wait()
    with torch.no_grad():
        for i in range(1000):
            with torch.cuda.stream(streams[(i // 3) % 2]):
                y = f(xs[i % 8], *sets[i % 4])
                if i % 23 == 0:
                    results.append((y * 1).sum(0))
            if i % 300 == 299:
                wait()
                sets[2] = [t.clone() for t in sets[2]]
                wait()
    wait()
    return results


@case()
def scaler_and_autocast(c: Context) -> object:
    """Autocast is switched on and off, with a GradScaler that finds infinities."""
    m = Net(c)
    f = c.compile(m)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**14, growth_interval=3)
    opt = torch.optim.SGD(m.parameters(), lr=0.01)
    for i in range(30):
        with torch.autocast(
            DEVICE,
            dtype=[torch.float16, torch.bfloat16][i // 5 % 2] if CUDA else torch.bfloat16,
            enabled=i % 5 != 4,
            cache_enabled=i % 2 == 0,
        ):
            y = f(c.tensor(8, 32) * (1e4 if i % 9 == 8 else 1))
            loss = y.float().pow(2).sum()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        c.keep(y, scaler.get_scale(), *m.parameters())


@case()
def large_convolutions_train(c: Context) -> object:
    """Convolutions and batch norm in training with large saved results; hooks, kept results, other
    shapes.
    """
    torch.backends.cudnn.deterministic = True
    m = filled(
        c,
        nn.Sequential(
            nn.Conv2d(8, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.SiLU(),
            nn.Conv2d(32, 4, 1),
        ),
    )
    f = c.compile(m)
    waiting, kept = [], []
    for i in range(22):
        x = (
            c.tensor(4, 8, 64, 64)
            .to(memory_format=torch.channels_last if i % 7 == 6 else torch.contiguous_format)
            .requires_grad_()
        )
        hooks = torch.autograd.graph.save_on_cpu() if i in (9, 10, 15) else contextlib.nullcontext()
        with hooks:
            y = f(x)
        waiting.append((x, y))
        if i % 3 == 2:
            for x, y in waiting[:: -1 if i % 2 else 1]:
                y.square().mean().backward()
                c.keep(some(y), some(x.grad))
            kept.append((x.grad, x.grad.clone(), y.detach(), y.detach().clone()))
            waiting = []
            c.keep(grads(m), *m.buffers())
            m.zero_grad()
    torch.backends.cudnn.deterministic = False
    return [bool(torch.equal(a, b) and torch.equal(p, q)) for a, b, p, q in kept]
