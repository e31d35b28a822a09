"""Tiny models of diffusers: constructor arguments and inputs, as data."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.lint_truth.builders import Entry, Inputs
from benchmarks.lint_truth.shapes import BATCH

TEXT = 7
WIDTH = 32


def noise(*shape: int) -> Callable[[], torch.Tensor]:
    """Builder of normal noise (BATCH, *shape), float32."""
    return lambda: torch.randn(BATCH, *shape)


def steps(dtype: torch.dtype = torch.int64) -> Callable[[], torch.Tensor]:
    """Builder of one diffusion time a sample, (BATCH,)."""
    return lambda: torch.randint(1, 1000, (BATCH,)).to(dtype)


def valid(length: int, dtype: torch.dtype = torch.int64) -> Callable[[], torch.Tensor]:
    """Builder of a text mask (BATCH, length) whose last row ends in padding."""

    def build() -> torch.Tensor:
        mask = torch.ones(BATCH, length)
        mask[-1, -2:] = 0
        return mask.to(dtype)

    return build


_TWO = (32, 64)
_UNET = {"block_out_channels": _TWO, "layers_per_block": 1, "norm_num_groups": 8}
_VAE = {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "block_out_channels": _TWO,
    "norm_num_groups": 8,
}
_CROSS_2D = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "cross_attention_dim": WIDTH,
    "attention_head_dim": 4,
}
_DIT = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}

#: Class name -> (constructor arguments, forward arguments; builders are called).
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "UNet2DModel": (
        {
            **_UNET,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
            "dropout": 0.1,
        },
        {"sample": noise(3, 16, 16), "timestep": 10},
    ),
    "UNet2DConditionModel": (
        {**_UNET, **_CROSS_2D, "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")},
        {"sample": noise(4, 16, 16), "timestep": 10, "encoder_hidden_states": noise(TEXT, WIDTH)},
    ),
    "UNet3DConditionModel": (
        {
            **_UNET,
            "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
            "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
            "cross_attention_dim": WIDTH,
            "attention_head_dim": 4,
        },
        {
            "sample": noise(4, 4, 16, 16),
            "timestep": 10,
            "encoder_hidden_states": noise(TEXT, WIDTH),
        },
    ),
    "UNetSpatioTemporalConditionModel": (
        {
            "block_out_channels": _TWO,
            "layers_per_block": 1,
            "down_block_types": ("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            "up_block_types": ("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
            "cross_attention_dim": WIDTH,
            "num_attention_heads": (2, 4),
            "num_frames": 2,
            "addition_time_embed_dim": 16,
            "projection_class_embeddings_input_dim": 48,
        },
        {
            "sample": noise(2, 8, 16, 16),
            "timestep": 10,
            "encoder_hidden_states": noise(1, WIDTH),
            "added_time_ids": noise(3),
        },
    ),
    "AutoencoderKL": (_VAE, {"sample": noise(3, 32, 32)}),
    "AutoencoderTiny": (
        {
            "encoder_block_out_channels": (16, 16),
            "decoder_block_out_channels": (16, 16),
            "num_encoder_blocks": (1, 1),
            "num_decoder_blocks": (1, 1),
        },
        {"sample": noise(3, 32, 32)},
    ),
    "VQModel": (_VAE, {"sample": noise(3, 32, 32)}),
    "AsymmetricAutoencoderKL": (
        {
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
            "down_block_out_channels": _TWO,
            "up_block_out_channels": _TWO,
            "norm_num_groups": 8,
        },
        {"sample": noise(3, 32, 32), "mask": lambda: torch.ones(BATCH, 1, 32, 32)},
    ),
    "AutoencoderKLTemporalDecoder": (
        {"down_block_types": ("DownEncoderBlock2D",) * 2, "block_out_channels": _TWO},
        {"sample": noise(3, 32, 32), "num_frames": 1},
    ),
    "AutoencoderKLWan": (
        {"base_dim": 8, "z_dim": 16, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1},
        {"sample": noise(3, 5, 16, 16)},
    ),
    "AutoencoderDC": (
        {
            "latent_channels": 4,
            "attention_head_dim": 8,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_block_out_channels": (8, 16),
            "decoder_block_out_channels": (8, 16),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
        },
        {"sample": noise(3, 32, 32)},
    ),
    "AutoencoderOobleck": (
        {
            "encoder_hidden_size": 8,
            "decoder_channels": 8,
            "decoder_input_channels": 4,
            "downsampling_ratios": [2, 4],
            "channel_multiples": [1, 2],
        },
        {"sample": noise(2, 256)},
    ),
    "DiTTransformer2DModel": (
        {**_DIT, "sample_size": 8},
        {"hidden_states": noise(4, 8, 8), "timestep": steps(), "class_labels": steps()},
    ),
    "PixArtTransformer2DModel": (
        {
            **_DIT,
            "sample_size": 8,
            "cross_attention_dim": WIDTH,
            "caption_channels": 16,
            "use_additional_conditions": False,
        },
        {
            "hidden_states": noise(4, 8, 8),
            "timestep": steps(),
            "encoder_hidden_states": noise(TEXT, 16),
            "encoder_attention_mask": valid(TEXT),
            "added_cond_kwargs": lambda: {"resolution": None, "aspect_ratio": None},
        },
    ),
    "SD3Transformer2DModel": (
        {
            **_DIT,
            "sample_size": 8,
            "in_channels": 4,
            "out_channels": 4,
            "joint_attention_dim": 16,
            "caption_projection_dim": WIDTH,
            "pooled_projection_dim": 16,
            "pos_embed_max_size": 8,
        },
        {
            "hidden_states": noise(4, 8, 8),
            "encoder_hidden_states": noise(TEXT, 16),
            "pooled_projections": noise(16),
            "timestep": steps(),
        },
    ),
    "FluxTransformer2DModel": (
        {
            **_DIT,
            "num_single_layers": 1,
            "in_channels": 4,
            "joint_attention_dim": 16,
            "pooled_projection_dim": 16,
            "axes_dims_rope": (4, 4, 8),
        },
        {
            "hidden_states": noise(16, 4),
            "encoder_hidden_states": noise(TEXT, 16),
            "pooled_projections": noise(16),
            "timestep": lambda: torch.rand(BATCH),
            "img_ids": lambda: torch.randn(16, 3),
            "txt_ids": lambda: torch.randn(TEXT, 3),
        },
    ),
    "ChromaTransformer2DModel": (
        {
            **_DIT,
            "num_single_layers": 1,
            "in_channels": 4,
            "joint_attention_dim": 16,
            "axes_dims_rope": (4, 4, 8),
            "approximator_num_channels": 8,
            "approximator_hidden_dim": 16,
            "approximator_layers": 1,
        },
        {
            "hidden_states": noise(16, 4),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": lambda: torch.rand(BATCH),
            "img_ids": lambda: torch.randn(16, 3),
            "txt_ids": lambda: torch.randn(TEXT, 3),
        },
    ),
    "HunyuanDiT2DModel": (
        {
            "num_attention_heads": 2,
            "attention_head_dim": 16,
            "num_layers": 2,
            "in_channels": 4,
            "patch_size": 2,
            "sample_size": 8,
            "hidden_size": WIDTH,
            "cross_attention_dim": 16,
            "cross_attention_dim_t5": 16,
            "pooled_projection_dim": 16,
            "text_len": TEXT,
            "text_len_t5": TEXT,
            "use_style_cond_and_image_meta_size": False,
        },
        {
            "hidden_states": noise(4, 8, 8),
            "timestep": steps(torch.float32),
            "encoder_hidden_states": noise(TEXT, 16),
            "text_embedding_mask": valid(TEXT),
            "encoder_hidden_states_t5": noise(TEXT, 16),
            "text_embedding_mask_t5": valid(TEXT),
            "image_rotary_emb": lambda: [torch.randn(16, 16), torch.randn(16, 16)],
        },
    ),
    "AuraFlowTransformer2DModel": (
        {
            "sample_size": 8,
            "num_mmdit_layers": 1,
            "num_single_dit_layers": 1,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "joint_attention_dim": 16,
            "caption_projection_dim": WIDTH,
            "pos_embed_max_size": 64,
        },
        {
            "hidden_states": noise(4, 8, 8),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": lambda: torch.rand(BATCH),
        },
    ),
    "SanaTransformer2DModel": (
        {
            **_DIT,
            "in_channels": 4,
            "out_channels": 4,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 16,
            "cross_attention_dim": WIDTH,
            "caption_channels": 16,
            "sample_size": 8,
        },
        {
            "hidden_states": noise(4, 8, 8),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": steps(),
            "encoder_attention_mask": valid(TEXT),
        },
    ),
    "CogVideoXTransformer3DModel": (
        {
            **_DIT,
            "in_channels": 4,
            "out_channels": 4,
            "time_embed_dim": 16,
            "text_embed_dim": 16,
            "sample_width": 8,
            "sample_height": 8,
            "sample_frames": 9,
            "max_text_seq_length": TEXT,
        },
        {
            "hidden_states": noise(3, 4, 8, 8),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": steps(),
        },
    ),
    "LTXVideoTransformer3DModel": (
        {
            **_DIT,
            "in_channels": 8,
            "out_channels": 8,
            "cross_attention_dim": WIDTH,
            "caption_channels": 16,
        },
        {
            "hidden_states": noise(32, 8),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": steps(),
            "encoder_attention_mask": valid(TEXT),
            "num_frames": 2,
            "height": 4,
            "width": 4,
        },
    ),
    "MochiTransformer3DModel": (
        {
            **_DIT,
            "in_channels": 4,
            "pooled_projection_dim": 16,
            "text_embed_dim": 16,
            "time_embed_dim": 16,
            "max_sequence_length": TEXT,
        },
        {
            "hidden_states": noise(4, 2, 8, 8),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": steps(),
            "encoder_attention_mask": valid(TEXT, torch.bool),
        },
    ),
    "WanTransformer3DModel": (
        {
            **_DIT,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": 16,
            "freq_dim": 16,
            "ffn_dim": 32,
            "rope_max_seq_len": 32,
        },
        {
            "hidden_states": noise(4, 2, 8, 8),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": steps(),
        },
    ),
    "QwenImageTransformer2DModel": (
        {
            **_DIT,
            "in_channels": 16,
            "out_channels": 4,
            "joint_attention_dim": 16,
            "axes_dims_rope": (4, 4, 8),
        },
        {
            "hidden_states": noise(16, 16),
            "encoder_hidden_states": noise(TEXT, 16),
            "encoder_hidden_states_mask": valid(TEXT),
            "timestep": lambda: torch.rand(BATCH),
            "img_shapes": [(1, 4, 4)] * BATCH,
            "txt_seq_lens": [TEXT] * BATCH,
        },
    ),
    "ControlNetModel": (
        {**_UNET, **_CROSS_2D, "conditioning_embedding_out_channels": (16, 32)},
        {
            "sample": noise(4, 16, 16),
            "timestep": 10,
            "encoder_hidden_states": noise(TEXT, WIDTH),
            "controlnet_cond": noise(3, 32, 32),
        },
    ),
    "PriorTransformer": (
        {**_DIT, "embedding_dim": 16, "num_embeddings": TEXT},
        {
            "hidden_states": noise(16),
            "timestep": 3,
            "proj_embedding": noise(16),
            "encoder_hidden_states": noise(TEXT, 16),
            "attention_mask": valid(TEXT, torch.bool),
        },
    ),
    "StableAudioDiTModel": (
        {
            "sample_size": 8,
            "in_channels": 8,
            "num_layers": 2,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "num_key_value_attention_heads": 1,
            "out_channels": 8,
            "cross_attention_dim": WIDTH,
            "time_proj_dim": 16,
            "global_states_input_dim": 16,
            "cross_attention_input_dim": 16,
        },
        {
            "hidden_states": noise(8, 8),
            "timestep": lambda: torch.rand(1),
            "encoder_hidden_states": noise(TEXT, 16),
            "global_hidden_states": noise(1, 16),
            "rotary_embedding": lambda: (torch.randn(9, 8), torch.randn(9, 8)),
        },
    ),
    "AllegroTransformer3DModel": (
        {
            **_DIT,
            "attention_head_dim": 24,
            "cross_attention_dim": 48,
            "sample_height": 8,
            "sample_width": 8,
            "sample_frames": 2,
            "caption_channels": 16,
        },
        {
            "hidden_states": noise(4, 2, 8, 8),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": steps(),
            "attention_mask": lambda: torch.ones(BATCH, 2, 8, 8),
            "encoder_attention_mask": valid(TEXT),
        },
    ),
    "Lumina2Transformer2DModel": (
        {
            "sample_size": 8,
            "in_channels": 4,
            "hidden_size": 48,
            "num_layers": 1,
            "num_refiner_layers": 1,
            "num_attention_heads": 2,
            "num_kv_heads": 1,
            "multiple_of": 16,
            "axes_dim_rope": (8, 8, 8),
            "axes_lens": (32, 32, 32),
            "cap_feat_dim": 16,
        },
        {
            "hidden_states": noise(4, 8, 8),
            "timestep": lambda: torch.rand(BATCH),
            "encoder_hidden_states": noise(TEXT, 16),
            "encoder_attention_mask": valid(TEXT, torch.bool),
        },
    ),
    "LatteTransformer3DModel": (
        {
            **_DIT,
            "in_channels": 4,
            "out_channels": 4,
            "sample_size": 8,
            "patch_size": 2,
            "num_embeds_ada_norm": 1000,
            "norm_type": "ada_norm_single",
            "caption_channels": 16,
            "video_length": 2,
            "norm_elementwise_affine": False,
            "cross_attention_dim": WIDTH,
        },
        {
            "hidden_states": noise(4, 2, 8, 8),
            "timestep": steps(),
            "encoder_hidden_states": noise(TEXT, 16),
        },
    ),
    "HiDreamImageTransformer2DModel": (
        {
            "patch_size": 2,
            "in_channels": 4,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "caption_channels": [16, 16],
            "text_emb_dim": 16,
            "axes_dims_rope": (8, 4, 4),
            "max_resolution": (8, 8),
            "llama_layers": [0, 1],
        },
        {
            "hidden_states": noise(4, 8, 8),
            "timesteps": steps(),
            "encoder_hidden_states_t5": noise(TEXT, 16),
            "encoder_hidden_states_llama3": lambda: torch.randn(2, BATCH, TEXT, 16),
            "pooled_embeds": noise(16),
        },
    ),
    "HunyuanVideoTransformer3DModel": (
        {
            **_DIT,
            "in_channels": 4,
            "out_channels": 4,
            "num_single_layers": 1,
            "num_refiner_layers": 1,
            "text_embed_dim": 16,
            "pooled_projection_dim": 16,
            "rope_axes_dim": (4, 4, 8),
        },
        {
            "hidden_states": noise(4, 2, 8, 8),
            "timestep": steps(),
            "encoder_hidden_states": noise(TEXT, 16),
            "encoder_attention_mask": valid(TEXT),
            "pooled_projections": noise(16),
            "guidance": steps(torch.float32),
        },
    ),
    "Flux2Transformer2DModel": (
        {
            **_DIT,
            "num_single_layers": 1,
            "in_channels": 4,
            "joint_attention_dim": 16,
            "timestep_guidance_channels": 16,
            "axes_dims_rope": (4, 4, 4, 4),
        },
        {
            "hidden_states": noise(16, 4),
            "encoder_hidden_states": noise(TEXT, 16),
            "timestep": lambda: torch.rand(BATCH),
            "img_ids": lambda: torch.randn(16, 4),
            "txt_ids": lambda: torch.randn(TEXT, 4),
            "guidance": lambda: torch.rand(BATCH),
        },
    ),
    "AutoencoderKLLTXVideo": (
        {
            "latent_channels": 8,
            "block_out_channels": (8, 8, 8, 8),
            "decoder_block_out_channels": (8, 8, 8, 8),
            "layers_per_block": (1, 1, 1, 1, 1),
            "decoder_layers_per_block": (1, 1, 1, 1, 1),
        },
        {"sample": noise(3, 9, 32, 32)},
    ),
    "T2IAdapter": (
        {"channels": [16, 16], "num_res_blocks": 1, "downscale_factor": 4},
        {"x": noise(3, 32, 32)},
    ),
    "CosmosTransformer3DModel": (
        {
            **_DIT,
            "in_channels": 4,
            "out_channels": 4,
            "text_embed_dim": 16,
            "adaln_lora_dim": 4,
            "max_size": (4, 16, 16),
        },
        {
            "hidden_states": noise(4, 2, 8, 8),
            "timestep": steps(),
            "encoder_hidden_states": noise(TEXT, 16),
            "fps": 30,
            "padding_mask": lambda: torch.zeros(1, 1, 8, 8),
        },
    ),
    "ZImageTransformer2DModel": (
        {
            "in_channels": 4,
            "dim": 48,
            "n_layers": 1,
            "n_refiner_layers": 1,
            "n_heads": 2,
            "n_kv_heads": 2,
            "cap_feat_dim": 16,
            "axes_dims": [8, 8, 8],
            "axes_lens": [64, 32, 32],
        },
        {
            "x": lambda: [torch.randn(4, 1, 8, 8) for _ in range(BATCH)],
            "t": lambda: torch.rand(BATCH),
            "cap_feats": lambda: [torch.randn(TEXT, 16), torch.randn(TEXT - 2, 16)],
        },
    ),
}


def entries() -> list[Entry]:
    """All measured models of diffusers."""
    return [
        Entry(f"diffusers/{name}", "diffusers", name, family=f"diffusers/{name}") for name in MODELS
    ]


def build(entry: Entry) -> tuple[torch.nn.Module, Inputs]:
    """The model of `entry` and its inputs."""
    arguments, inputs = MODELS[entry.cls]
    model = getattr(importlib.import_module("diffusers"), entry.cls)(**arguments)
    return model, {name: make() if callable(make) else make for name, make in inputs.items()}
