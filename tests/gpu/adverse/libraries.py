"""Operators that Inductor leaves to libraries, and higher-order operators."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, case
from tests.gpu.adverse.parts import N, churn, filled, some


@case(cuda=True)
def invalidated_fft_plans(c: Context) -> object:
    """The program clears cuFFT's plans, and plans of other sizes take their memory."""
    f = c.compile(lambda x: torch.fft.irfft(torch.fft.rfft(x * 2) * 0.5) + torch.fft.fft(x).abs())
    with torch.no_grad():
        for i in range(30):
            c.keep(f(c.tensor(3, 1018)))
            if i % 5 == 4:
                torch.backends.cuda.cufft_plan_cache[0].clear()
                for n in (1019, 2027, 4001, 509):
                    torch.fft.fft(c.tensor(4, n))
                _junk = [torch.full((1 << 16,), float("nan"), device=DEVICE) for _ in range(8)]
            if i == 12:
                torch.backends.cuda.cufft_plan_cache[0].max_size = 1


@case()
def batched_linear_algebra(c: Context) -> object:
    """Batched solves, inverses and factorisations (arrays of pointers on the GPU)."""

    def g(a, b):
        s = a @ a.mT + 3 * torch.eye(a.shape[-1], device=a.device)
        lower, info = torch.linalg.cholesky_ex(s)
        lu, piv, info2 = torch.linalg.lu_factor_ex(s)
        return (
            torch.linalg.solve_triangular(lower, b, upper=False),
            info,
            lu,
            piv,
            torch.linalg.inv_ex(s)[0],
            torch.linalg.det(s),
        )

    f = c.compile(g)
    with torch.no_grad():
        for i in range(16):
            _junk = churn(i)
            c.keep(f(c.tensor(5, 6, 6), c.tensor(5, 6, 2)))


@case(cuda=True)
def batched_solvers_large(c: Context) -> object:
    """Large batches of factorisations, whose pointer arrays an earlier kernel makes."""

    def g(a, b):
        s = (a @ a.mT) * 0.1 + 4 * torch.eye(32, device=a.device)
        t = torch.linalg.inv_ex(s.sin() + 5 * torch.eye(32, device=a.device))[0]
        lower = torch.linalg.cholesky_ex(s.cos() @ s.cos().mT + 9 * torch.eye(32, device=a.device))[
            0
        ]
        x = torch.linalg.solve_triangular(lower.exp() * 0.1 + lower, b.tanh(), upper=False)
        return (t @ x).sum(0), x.mean((0, 1)), t.amax((1, 2))

    f = c.compile(g)
    with torch.no_grad():
        for i in range(14):
            if i == 6:
                torch.cuda.empty_cache()
            a = c.tensor(128, 32, 32).repeat(64, 1, 1)
            c.keep(f(a, c.tensor(128, 32, 16).repeat(64, 1, 1)))


@case()
def more_libraries(c: Context) -> object:
    """Sorting, searching, unusual reductions and samplers in one graph."""

    def g(x, i):
        return (
            torch.searchsorted(x[0].sort()[0], x[1]),
            x.kthvalue(3)[0],
            x.median(),
            x.logcumsumexp(0),
            torch.special.bessel_j1(x),
            torch.special.zeta(x.abs() + 2, 2.0),
            x.cummax(1)[1],
            F.embedding_bag(i, x.t().contiguous(), torch.tensor([0, 2], device=x.device)),
            F.grid_sample(
                x[None, None], x[:4, :2].reshape(1, 2, 2, 2).clamp(-1, 1), align_corners=False
            ),
            F.interpolate(x[None, None], scale_factor=1.7, mode="bicubic"),
            x.unfold(0, 3, 2).sum(),
            F.fold(F.unfold(x[None, None], 2), (8, 8), 2),
            torch.cdist(x, x),
            x.renorm(2, 0, 1.0),
            F.ctc_loss(
                x[:, None, :].log_softmax(-1), torch.tensor([[1, 2]], device=x.device), (8,), (2,)
            ),
        )

    f = c.compile(g)
    with torch.no_grad():
        for _ in range(8):
            c.keep(f(c.tensor(8, 8), c.tensor(4, dtype=torch.int64) % 8))


@case(cuda=True)
def grouped_and_scaled_matmul(c: Context) -> object:
    """Grouped and float8 matrix products: pointers and offsets prepared on the GPU."""

    def g(a, b, offs):
        return torch._grouped_mm(a, b, offs=offs)

    def h(a, b):
        x, y = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        one = torch.ones((), device=a.device)
        return torch._scaled_mm(x, y.t(), one, one, out_dtype=torch.bfloat16)

    f1, f2 = c.compile(g), c.compile(h)
    with torch.no_grad():
        for i in range(16):
            offs = torch.tensor([16, 16 + 16 * (i % 3), 64], device=DEVICE, dtype=torch.int32)
            c.keep(
                c.attempt(
                    f1,
                    c.tensor(64, 32, dtype=torch.bfloat16),
                    c.tensor(3, 32, 64, dtype=torch.bfloat16),
                    offs,
                )
            )
            c.keep(
                c.attempt(
                    f2,
                    c.tensor(32, 64, dtype=torch.bfloat16),
                    c.tensor(32, 64, dtype=torch.bfloat16),
                )
            )


