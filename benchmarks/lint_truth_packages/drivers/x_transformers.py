"""Transformers with many options, and their wrappers."""

from __future__ import annotations

from typing import Any

import torch
import x_transformers as x
from x_transformers import autoregressive_wrapper

from benchmarks.lint_truth_packages.programs import Call, call


def _ids(length: int = 16) -> torch.Tensor:
    return torch.randint(1, 50, (2, length))


def _model(depth: int = 2, **layers: Any) -> x.TransformerWrapper:
    decoder = x.Decoder(dim=32, depth=depth, heads=2, attn_dim_head=16, **layers)
    return x.TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=decoder)


def rotary_decoder() -> Call:
    return call(_model(rotary_pos_emb=True, ff_glu=True), _ids())


def relative_bias_and_memory() -> Call:
    return call(_model(rel_pos_bias=True, attn_num_mem_kv=4), _ids())


def alibi_with_talking_heads() -> Call:
    return call(_model(alibi_pos_bias=True, attn_pre_talking_heads=True), _ids())


def sparse_top_k_attention() -> Call:
    return call(_model(attn_sparse_topk=4, use_rmsnorm=True, sandwich_norm=True), _ids())


def layer_dropout() -> Call:
    return call(_model(layer_dropout=0.3, attn_dropout=0.1), _ids())


def autoregressive_loss() -> Call:
    return call(x.AutoregressiveWrapper(_model()), _ids())


def autoregressive_loss_masked() -> Call:
    wrapper = x.AutoregressiveWrapper(_model(), mask_prob=0.2, pad_value=0)
    return call(wrapper, _ids())


def generate_with_nucleus() -> Call:
    wrapper = x.AutoregressiveWrapper(_model(depth=1))
    named = {
        "filter_logits_fn": autoregressive_wrapper.top_p,
        "filter_kwargs": {"thres": 0.9},
        "eos_token": 3,
    }
    return Call(wrapper.generate, (_ids(4), 4), named, grad=False)


def encoder_with_mask() -> Call:
    encoder = x.Encoder(dim=32, depth=2, heads=2, attn_dim_head=16)
    model = x.TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=encoder)
    mask = torch.ones(2, 16, dtype=torch.bool)
    mask[1, 10:] = False
    return call(model, _ids(), mask=mask, return_embeddings=True)


def encoder_decoder() -> Call:
    model = x.XTransformer(
        dim=32,
        enc_num_tokens=50,
        enc_depth=1,
        enc_heads=2,
        enc_max_seq_len=32,
        dec_num_tokens=50,
        dec_depth=1,
        dec_heads=2,
        dec_max_seq_len=32,
    )
    return call(model, _ids(), _ids(), mask=torch.ones(2, 16, dtype=torch.bool))


def vision() -> Call:
    encoder = x.Encoder(dim=32, depth=1, heads=2, attn_dim_head=16)
    model = x.ViTransformerWrapper(image_size=32, patch_size=8, num_classes=5, attn_layers=encoder)
    return call(model, torch.randn(2, 3, 32, 32))


def continuous() -> Call:
    encoder = x.Encoder(dim=32, depth=1, heads=2, attn_dim_head=16)
    model = x.ContinuousTransformerWrapper(dim_in=6, dim_out=4, max_seq_len=32, attn_layers=encoder)
    return call(model, torch.randn(2, 16, 6), lens=torch.tensor([16, 9]))


def logit_filters() -> Call:
    def filtered(logits: torch.Tensor) -> torch.Tensor:
        some = autoregressive_wrapper.top_p(logits, thres=0.9)
        return some + autoregressive_wrapper.top_a(logits)

    return call(filtered, torch.randn(2, 50))
