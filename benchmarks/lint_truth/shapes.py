"""Tiny sizes for configuration fields, and inputs for forward parameters, both by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

BATCH = 2
TEXT_LENGTH = 12
VOCABULARY = 120
IMAGE = 64
FRAMES = 4
SAMPLES = 8000
MELS = 200

#: Configuration field -> tiny value. A field is only ever made smaller.
TINY: dict[str, int] = {
    "vocab_size": VOCABULARY,
    "text_vocab_size": VOCABULARY,
    "hidden_size": 64,
    "d_model": 64,
    "n_embd": 64,
    "embed_dim": 64,
    "dim": 64,
    "emb_dim": 64,
    "embedding_size": 64,
    "hidden_dim": 64,
    "encoder_hidden_dim": 64,
    "decoder_hidden_size": 64,
    "model_dim": 64,
    "projection_dim": 32,
    "projection_hidden_act_size": 32,
    "intermediate_size": 72,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
    "ffn_dim": 72,
    "encoder_ffn_dim": 72,
    "decoder_ffn_dim": 72,
    "d_ff": 72,
    "d_kv": 16,
    "d_inner": 72,
    "n_inner": 72,
    "dim_feedforward": 72,
    "feed_forward_size": 72,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "num_decoder_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_encoder_layers": 2,
    "text_num_hidden_layers": 2,
    "vision_num_hidden_layers": 2,
    "depth": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_decoder_attention_heads": 4,
    "num_encoder_attention_heads": 4,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "n_positions": 128,
    "max_source_positions": 128,
    "max_target_positions": 128,
    "num_local_experts": 8,
    "num_experts": 8,
    "n_routed_experts": 16,
    "image_size": IMAGE,
    "num_queries": 12,
    "num_frames": FRAMES,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "codebook_dim": 16,
    "codebook_size": 32,
}

#: List-valued fields that count layers per stage.
DEPTH_FIELDS = frozenset({"depths", "num_blocks", "layers_per_stage", "num_hidden_blocks"})


def _ids(size: int) -> torch.Tensor:
    """Token ids (BATCH, TEXT_LENGTH), int64, between 3 and min(size, VOCABULARY) - 1."""
    return torch.randint(3, max(4, min(size, VOCABULARY)), (BATCH, TEXT_LENGTH))


def padded_mask(length: int) -> torch.Tensor:
    """Attention mask (BATCH, length), int64, whose last row ends in padding."""
    mask = torch.ones(BATCH, length, dtype=torch.long)
    mask[-1, length - max(1, length // 4) :] = 0
    return mask


def sub_configs(config: Any) -> list[Any]:
    """`config` and its nested configurations, outermost first."""
    found = [config]
    for name in getattr(config, "sub_configs", {}) or {}:
        child = getattr(config, name, None)
        if child is not None and hasattr(child, "to_dict"):
            found.extend(sub_configs(child))
    return found


def config_value(config: Any, names: tuple[str, ...], default: Any) -> Any:
    """The first non-None of `names` in `config` or its nested configurations."""
    for part in sub_configs(config):
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


def image_size(config: Any) -> tuple[int, int]:
    """(height, width) of the images that `config` expects."""
    size = config_value(config, ("image_size", "img_size"), IMAGE)
    if isinstance(size, dict):
        return size["height"], size["width"]
    if isinstance(size, (list, tuple)):
        return int(size[0]), int(size[1])
    return int(size), int(size)


def pixels(config: Any) -> torch.Tensor:
    """Images (BATCH, channels, height, width), float32."""
    channels = config_value(config, ("num_channels", "in_channels", "in_chans"), 3)
    return torch.randn(BATCH, channels, *image_size(config))


def text_ids(config: Any) -> torch.Tensor:
    """Token ids below the smallest vocabulary of `config`."""
    sizes = [getattr(part, "vocab_size", None) for part in sub_configs(config)]
    return _ids(min([size for size in sizes if isinstance(size, int)], default=VOCABULARY))


def mel_features(config: Any) -> torch.Tensor:
    """Log-mel features (BATCH, mels, frames), float32."""
    mels = config_value(config, ("num_mel_bins", "num_mel_bins", "feature_size", "input_dim"), 80)
    return torch.randn(BATCH, mels, MELS)


def _time_first_features(config: Any) -> torch.Tensor:
    """Features (BATCH, frames, channels), float32."""
    size = config_value(
        config, ("feature_projection_input_dim", "input_feat_per_channel", "num_mel_bins"), 80
    )
    return torch.randn(BATCH, MELS, size)


def boxes(config: Any) -> torch.Tensor:
    """Layout boxes (BATCH, TEXT_LENGTH, 4), int64, x0 <= x1 and y0 <= y1."""
    low = torch.randint(0, 40, (BATCH, TEXT_LENGTH, 2))
    return torch.cat([low, low + 10], dim=-1)


def text_with_images(tokens: int) -> Callable[[Any], torch.Tensor]:
    """Builder of token ids in which `tokens` places a row stand for image features."""

    def build(config: Any) -> torch.Tensor:
        marker = config_value(config, ("image_token_id", "image_token_index"), 2)
        low = min(part.vocab_size for part in sub_configs(config) if hasattr(part, "vocab_size"))
        ids = torch.randint(3, min(low, VOCABULARY), (BATCH, tokens + TEXT_LENGTH))
        ids[ids == marker] = 1
        ids[:, 1 : tokens + 1] = marker
        return ids

    return build


def video(config: Any) -> torch.Tensor:
    """Videos (BATCH, frames, channels, height, width), float32."""
    frames = config_value(config, ("num_frames", "frames_per_clip"), FRAMES)
    return torch.randn(BATCH, frames, 3, *image_size(config))


def normal(*shape: int) -> Callable[[Any], torch.Tensor]:
    """Builder of normal noise of `shape`, float32."""
    return lambda config: torch.randn(*shape)


def whole(low: int, high: int, *shape: int) -> Callable[[Any], torch.Tensor]:
    """Builder of integers in [low, high) of `shape`, int64."""
    return lambda config: torch.randint(low, high, shape)


def ones(*shape: int, dtype: torch.dtype = torch.long) -> Callable[[Any], torch.Tensor]:
    """Builder of ones of `shape`."""
    return lambda config: torch.ones(*shape, dtype=dtype)


def table(*rows: Any) -> Callable[[Any], torch.Tensor]:
    """Builder of a constant tensor with `rows`."""
    return lambda config: torch.tensor(rows)


#: forward parameter -> builder(config). Only names found in a forward signature are built.
INPUTS: dict[str, Any] = {
    "input_ids": text_ids,
    "attention_mask": lambda config: padded_mask(TEXT_LENGTH),
    "decoder_input_ids": text_ids,
    "pixel_values": pixels,
    "input_values": lambda config: torch.randn(BATCH, SAMPLES),
    "input_features": mel_features,
    "bbox": boxes,
    "pixel_mask": lambda config: torch.ones(BATCH, *image_size(config), dtype=torch.long),
}