@case(cuda=True)
def grouped_matmul_trains_large(c: Context) -> object:
    """A mixture of experts with grouped matrix products, large enough for a step in several
    launches.
    """
    E, T, H = 4, 8192, 1024
    w1, w2 = (
        c.tensor(E, H, H, dtype=torch.bfloat16, scale=0.03).requires_grad_() for _ in range(2)
    )

    def g(x, offs):
        h = x
        for w in (w1, w2, w1, w2):
            h = torch._grouped_mm(F.silu(h), w, offs=offs) + h * 0.5
        return h

    f = c.compile(g)
    for i in range(14):
        offs = torch.tensor(
            [T // 4, T // 2 - 64 * (i % 3), 3 * T // 4, T], device=DEVICE, dtype=torch.int32
        )
        x = c.tensor(T, H, dtype=torch.bfloat16, scale=0.5).requires_grad_()
        if i == 7:
            torch.cuda.empty_cache()
        y = c.attempt(f, x, offs)
        if isinstance(y, str):
            c.keep(y)
            continue
        y.backward(torch.ones_like(y))
        c.keep(some(y), some(x.grad), some(w1.grad), some(w2.grad))
        w1.grad = w2.grad = None
        del y, x


@case()
def recurrent_layers(c: Context) -> object:
    """cuDNN's recurrent layers inside of the graph, with dropout, in training and evaluation."""
    torch._dynamo.config.allow_rnn = True
    m = filled(c, nn.LSTM(16, 16, 2, dropout=0.4, batch_first=True))
    f = c.compile(lambda x: m(x * 2)[0].sin())
    try:
        for i in range(N):
            m.train(i % 8 < 6)
            x = c.tensor(4, 5, 16).requires_grad_()
            y = f(x)
            y.sum().backward()
            c.keep(y, x.grad, m.weight_ih_l0.grad)
            m.zero_grad()
    finally:
        torch._dynamo.config.allow_rnn = False


@case()
def attention_backends(c: Context) -> object:
    """SDPA's backends are switched between calls, in float16 with dropout, seeds of every size."""
    f = c.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.3).sin())
    from torch.nn.attention import SDPBackend, sdpa_kernel

    ways = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    if not CUDA:
        ways = [SDPBackend.MATH]
    for i in range(30):
        torch.manual_seed([5, 2**64 - 1, -7, 2**63, 0, 2**32][i % 6])
        q, k, v = (c.tensor(2, 2, 64, 32, dtype=torch.float16).requires_grad_() for _ in range(3))
        with sdpa_kernel([ways[i // 5 % len(ways)]]):
            y = f(q, k, v)
            y.float().sum().backward()
        c.keep(y, q.grad, k.grad)


@case(cuda=True)
def flex_attention(c: Context) -> object:
    """Flex attention with a bias that the caller changes and a block mask that is replaced."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    bias = c.tensor(128)

    def g(q, k, v, mask):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[j], block_mask=mask)

    f = c.compile(g)
    masks = [
        create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device=DEVICE),
        create_block_mask(lambda b, h, i, j: i <= j, None, None, 128, 128, device=DEVICE),
    ]
    for i in range(14):
        q, k, v = (c.tensor(1, 2, 128, 32).requires_grad_() for _ in range(3))
        y = f(q, k, v, masks[0])
        y.sin().sum().backward()
        c.keep(y, q.grad, v.grad)
        bias.add_(0.1)
        if i == 9:
            masks[0] = masks[1]


@case()
def higher_order(c: Context) -> object:
    """cond, while_loop, scan, associative_scan and map in one program."""
    from torch._higher_order_ops import associative_scan, scan, while_loop
    from torch._higher_order_ops import map as hmap

    conds = c.compile(
        lambda x: torch.cond(x.sum() > 0, lambda t: t.sin() * 2, lambda t: t.cos() - 1, (x,)) + x
    )
    loops = c.compile(
        lambda x, n: while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, t * 1.1 + i), (n, x))[
            1
        ].sin()
    )
    scans = c.compile(lambda x: scan(lambda a, b: (a + b, a * b), x[0], x)[1].sin())
    assoc = c.compile(
        lambda x: associative_scan(lambda a, b: a * 0.5 + b, x, 0, combine_mode="pointwise")
    )
    maps = c.compile(lambda x: hmap(lambda t: t.sin() @ t, x))
    with torch.no_grad():
        for i in range(12):
            c.keep(
                c.attempt(conds, c.tensor(8)),
                c.attempt(loops, c.tensor(8), torch.tensor(i % 5, device=DEVICE)),
                c.attempt(scans, c.tensor(6, 4)),
                c.attempt(assoc, c.tensor(8, 8)),
                c.attempt(maps, c.tensor(3, 4, 4)),
            )
