"""Ten models: how each is built, and one call of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from benchmarks.workloads import catalogue, running, variants
from benchmarks.workloads.base import Setting


class Model(NamedTuple):
    """module: what is compiled. call: one call of the compiled module, by its number; new inputs
    each time.
    """

    module: torch.nn.Module
    call: Callable[[Any, int], object]


def whisper(device: torch.device, tiny: bool) -> Model:
    """Whisper base: 30 s of speech and 32 tokens, fp16."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    small = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32}
    base = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048}
    heads = {"encoder_attention_heads": 8, "decoder_attention_heads": 8}
    config = WhisperConfig(**(small if tiny else base), **heads, decoder_ffn_dim=2048)
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    module = WhisperForConditionalGeneration(config).eval().to(device, dtype)
    features = torch.randn(8, 1, 80, 3000, device=device, dtype=dtype)
    tokens = torch.randint(0, 1000, (8, 1, 32), device=device)

    def call(function: Any, number: int) -> object:
        n = number % 8
        return function(input_features=features[n].clone(), decoder_input_ids=tokens[n].clone())

    return Model(module, call)


def qwen_decode(device: torch.device, tiny: bool) -> Model:
    """Qwen2 0.5B's shape: one token a call, with a static cache of 512 places, bf16."""
    from transformers import Qwen2Config, Qwen2ForCausalLM, StaticCache

    config = Qwen2Config(
        vocab_size=100 if tiny else 151936,
        hidden_size=64 if tiny else 896,
        intermediate_size=64 if tiny else 4864,
        num_hidden_layers=1 if tiny else 24,
        num_attention_heads=2 if tiny else 14,
        num_key_value_heads=2,
    )
    module = Qwen2ForCausalLM(config).eval().to(device, torch.bfloat16)
    cache = StaticCache(config=config, max_cache_len=512)

    def call(function: Any, number: int) -> object:
        place = torch.tensor([number % 512], device=device)
        token = torch.tensor([[number % 100]], device=device)
        return function(input_ids=token, past_key_values=cache, cache_position=place)

    return Model(module, call)


def t5(device: torch.device, tiny: bool) -> Model:
    """T5 base: 128 tokens in, 32 out, fp32."""
    from transformers import T5Config, T5ForConditionalGeneration

    layers = 1 if tiny else 12
    config = T5Config(
        d_model=64 if tiny else 768,
        d_ff=64 if tiny else 3072,
        num_layers=layers,
        num_heads=12,
        decoder_start_token_id=0,
    )
    module = T5ForConditionalGeneration(config).eval().to(device)

    def call(function: Any, number: int) -> object:
        ids = torch.randint(1, 1000, (1, 128), device=device)
        return function(input_ids=ids, decoder_input_ids=ids[:, :32].clone())

    return Model(module, call)


def workload(name: str) -> Callable[[torch.device, bool], Model]:
    """One of `benchmarks.workloads`, by its name."""

    def make(device: torch.device, tiny: bool) -> Model:
        found = catalogue.named(name)
        case = running.build_case(found, Setting(device, found.dtype, tiny))
        live = running.Running(found, variants.named("default"), case, case.module, device)
        batches = running.draw_batches(live, running.pool_size(live, 6), seed=1)

        def call(function: Any, number: int) -> object:
            live.function = function
            if number % case.calls_per_reset == 0:
                live.reset()
            return live.call(batches[number % len(batches)])

        return Model(case.module, call)

    return make


MODELS: dict[str, Callable[[torch.device, bool], Model]] = {
    "whisper": whisper,
    "qwen_decode": qwen_decode,
    "t5": t5,
    **{
        name: workload(name)
        for name in (
            "mobilebert_qa_inference",
            "diffusion_step",
            "densenet121_inference",
            "xlnet_inference",
            "distilgpt2_training",
            "bert_pytorch_training",
            "deeprecommender_training",
        )
    },
}
