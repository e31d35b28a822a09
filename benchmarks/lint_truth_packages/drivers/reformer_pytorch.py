"""Transformers with attention by hashes, and reversible layers."""

from __future__ import annotations

import torch
from reformer_pytorch import Autopadder, LSHAttention, LSHSelfAttention, Reformer, ReformerLM
from reformer_pytorch.generative_tools import TrainingWrapper
from reformer_pytorch.reformer_enc_dec import ReformerEncDec

from benchmarks.lint_truth_packages.programs import Call, call


def _language_model(**named: object) -> ReformerLM:
    return ReformerLM(64, 32, 2, 128, heads=2, bucket_size=16, n_hashes=2, dim_head=16, **named)


def hash_attention() -> Call:
    attention = LSHAttention(bucket_size=16, n_hashes=2, causal=True)
    return call(attention, torch.randn(2, 64, 16), torch.randn(2, 64, 16))


def self_attention_masked() -> Call:
    attention = LSHSelfAttention(32, heads=2, bucket_size=16, n_hashes=2)
    mask = torch.rand(2, 64) > 0.2
    return call(attention, torch.randn(2, 64, 32), input_mask=mask)


def self_attention_local_and_full() -> Call:
    attention = LSHSelfAttention(
        32, heads=4, bucket_size=16, n_hashes=2, n_local_attn_heads=2, use_full_attn=True
    )
    return call(attention, torch.randn(2, 64, 32))


def encoder() -> Call:
    return call(Reformer(32, 2, heads=2, bucket_size=16, n_hashes=2), torch.randn(2, 64, 32))


def encoder_weight_tie_memory() -> Call:
    model = Reformer(32, 2, heads=2, bucket_size=16, n_hashes=2, weight_tie=True, num_mem_kv=32)
    return call(model, torch.randn(2, 64, 32))


def language_model() -> Call:
    return call(_language_model(causal=True), torch.randint(0, 64, (2, 64)))


def language_model_axial() -> Call:
    model = _language_model(axial_position_emb=True, axial_position_shape=(8, 16))
    return call(model, torch.randint(0, 64, (2, 128)))


def language_model_backward() -> Call:
    model, tokens = _language_model(causal=True, reverse_thres=8), torch.randint(0, 64, (2, 64))

    def step() -> torch.Tensor:
        loss = model(tokens).logsumexp(-1).mean()
        loss.backward()
        return loss

    return Call(step)


def padded() -> Call:
    return call(Autopadder(_language_model(causal=True)), torch.randint(0, 64, (2, 50)))


def training_loss() -> Call:
    model = TrainingWrapper(_language_model(causal=True))
    return call(model, torch.randint(0, 64, (2, 65)), return_loss=True)


def generate() -> Call:
    model = TrainingWrapper(_language_model(causal=True))
    return Call(model.generate, (torch.randint(0, 64, (1, 8)), 4), {"eos_token": 3}, grad=False)


def encoder_decoder() -> Call:
    shared = {"depth": 1, "bucket_size": 16, "max_seq_len": 64, "num_tokens": 64, "heads": 2}
    given = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in shared.items()}
    model = ReformerEncDec(32, **given)
    source, target = torch.randint(0, 64, (1, 64)), torch.randint(0, 64, (1, 64))
    return call(model, source, target, return_loss=True)
