"""What a forward saves for its backward, and hooks on it."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, case
from tests.gpu.adverse.parts import N, Net, filled, grads, some, step


@case()
def saved_hooks_give_other_strides(c: Context) -> object:
    """saved_tensors_hooks whose unpack returns the same numbers with other strides."""

    def g(x, w):
        h = x.t() @ w
        return (h.exp() * x.t()).sin() @ h.t()

    f = c.compile(g)
    for i in range(N):
        x, w = c.tensor(24, 32).requires_grad_(), c.tensor(24, 24).requires_grad_()
        hooks = (
            torch.autograd.graph.saved_tensors_hooks(
                lambda t: t.cpu(),
                lambda t: t.to(DEVICE).t().contiguous().t() if t.dim() == 2 else t.to(DEVICE),
            )
            if i >= 8
            else contextlib.nullcontext()
        )
        with hooks:
            y = c.attempt(f, x, w)
        c.keep(c.attempt(lambda: y.sum().backward()), x.grad, w.grad)


@case()
def saved_hooks_of_sliced_inputs(c: Context) -> object:
    """save_on_cpu is switched on late; what is saved is a slice with gaps (dense after the way
    back).
    """
    f = c.compile(lambda x, w: (x @ w).sin().sum() + (x * x).sum())
    w = c.tensor(16, 8).requires_grad_()
    for i in range(N):
        base = c.tensor(8, 48).requires_grad_()
        x = base[:, 16:32]
        hooks = (
            torch.autograd.graph.save_on_cpu(pin_memory=CUDA)
            if i >= 8
            else contextlib.nullcontext()
        )
        with hooks:
            y = c.attempt(f, x, w)
        c.keep(y, c.attempt(lambda: y.backward()), base.grad, w.grad)


@case()
def saved_hooks_swap_values(c: Context) -> object:
    """saved_tensors_hooks whose unpack returns a view with another offset, or what was kept in
    double precision.
    """
    m = Net(c, 64)
    f = c.compile(m)
    for i in range(30):
        x = c.tensor(8, 64).requires_grad_()

        def pack(t):
            if i % 3 == 1:
                pad = torch.zeros(t.numel() + 64, dtype=t.dtype, device=t.device)
                view = (
                    pad[64:].as_strided(t.shape, t.stride())
                    if t.is_contiguous() or t.mT.is_contiguous()
                    else t
                )
                return view.copy_(t) if view is not t else t
            return t.double() if t.is_floating_point() else t

        hooks = torch.autograd.graph.saved_tensors_hooks(
            pack, lambda t: t.float() if t.dtype == torch.float64 else t
        )
        with hooks if i >= 6 and i % 3 else contextlib.nullcontext():
            step(c, f, m, x)


@case()
def saved_hooks_give_cpu_tensors(c: Context) -> object:
    """Hooks that forget the way back: what was saved comes back on the CPU (an error without
    graphs).
    """
    f = c.compile(lambda x, w: (x @ w).sin().sum(0))
    w = c.tensor(16, 8).requires_grad_()
    for i in range(12):
        x = c.tensor(4, 16).requires_grad_()
        hooks = (
            torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu(), lambda t: t)
            if i >= 8
            else contextlib.nullcontext()
        )
        with hooks:
            y = f(x, w)
        r = c.attempt(lambda: y.sum().backward())
        c.keep(r, None if isinstance(r, str) else x.grad)


@case()
def saved_hooks_call_the_same_code(c: Context) -> object:
    """Hooks for saved tensors and parameters call the compiled function that is under way."""
    m = Net(c)
    f = c.compile(m)
    inner = [c.tensor(8, 32) for _ in range(4)]
    seen, deep = [], [0]

    def pack(t):
        if not deep[0]:
            deep[0] += 1
            with torch.no_grad():
                seen.append(f(inner[len(seen) % 4]))
            deep[0] -= 1
        return t

    m.a.weight.register_post_accumulate_grad_hook(lambda p: seen.append(f(inner[0]).detach()))
    for i in range(14):
        x = c.tensor(8, 32).requires_grad_()
        with (
            torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)
            if i % 2
            else contextlib.nullcontext()
        ):
            step(c, f, m, x)
    return seen


def again(b: object) -> torch.Tensor:
    """The tensor of a DLPack capsule, or of a storage with a layout."""
    if not isinstance(b, tuple):
        return torch.utils.dlpack.from_dlpack(b)
    storage, shape, stride, offset, dtype = b
    return torch.empty(0, dtype=dtype, device=DEVICE).set_(storage, offset, shape, stride)


@case()
def saved_tensors_kept(c: Context) -> object:
    """The caller keeps what the forward saved: tensors, views, storages, DLPack capsules."""
    m = filled(c, nn.Sequential(*[nn.Linear(16, 16) for _ in range(4)], nn.LayerNorm(16)), 0.4)
    f = c.compile(lambda x: m(x).sigmoid().tanh())
    holds = []
    for i in range(36):
        x = c.tensor(4, 16).requires_grad_()
        y = f(x)
        saved = [t for t in y.grad_fn.saved_tensors if t is not None]
        if i % 6 == 1:
            c.keep(*saved)
        if i % 6 == 2:
            c.keep(*[t.view(-1)[:2] for t in saved])
        if i % 6 == 3:
            holds += [
                (t.clone(), (t.untyped_storage(), t.shape, t.stride(), t.storage_offset(), t.dtype))
                for t in saved
            ]
        if i % 6 == 4:
            holds += [(t.clone(), torch.utils.dlpack.to_dlpack(t.detach())) for t in saved]
        if i % 6 == 5:
            with torch.no_grad():
                for t in saved:
                    if t.dim() == 2 and t.shape[0] == t.shape[1] and not t.requires_grad:
                        t.t_()
        del saved
        c.attempt(lambda: y.sum().backward())
        c.keep(y, x.grad, grads(m))
        m.zero_grad()
    return [torch.equal(a, again(b)) for a, b in holds]


@case(cuda=True, expected="limit")
def saved_tensors_read_on_a_side_stream(c: Context) -> object:
    """What was saved is read on another stream, recorded there, and let go of before it has been
    read.
    """
    m = filled(
        c,
        nn.Sequential(
            *[nn.Sequential(nn.Linear(64, 64), nn.Sigmoid(), nn.LayerNorm(64)) for _ in range(5)]
        ),
        0.3,
    )
    f = c.compile(m)
    side, main_ = torch.cuda.Stream(), torch.cuda.current_stream()
    for _ in range(16):
        x = c.tensor(64, 64).requires_grad_()
        y = f(x)
        saved = [t for t in y.grad_fn.saved_tensors if t is not None and not t.requires_grad]
        side.wait_stream(main_)
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            copies = [t.clone() for t in saved]
        for t in saved:
            t.record_stream(side)
        saved = t = None
        del y, x  # no backward: it may write to what was saved
        f(c.tensor(64, 64).requires_grad_())  # writes while the side stream has not read yet
        torch.cuda.synchronize()
        c.keep(copies)


@case()
def allow_mutation_on_saved(c: Context) -> object:
    """allow_mutation_on_saved_tensors around compiled code whose results are changed."""
    f = c.compile(lambda x: ((x * 2).exp(), x.sigmoid()))
    for i in range(12):
        x = c.tensor(8, 8).requires_grad_()

        def step():
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                a, b = f(x)
                b2 = b * 2
                b.detach().mul_(3) if i % 3 == 1 else None
                (a.sum() + b2.sum()).backward()

        c.keep(c.attempt(step), x.grad)


@case()
def checkpoint_around(c: Context) -> object:
    """Activation checkpointing around compiled code, reentrant and not, with dropout."""
    from torch.utils.checkpoint import checkpoint

    m = Net(c, 32, 0.3)
    f = c.compile(m)
    for i in range(N):
        x = c.tensor(8, 32).requires_grad_()
        y = checkpoint(f, x, use_reentrant=i % 4 < 2)
        y = checkpoint(f, y, use_reentrant=False)
        y.sin().sum().backward()
        c.keep(y, x.grad, grads(m))
        m.zero_grad()


@case(cuda=True)
def several_launches_with_holders(c: Context) -> object:
    """A large training step in several launches; the caller holds some of what was saved, on two
    streams.
    """
    m = filled(
        c,
        nn.Sequential(
            *[nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Dropout(0.1)) for _ in range(6)]
        ),
        0.03,
    )
    f = c.compile(m)
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    held = []
    for i in range(16):
        s = streams[i % 2 if i > 6 else 0]
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            x = c.tensor(1 << 18).repeat(32).view(8192, 1024).requires_grad_()
            y = f(x)
            if i % 4 == 3:
                held = [t for t in y.grad_fn.saved_tensors if t is not None][::2]
                before = [some(t.detach()) for t in held if t.element_size() == 4]
            y.square().mean().backward()
            c.keep(some(y), some(x.grad), [some(g) for g in grads(m)])
            if held:
                c.keep(before, [some(t.detach()) for t in held if t.element_size() == 4])
                held = []
        torch.cuda.current_stream().wait_stream(s)
        m.zero_grad()
        del x, y
