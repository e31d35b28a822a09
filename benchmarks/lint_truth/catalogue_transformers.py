"""The measured models of transformers, as data."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import torch

from benchmarks.lint_truth.builders import Entry
from benchmarks.lint_truth.plain_models import PLAIN
from benchmarks.lint_truth.shapes import (
    BATCH,
    FRAMES,
    IMAGE,
    TEXT_LENGTH,
    normal,
    ones,
    table,
    text_ids,
    text_with_images,
    video,
    whole,
)

_HEADS = {"num_key_value_heads": 4}
_RESNET = {"use_timm_backbone": False, "backbone": None}


def _tiny_resnet() -> Any:
    """A small ResNet configuration for the detection models' backbone."""
    config_cls: Any = importlib.import_module("transformers").ResNetConfig
    return config_cls(
        embedding_size=16,
        hidden_sizes=[16, 16, 24, 32],
        depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )


def _with_tiny_resnet() -> dict[str, Any]:
    """Detection models with that backbone."""
    return {**_RESNET, "backbone_config": _tiny_resnet()}


def _series(extra: int) -> Mapping[str, Any]:
    """Inputs of the probabilistic time series models."""
    length = 12 + extra
    return {
        "past_values": normal(BATCH, length),
        "past_time_features": normal(BATCH, length, 1),
        "past_observed_mask": ones(BATCH, length),
        "future_values": normal(BATCH, 6),
        "future_time_features": normal(BATCH, 6, 1),
    }


def _longrope() -> dict[str, Any]:
    """Longrope, as the installed version of transformers wants it written."""
    scaling: dict[str, Any] = {"rope_type": "longrope", "rope_theta": 10000.0}
    if int(metadata.version("transformers").partition(".")[0]) < 5:
        scaling = {"type": "longrope"}
    return {
        "rope_scaling": {**scaling, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
        "original_max_position_embeddings": 8,
        "max_position_embeddings": 128,
    }


def _model(
    cls: str,
    config: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    name: str = "",
    **more: Any,
) -> Entry:
    return Entry(name or cls, "transformers", cls, config=config or {}, inputs=inputs or {}, **more)


_SERIES = {"prediction_length": 6, "context_length": 12, "lags_sequence": [1, 2, 3]}
_SERIES = {**_SERIES, "num_time_features": 1}


def _image_places(tokens: int) -> Any:
    """1 where `text_with_images(tokens)` puts image features, else 0."""

    def build(config: Any) -> torch.Tensor:
        kinds = torch.zeros(BATCH, tokens + TEXT_LENGTH, dtype=torch.long)
        kinds[:, 1 : tokens + 1] = 1
        return kinds

    return build


_MROPE = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
}


