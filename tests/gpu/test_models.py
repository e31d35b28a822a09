"""Whole models with random weights, bit for bit against the same compiled code without graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.gpu.support import DEVICE, check

Built = tuple[Callable[..., Any], Callable[[], list[torch.Tensor]]]

SMALL = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 1000,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
ENCODERS = {
    "Bert": ("BertForMaskedLM", SMALL),
    "Roberta": ("RobertaForMaskedLM", SMALL),
    "Albert": ("AlbertForMaskedLM", SMALL),
    "Electra": ("ElectraForPreTraining", SMALL),
    "MobileBert": ("MobileBertForMaskedLM", {"num_hidden_layers": 2, "vocab_size": 1000}),
    "DebertaV2": ("DebertaV2ForMaskedLM", SMALL),
    "DistilBert": (
        "DistilBertForMaskedLM",
        {"dim": 256, "n_layers": 2, "n_heads": 4, "hidden_dim": 512, "vocab_size": 1000},
    ),
    "XLNet": (
        "XLNetLMHeadModel",
        {"d_model": 256, "n_layer": 2, "n_head": 4, "d_inner": 512, "vocab_size": 1000},
    ),
}
DECODERS = {
    "GPT2": ("GPT2LMHeadModel", {"n_embd": 256, "n_layer": 2, "n_head": 4, "vocab_size": 1000}),
    "GPTNeoX": ("GPTNeoXForCausalLM", SMALL),
    "OPT": (
        "OPTForCausalLM",
        {
            "hidden_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 512,
            "vocab_size": 1000,
            "word_embed_proj_dim": 256,
        },
    ),
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Mistral": ("MistralForCausalLM", GROUPED),
    "Qwen2": ("Qwen2ForCausalLM", GROUPED),
    "Gemma": ("GemmaForCausalLM", {**GROUPED, "head_dim": 64}),
    "Phi": ("PhiForCausalLM", SMALL),
    "Bloom": (
        "BloomForCausalLM",
        {"hidden_size": 256, "n_layer": 2, "n_head": 4, "vocab_size": 1000},
    ),
}
TIMM = [
    "resnet18",
    "efficientnet_b0",
    "mobilenetv3_small_100",
    "convnext_atto",
    "vit_tiny_patch16_224",
    "deit_tiny_patch16_224",
    "regnetx_002",
    "mixer_s32_224",
]
TORCHVISION = [
    "resnet18",
    "mobilenet_v2",
    "squeezenet1_0",
    "alexnet",
    "shufflenet_v2_x0_5",
    "vgg11",
]
OTHERS = ["T5", "Bart", "ViT", "CLIPVision"]


def build_text(family: str, model_class: str, settings: dict[str, Any], causal: bool) -> Built:
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{family}Config")(**settings)
    model = getattr(transformers, model_class)(config).to(DEVICE).eval().bfloat16()
    extra = {"use_cache": False} if causal else {}
    return (
        lambda x: model(input_ids=x, **extra).logits,
        lambda: [torch.randint(0, 1000, (2, 64), device=DEVICE)],
    )


def build_other(name: str) -> Built:
    transformers = pytest.importorskip("transformers")

    def image() -> list[torch.Tensor]:
        return [torch.randn(2, 3, 224, 224, device=DEVICE, dtype=torch.bfloat16)]

    def tokens() -> list[torch.Tensor]:
        return [torch.randint(0, 1000, (2, 32), device=DEVICE)]

    if name == "T5":
        config = transformers.T5Config(
            d_model=256, num_layers=2, num_heads=4, d_ff=512, d_kv=64, vocab_size=1000
        )
        model = transformers.T5ForConditionalGeneration(config).to(DEVICE).eval().bfloat16()
        return lambda x: model(input_ids=x, decoder_input_ids=x, use_cache=False).logits, tokens
    if name == "Bart":
        config = transformers.BartConfig(
            d_model=256,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=512,
            decoder_ffn_dim=512,
            vocab_size=1000,
        )
        model = transformers.BartForConditionalGeneration(config).to(DEVICE).eval().bfloat16()
        return lambda x: model(input_ids=x, decoder_input_ids=x, use_cache=False).logits, tokens
    sizes = {k: v for k, v in SMALL.items() if k != "vocab_size"}
    if name == "ViT":
        model = transformers.ViTModel(transformers.ViTConfig(**sizes)).to(DEVICE).eval().bfloat16()
    else:
        vision = transformers.CLIPVisionConfig(**sizes)
        model = transformers.CLIPVisionModel(vision).to(DEVICE).eval().bfloat16()
    return lambda x: model(pixel_values=x).last_hidden_state, image


def build_vision(library: str, name: str) -> Built:
    if library == "timm":
        model = pytest.importorskip("timm").create_model(name)
    else:
        model = getattr(pytest.importorskip("torchvision").models, name)(weights=None)
    model = model.to(DEVICE).eval().half()
    return model, lambda: [torch.randn(2, 3, 224, 224, device=DEVICE, dtype=torch.half)]


def run(built: Built) -> None:
    function, make = built
    found = check(function, make, calls=5, served=False)
    reasons = "\n".join(f"{r['state']}: {r['reason'] or r['misses']}" for r in found)
    assert any(r["state"] == "serving" and r["served"] >= 3 for r in found), reasons
    for region in found:
        assert region["state"] == "serving" or region["reason"], region


@pytest.mark.parametrize("family", ENCODERS)
def test_encoder(family: str) -> None:
    run(build_text(family, *ENCODERS[family], causal=False))


@pytest.mark.parametrize("family", DECODERS)
def test_decoder(family: str) -> None:
    run(build_text(family, *DECODERS[family], causal=True))


@pytest.mark.parametrize("name", OTHERS)
def test_other_transformer(name: str) -> None:
    run(build_other(name))


@pytest.mark.parametrize("name", TIMM)
def test_timm(name: str) -> None:
    run(build_vision("timm", name))


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str) -> None:
    run(build_vision("torchvision", name))
