"""Selective state spaces in plain PyTorch."""

from __future__ import annotations

import torch
from mambapy import jamba, mamba, pscan, vim

from benchmarks.lint_truth_packages.programs import Call, call


def _tokens() -> torch.Tensor:
    return torch.randn(2, 16, 16)


def parallel_scan() -> Call:
    return call(mamba.Mamba(mamba.MambaConfig(d_model=16, n_layers=2)), _tokens())


def sequential_scan() -> Call:
    config = mamba.MambaConfig(d_model=16, n_layers=2, pscan=False)
    return call(mamba.Mamba(config), _tokens())


def inner_norms() -> Call:
    config = mamba.MambaConfig(d_model=16, n_layers=1, inner_layernorms=True, mup=True)
    return call(mamba.Mamba(config), _tokens())


def constant_dt() -> Call:
    config = mamba.MambaConfig(d_model=16, n_layers=1, dt_init="constant", bias=True)
    return call(mamba.MambaBlock(config), _tokens())


def step_by_step() -> Call:
    config = mamba.MambaConfig(d_model=16, n_layers=2)
    model = mamba.Mamba(config)
    caches = [(None, torch.zeros(2, config.d_inner, config.d_conv - 1)) for _ in range(2)]
    return Call(model.step, (torch.randn(2, 16), caches), grad=False)


def scan_function() -> Call:
    return call(pscan.pscan, torch.rand(2, 16, 8, 4), torch.randn(2, 16, 8, 4))


def scan_of_odd_length() -> Call:
    return call(pscan.pscan, torch.rand(2, 13, 8, 4), torch.randn(2, 13, 8, 4))


def scan_backward() -> Call:
    a = torch.rand(2, 16, 8, 4, requires_grad=True)
    x = torch.randn(2, 16, 8, 4, requires_grad=True)

    def step() -> torch.Tensor:
        pscan.pscan(a, x).sum().backward()
        return a.grad

    return Call(step)


def rms_norm() -> Call:
    return call(mamba.RMSNorm(16), _tokens())


def _hybrid(**named: object) -> jamba.JambaLMConfig:
    return jamba.JambaLMConfig(
        d_model=16,
        n_layers=2,
        mlp_size=32,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_experts=4,
        attn_layer_offset=1,
        attn_layer_period=2,
        vocab_size=50,
        **named,
    )


def mixture_of_experts() -> Call:
    layer = jamba.SparseMoEBlock(_hybrid(), num_experts=4, num_experts_per_tok=2)
    return call(layer, _tokens())


def hybrid_language_model() -> Call:
    return call(jamba.JambaLM(_hybrid()), torch.randint(0, 50, (2, 16)))


def grouped_attention() -> Call:
    return call(jamba.AttentionSDPA(_hybrid()), _tokens())


def vision() -> Call:
    config = vim.MambaConfig(d_model=16, n_layers=1, bidirectional=True)
    return call(vim.VMamba(config), _tokens())