def special() -> list[Entry]:
    """Models that need a field or an input of their own."""
    labels = whole(0, 2, BATCH)
    return [
        _model("WhisperModel", {}, {"input_features": normal(BATCH, 80, 256)}),
        _model(
            "LayoutLMv3Model",
            {
                "hidden_size": 64,
                "coordinate_size": 11,
                "shape_size": 10,
                "input_size": IMAGE,
                "max_2d_position_embeddings": 128,
            },
        ),
        _model("DeepseekV2Model", {**_HEADS, "num_experts_per_tok": 2}),
        _model("DeepseekV3Model", _HEADS),
        _model("InformerModel", _SERIES, _series(3)),
        _model("AutoformerModel", _SERIES, _series(3)),
        _model("TimeSeriesTransformerModel", _SERIES, _series(3)),
        _model("PatchTSTModel", {}, {"past_values": normal(BATCH, 32, 1)}),
        _model("PatchTSMixerModel", {}, {"past_values": normal(BATCH, 32, 1)}),
        _model("TimesformerModel", {"num_frames": FRAMES}, {"pixel_values": video}),
        _model("VideoMAEModel", {"num_frames": FRAMES}, {"pixel_values": video}),
        _model(
            "VivitModel",
            {"num_frames": FRAMES, "tubelet_size": [2, 16, 16]},
            {"pixel_values": video},
        ),
        _model(
            "VJEPA2Model",
            {"frames_per_clip": FRAMES, "crop_size": IMAGE},
            {"pixel_values_videos": lambda config: torch.randn(BATCH, FRAMES, 3, IMAGE, IMAGE)},
        ),
        _model("DetrModel", _with_tiny_resnet),
        _model("ConditionalDetrModel", _with_tiny_resnet),
        _model("DeformableDetrModel", _with_tiny_resnet),
        _model("DabDetrModel", _with_tiny_resnet),
        _model("TableTransformerModel", _with_tiny_resnet),
        _model(
            "ReformerModel",
            {
                "axial_pos_shape": [3, 4],
                "axial_pos_embds_dim": [32, 32],
                "lsh_attn_chunk_length": 4,
                "local_attn_chunk_length": 4,
                "num_buckets": 2,
                "attn_layers": ["lsh", "local"],
            },
        ),
        _model(
            "Speech2TextModel",
            {"conv_channels": 64},
            {"input_features": normal(BATCH, 200, 80), "attention_mask": ones(BATCH, 200)},
        ),
        _model("SpeechT5ForSpeechToText", {}, {"decoder_input_ids": text_ids}),
        _model(
            "SeamlessM4Tv2Model",
            {},
            {"input_features": normal(BATCH, 40, 160), "attention_mask": ones(BATCH, 40)},
        ),
        _model(
            "Wav2Vec2BertModel",
            {},
            {"input_features": normal(BATCH, 40, 160), "attention_mask": ones(BATCH, 40)},
        ),
        _model("ASTModel", {"max_length": 64}, {"input_values": normal(BATCH, 64, 128)}),
        _model(
            "ClapModel",
            {
                "audio_config": {
                    "patch_embeds_hidden_size": 16,
                    "hidden_size": 128,
                    "num_attention_heads": [2, 2, 2, 2],
                }
            },
            {
                "input_features": normal(BATCH, 1, 1024, 64),
                "is_longer": lambda config: torch.zeros(BATCH, 1, dtype=torch.bool),
            },
        ),
        _model("EncodecModel", {"codebook_dim": 64}, {"input_values": normal(BATCH, 1, 3200)}),
        _model("DacModel", {}, {"input_values": normal(BATCH, 1, 3200)}),
        _model(
            "MimiModel",
            {"upsample_groups": 64, "codebook_dim": 256},
            {"input_values": normal(BATCH, 1, 3200)},
        ),
        _model(
            "BambaModel",
            {
                "mamba_n_heads": 8,
                "mamba_d_head": 16,
                "mamba_d_state": 16,
                "mamba_chunk_size": 8,
                "attn_layer_indices": [1],
            },
        ),
        _model(
            "JambaModel",
            {
                "attn_layer_offset": 1,
                "attn_layer_period": 2,
                "expert_layer_offset": 1,
                "expert_layer_period": 2,
            },
        ),
        _model(
            "Mamba2Model",
            {"num_heads": 8, "head_dim": 16, "state_size": 16, "chunk_size": 8, "n_groups": 2},
        ),
        _model("RecurrentGemmaModel", {"num_hidden_layers": 3, "attention_window_size": 32}),
        _model("Qwen3NextModel", {"num_hidden_layers": 4, "num_experts_per_tok": 2}),
        _model(
            "Lfm2Model", {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]}
        ),
        _model("GPTNeoModel", {"num_layers": 2, "attention_types": [[["global", "local"], 1]]}),
        _model("GPTJModel", {"rotary_dim": 8}),
        _model("CodeGenModel", {"rotary_dim": 8}),
        _model("LiltModel", {"hidden_size": 48}, {}),
        _model(
            "LxmertModel",
            {},
            {
                "visual_feats": normal(BATCH, 6, 2048),
                "visual_pos": lambda config: torch.rand(BATCH, 6, 4),
            },
        ),
        _model(
            "InstructBlipModel",
            {"image_token_index": 2},
            {"input_ids": text_with_images(32), "qformer_input_ids": text_ids},
        ),
        _model("Blip2Model", {"image_token_index": 2}, {"input_ids": text_with_images(32)}),
        _model(
            "PaliGemmaModel",
            {"image_token_index": 4, "projection_dim": 64},
            {
                "input_ids": text_with_images(16),
                "attention_mask": ones(BATCH, 28),
                "token_type_ids": whole(0, 1, BATCH, 28),
            },
        ),
        _model(
            "AriaModel",
            {"projector_patch_to_query_dict": {4: 2}},
            {"input_ids": text_with_images(2)},
        ),
        _model("Idefics2Model", {}, {"pixel_values": normal(BATCH, 1, 3, IMAGE, IMAGE)}),
        _model(
            "IdeficsModel",
            {},
            {
                "pixel_values": normal(BATCH, 1, 3, IMAGE, IMAGE),
                "image_attention_mask": ones(BATCH, TEXT_LENGTH, 1),
            },
        ),
        _model(
            "Qwen2VLModel",
            {
                "image_token_id": 4,
                "text_config": _MROPE,
                "vision_config": {"hidden_size": 64, "embed_dim": 32, "depth": 2, "num_heads": 2},
            },
            {
                "pixel_values": normal(32, 1176),
                "image_grid_thw": table([1, 4, 4], [1, 4, 4]),
                "mm_token_type_ids": _image_places(4),
                "attention_mask": ones(BATCH, 4 + TEXT_LENGTH),
                "input_ids": text_with_images(4),
            },
        ),
        _model(
            "Glm4vVisionModel",
            {"patch_size": 14, "image_size": 56},
            {"hidden_states": normal(32, 1176), "grid_thw": table([1, 4, 4], [1, 4, 4])},
        ),
        _model(
            "GlmOcrVisionModel",
            {"patch_size": 14},
            {"hidden_states": normal(32, 1176), "grid_thw": table([1, 4, 4], [1, 4, 4])},
        ),
        _model(
            "VideoLlama3VisionModel",
            {"patch_size": 14},
            {
                "pixel_values": normal(32, 588),
                "grid_thw": table([1, 4, 4], [1, 4, 4]),
                "merge_sizes": table(2, 2),
            },
        ),
        _model(
            "Siglip2VisionModel",
            {"num_patches": 16},
            {
                "pixel_values": normal(BATCH, 16, 768),
                "pixel_attention_mask": ones(BATCH, 16),
                "spatial_shapes": table([4, 4], [4, 4]),
            },
        ),
        _model(
            "DecisionTransformerModel",
            {},
            {
                "states": normal(BATCH, 5, 17),
                "actions": normal(BATCH, 5, 4),
                "rewards": normal(BATCH, 5, 1),
                "returns_to_go": normal(BATCH, 5, 1),
                "timesteps": whole(0, 10, BATCH, 5),
                "attention_mask": ones(BATCH, 5),
            },
        ),
        _model("XmodModel", {"default_language": "en_XX"}),
        _model(
            "SegGptModel",
            {"image_size": [128, 64]},
            {
                "pixel_values": normal(BATCH, 3, 64, 64),
                "prompt_pixel_values": normal(BATCH, 3, 64, 64),
                "prompt_masks": normal(BATCH, 3, 64, 64),
            },
        ),
        _model(
            "TimesFmModel",
            {},
            {
                "past_values": normal(BATCH, 64),
                "freq": whole(0, 2, BATCH, 1),
                "past_values_padding": lambda config: torch.zeros(BATCH, 64, dtype=torch.long),
            },
        ),
        _model("SwinForImageClassification", {"window_size": 2}, {"labels": labels}),
        _model("DonutSwinModel", {"window_size": 2}),
        _model("GroundingDinoModel", {"num_queries": 4}),
        _model("MMGroundingDinoModel", {"num_queries": 4}),
        _model(
            "PerceiverModel",
            {"num_latents": 16, "d_latents": 64},
            {"inputs": normal(BATCH, 12, 64)},
        ),
        _model("FastSpeech2ConformerModel", modes=("eval",)),
        _model("LongcatFlashModel", {**_HEADS, "head_dim": 16, "qk_rope_head_dim": 16}),
        _model(
            "DbrxModel",
            {
                "attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0, "kv_n_heads": 2},
                "ffn_config": {"ffn_hidden_size": 64},
            },
        ),
        _model(
            "ParakeetEncoder",
            {"num_mel_bins": 80},
            {"input_features": normal(BATCH, 200, 80), "attention_mask": ones(BATCH, 200)},
        ),
        _model(
            "Kosmos2Model",
            {},
            {
                "input_ids": whole(3, 100, BATCH, 64 + TEXT_LENGTH),
                "attention_mask": ones(BATCH, 64 + TEXT_LENGTH),
                "image_embeds_position_mask": _image_places(64),
            },
        ),
        _model(
            "GraniteMoeHybridModel",
            {
                "layer_types": ["mamba", "attention"],
                "mamba_n_heads": 8,
                "mamba_d_head": 16,
                "mamba_d_state": 16,
                "mamba_chunk_size": 8,
            },
        ),
        _model(
            "FalconH1Model",
            {
                "mamba_n_heads": 8,
                "mamba_d_head": 16,
                "mamba_d_ssm": 128,
                "mamba_d_state": 16,
                "mamba_chunk_size": 8,
            },
        ),
        _model(
            "NemotronHModel",
            {
                "mamba_num_heads": 8,
                "mamba_head_dim": 16,
                "ssm_state_size": 16,
                "chunk_size": 8,
                "n_groups": 2,
            },
        ),
        _model(
            "SeamlessM4TModel",
            {},
            {"input_features": normal(BATCH, 40, 160), "attention_mask": ones(BATCH, 40)},
        ),
        _model(
            "MusicgenForCausalLM",
            {},
            {"input_ids": whole(0, 100, BATCH * 4, TEXT_LENGTH), "attention_mask": None},
        ),
        _model("GotOcr2Model", {"image_token_index": 4}, {"input_ids": text_with_images(1)}),
        _model(
            "InternVLModel",
            {"image_token_id": 4, "vision_config": {"image_size": [64, 64]}},
            {"input_ids": text_with_images(4), "pixel_values": normal(BATCH, 3, 64, 64)},
        ),
        _model("PeAudioEncoder", {}, {"input_values": normal(BATCH, 1, 6400)}),
        _model("Qwen3_5MoeTextModel", {"num_hidden_layers": 4, "num_experts_per_tok": 2}),
        _model("Qwen3_5TextModel", {"num_hidden_layers": 4}),
        _model("Lfm2MoeModel", {"layer_types": ["conv", "full_attention"]}),
        _model("EsmModel", {"vocab_size": 100, "mask_token_id": 32, "pad_token_id": 1}),
        _model(
            "BartForSequenceClassification",
            {},
            {
                "input_ids": lambda config: torch.cat(
                    [text_ids(config)[:, :-1].clamp(min=3), torch.full((BATCH, 1), 2)], 1
                ),
                "labels": whole(0, 3, BATCH),
                "decoder_input_ids": None,
            },
        ),
        _model(
            "T5ForSequenceClassification",
            {"decoder_start_token_id": 0},
            {
                "input_ids": lambda config: torch.cat(
                    [text_ids(config)[:, :-1].clamp(min=3), torch.full((BATCH, 1), 1)], 1
                ),
                "labels": labels,
                "decoder_input_ids": None,
            },
        ),
        _model("GPT2ForSequenceClassification", {"pad_token_id": 0}, {"labels": labels}),
        _model("LlamaForSequenceClassification", {"pad_token_id": 0}, {"labels": labels}),
        _model("MixtralForCausalLM", {"output_router_logits": True}, {"labels": text_ids}),
        _model(
            "SwitchTransformersForConditionalGeneration",
            {},
            {"labels": text_ids, "output_router_logits": True},
        ),
        _model("Wav2Vec2ForCTC", {}, {"labels": whole(1, 20, BATCH, 5)}),
        _model("HubertForSequenceClassification", {}, {"labels": labels}),
        _model(
            "RobertaForQuestionAnswering",
            {},
            {"start_positions": whole(0, 5, BATCH), "end_positions": whole(5, 9, BATCH)},
        ),
        _model("TapasForQuestionAnswering"),
        _model(
            "LongformerForQuestionAnswering",
            {},
            {
                "input_ids": lambda config: torch.cat(
                    [
                        torch.tensor(
                            [[5, config.sep_token_id, 6, config.sep_token_id, config.sep_token_id]]
                            * BATCH
                        ),
                        text_ids(config),
                    ],
                    1,
                ),
                "attention_mask": ones(BATCH, 5 + TEXT_LENGTH),
            },
        ),
        _model("BertForPreTraining", {}, {"labels": text_ids, "next_sentence_label": labels}),
        _model("ViltForQuestionAnswering"),
        _model("LEDForConditionalGeneration", {}, {"labels": text_ids, "decoder_input_ids": None}),
        _model(
            "ProphetNetForConditionalGeneration",
            {},
            {"labels": text_ids, "decoder_input_ids": None},
        ),
        _model(
            "Phi3ForCausalLM",
            _longrope,
            {},
            name="Phi3LongRope",
        ),
        _model(
            "LlamaModel",
            {
                "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
                "max_position_embeddings": 8,
            },
            {},
            name="LlamaDynamicRope",
        ),
        _model("FunnelForTokenClassification", {}, {"labels": whole(0, 2, BATCH, TEXT_LENGTH)}),
        _model(
            "SamModel",
            {
                "vision_config": {"output_channels": 64, "num_pos_feats": 32},
                "prompt_encoder_config": {
                    "hidden_size": 64,
                    "image_size": IMAGE,
                    "image_embedding_size": 4,
                },
                "mask_decoder_config": {"hidden_size": 64},
            },
            {"input_points": lambda config: torch.rand(BATCH, 1, 2, 2) * IMAGE},
        ),
        _model(
            "SwitchTransformersModel",
            {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
        ),
        _model("NllbMoeModel", {"encoder_sparse_step": 1, "decoder_sparse_step": 1}),
        _model("LongT5Model", {"encoder_attention_type": "transient-global"}, name="LongT5Global"),
        _model(
            "BigBirdModel",
            {"block_size": 2, "num_random_blocks": 1},
            {"input_ids": whole(3, 100, BATCH, 32), "attention_mask": ones(BATCH, 32)},
            name="BigBirdSparse",
        ),
        _model(
            "BigBirdPegasusModel",
            {"block_size": 2, "num_random_blocks": 1},
            {
                "input_ids": whole(3, 100, BATCH, 32),
                "attention_mask": ones(BATCH, 32),
                "decoder_input_ids": text_ids,
            },
            name="BigBirdPegasusSparse",
        ),
        _model(
            "ReformerModel",
            {
                "axial_pos_embds": False,
                "lsh_attn_chunk_length": 4,
                "local_attn_chunk_length": 4,
                "attn_layers": ["lsh", "local"],
                "num_buckets": None,
            },
            name="ReformerUnsetBuckets",
        ),
    ]


def entries() -> list[Entry]:
    """All measured models of transformers."""
    return [_model(name) for name in PLAIN] + special()
