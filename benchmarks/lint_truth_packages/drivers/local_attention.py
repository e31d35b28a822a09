"""Attention within windows."""

from __future__ import annotations

import torch
from local_attention import DynamicPositionBias, LocalAttention, LocalMHA, LocalTransformer

from benchmarks.lint_truth_packages.programs import Call, call


def _qkv(length: int = 64) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 2, length, 16) for _ in range(3))


def _mask(length: int = 64) -> torch.Tensor:
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[1, length - 10 :] = False
    return mask


def causal() -> Call:
    return call(LocalAttention(window_size=16, causal=True), *_qkv(), mask=_mask())


def both_sides() -> Call:
    layer = LocalAttention(window_size=16, look_backward=1, look_forward=1, dim=16)
    return call(layer, *_qkv())


def padded_to_windows() -> Call:
    layer = LocalAttention(window_size=16, causal=True, autopad=True)
    return call(layer, *_qkv(50), mask=_mask(50))


def exact_window() -> Call:
    layer = LocalAttention(window_size=16, causal=True, exact_windowsize=True, use_xpos=True)
    return call(layer, *_qkv())


def shared_queries_and_keys() -> Call:
    layer = LocalAttention(window_size=16, shared_qk=True, causal=True)
    q, _, v = _qkv()
    return call(layer, q, q, v)


def with_bias() -> Call:
    bias = DynamicPositionBias(dim=8, heads=2)
    layer = LocalAttention(window_size=16, causal=True, use_rotary_pos_emb=False)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return layer(q, k, v, attn_bias=bias(16, 32))

    return Call(attend, _qkv(), state=[layer, bias])


def multi_head() -> Call:
    layer = LocalMHA(dim=32, window_size=16, heads=2, dim_head=16, causal=True, prenorm=True)
    return call(layer, torch.randn(2, 64, 32), mask=_mask())


def multi_head_normed_and_gated() -> Call:
    layer = LocalMHA(
        dim=32,
        window_size=16,
        heads=2,
        dim_head=16,
        causal=True,
        qk_rmsnorm=True,
        gate_values_per_head=True,
    )
    return call(layer, torch.randn(2, 64, 32))


def transformer_loss() -> Call:
    model = LocalTransformer(
        num_tokens=50, dim=32, depth=2, max_seq_len=64, local_attn_window_size=16, heads=2
    )
    return call(model, torch.randint(0, 50, (2, 64)), return_loss=True)


def transformer_with_dynamic_bias() -> Call:
    model = LocalTransformer(
        num_tokens=50,
        dim=32,
        depth=1,
        max_seq_len=64,
        local_attn_window_size=16,
        use_dynamic_pos_bias=True,
    )
    return call(model, torch.randint(0, 50, (2, 64)))


def generate() -> Call:
    model = LocalTransformer(
        num_tokens=50, dim=32, depth=1, max_seq_len=64, local_attn_window_size=16, heads=2
    )
    return Call(model.generate, (torch.randint(0, 50, (2, 5)), 4), grad=False)
