"""Single operations, bit for bit: library kernels of every kind, copies, memory sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.gpu.support import DEVICE, assert_same, check, graphed, regions, ungraphed

Case = tuple[Callable[..., Any], list[Callable[[], torch.Tensor]]]


def rand(*size: int, dtype: torch.dtype = torch.bfloat16) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*size, device=DEVICE, dtype=dtype)


def ids(*size: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(0, 1000, size, device=DEVICE)


def weights() -> dict[str, torch.Tensor]:
    make = {
        "w": (2048, 1024, torch.bfloat16),
        "wide": (1024, 2048, torch.bfloat16),
        "table": (1000, 512, torch.float32),
    }
    return {k: torch.randn(a, b, device=DEVICE, dtype=t) for k, (a, b, t) in make.items()}


def cudnn_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def cases() -> dict[str, Case]:
    if not torch.cuda.is_available():
        return dict.fromkeys(NAMES, (lambda: None, []))
    c = weights()
    bias = torch.randn(2048, device=DEVICE, dtype=torch.bfloat16)
    kernel = torch.randn(128, 64, 3, 3, device=DEVICE)
    half = kernel.half().to(memory_format=torch.channels_last)
    f32 = torch.float32

    def image() -> torch.Tensor:
        x = torch.randn(8, 64, 56, 56, device=DEVICE, dtype=torch.half)
        return x.to(memory_format=torch.channels_last)

    return {
        "linear_bf16_m1": (lambda x: F.linear(x, c["w"], bias), [rand(1, 1024)]),
        "linear_bf16_m512": (lambda x: F.linear(x, c["w"], bias), [rand(512, 1024)]),
        "linear_fp32": (lambda x: F.linear(x, c["w"].float()), [rand(64, 1024, dtype=f32)]),
        "bmm_bf16": (torch.bmm, [rand(16, 128, 64), rand(16, 64, 128)]),
        "mm_splitk": (torch.mm, [rand(32, 16384), rand(16384, 32)]),
        "sdpa_flash": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            [rand(2, 16, 512, 64)] * 3,
        ),
        "sdpa_mask": (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
            [rand(2, 16, 1, 64), rand(2, 16, 512, 64), rand(2, 16, 512, 64), rand(2, 1, 1, 512)],
        ),
        "sdpa_cudnn": (cudnn_attention, [rand(2, 16, 512, 64)] * 3),
        "conv_half_channels_last": (lambda x: F.conv2d(x, half, padding=1), [image]),
        "conv_fp32": (
            lambda x: F.conv2d(x, kernel, padding=1),
            [rand(8, 64, 56, 56, dtype=f32)],
        ),
        "layer_norm": (lambda x: F.layer_norm(x, (1024,)), [rand(64, 1024)]),
        "embedding": (lambda i: F.embedding(i, c["table"]), [ids(4, 128)]),
        "index_put": (
            lambda t, i, v: t.index_put_((i,), v),
            [rand(128, 64), lambda: torch.randperm(128, device=DEVICE)[:4], rand(4, 64)],
        ),
        "sort": (lambda x: torch.sort(x, dim=-1)[0], [rand(16, 50000, dtype=f32)]),
        "topk": (lambda x: torch.topk(x, 50)[0], [rand(8, 32000, dtype=f32)]),
        "cumsum": (lambda x: torch.cumsum(x, -1), [rand(64, 4096, dtype=f32)]),
        "clone": (lambda x: x.clone(), [rand(1 << 20, dtype=f32)]),
        "zeros": (
            lambda x: (torch.zeros(1 << 20, device=DEVICE), x + 1),
            [rand(1 << 20, dtype=f32)],
        ),
        "cat_40": (lambda *x: torch.cat(x), [rand(128, 64)] * 40),
        "foreach_40": (lambda *x: torch._foreach_add(list(x), 1.0), [rand(128, 64)] * 40),
        "mlp": (
            lambda x: F.linear(F.gelu(F.linear(x, c["w"], bias)), c["wide"]),
            [rand(256, 1024)],
        ),
        "view_of_input": (lambda x: (x.view(-1)[5:].view(-1), x * 2), [rand(64, 64)]),
        "views_of_one": (
            lambda x: (lambda y: (y[0], y[1:], y))(torch.sin(x)),
            [rand(8, 64, dtype=f32)],
        ),
        "in_place": (lambda x, y: (x.add_(y), y.mul_(2), x + y), [rand(64, 64), rand(64, 64)]),
        "empty_result": (lambda x: (x[:0] + 1, x + 1), [rand(8, 8)]),
        "scan_library": (
            lambda x: torch.linalg.inv(x @ x.mT + 64 * torch.eye(32, device=DEVICE)),
            [rand(4, 32, 32, dtype=f32)],
        ),
    }


NAMES = """
linear_bf16_m1 linear_bf16_m512 linear_fp32 bmm_bf16 mm_splitk sdpa_flash sdpa_mask sdpa_cudnn
conv_half_channels_last conv_fp32 layer_norm embedding index_put sort topk cumsum clone zeros
cat_40 foreach_40 mlp view_of_input views_of_one in_place empty_result scan_library
""".split()
MAY_DECLINE = {"scan_library"}


@pytest.mark.parametrize("name", NAMES)
def test_operation_is_bit_equal_and_served(name: str) -> None:
    function, makers = cases()[name]
    found = check(function, lambda: [m() for m in makers], served=name not in MAY_DECLINE)
    for region in found:
        assert region["state"] == "serving" or region["reason"], region


def test_dropout_draws_the_same_numbers() -> None:
    """The generator is drawn from as without a graph, and advances as far."""

    def drop(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5, True)

    fast, plain = graphed(drop), ungraphed(drop)
    x = torch.randn(1 << 16, device=DEVICE)
    with torch.no_grad():
        for _ in range(8):
            state = torch.cuda.get_rng_state()
            actual = fast(x)
            after = torch.cuda.get_rng_state()
            torch.cuda.set_rng_state(state)
            assert_same(actual, plain(x))
            assert torch.equal(after, torch.cuda.get_rng_state())
    (region,) = regions()
    assert region["state"] == "serving", region["reason"]
