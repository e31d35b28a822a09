"""Mixture of experts with top-n gating."""

from __future__ import annotations

import torch
from st_moe_pytorch import MoE, SparseMoEBlock, st_moe_pytorch

from benchmarks.lint_truth_packages.programs import Call, call


def _tokens() -> torch.Tensor:
    return torch.randn(2, 16, 32)


def top_two() -> Call:
    return call(MoE(dim=32, num_experts=4, gating_top_n=2), _tokens())


def top_three_with_thresholds() -> Call:
    layer = MoE(dim=32, num_experts=4, gating_top_n=3, threshold_train=0.1, threshold_eval=0.3)
    return call(layer, _tokens())


def evaluation() -> Call:
    layer = MoE(dim=32, num_experts=4).eval()
    return Call(layer, (_tokens(),), grad=False)


def with_noise() -> Call:
    return call(MoE(dim=32, num_experts=4), _tokens(), noise_gates=True, noise_mult=0.5)


def straight_through() -> Call:
    layer = MoE(dim=32, num_experts=4, straight_through_dispatch_tensor=False)
    return call(layer, _tokens())


def without_differentiable_top_k() -> Call:
    layer = MoE(dim=32, num_experts=4, differentiable_topk=False, capacity_factor_train=2.0)
    return call(layer, _tokens())


def block() -> Call:
    layer = SparseMoEBlock(MoE(dim=32, num_experts=4), add_ff_before=True, add_ff_after=True)
    return call(layer, _tokens())


def gate_alone() -> Call:
    gate = st_moe_pytorch.TopNGating(dim=32, num_gates=4, top_n=2)
    return call(gate, _tokens())


def experts_alone() -> Call:
    experts = st_moe_pytorch.Experts(
        [st_moe_pytorch.Expert(dim=32, hidden_mult=2) for _ in range(4)]
    )
    return call(experts, torch.randn(2, 4, 6, 32))


def backward() -> Call:
    layer, tokens = MoE(dim=32, num_experts=4), _tokens()

    def step() -> torch.Tensor:
        out = layer(tokens)
        (out.outputs.sum() + out.total_aux_loss).backward()
        return out.total_aux_loss

    return Call(step)
