"""The programs that are timed, with random weights: name -> (function of the inputs, maker of fresh
inputs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Workload = tuple[Callable[..., Any], Callable[[], list[torch.Tensor]]]


def _ids(batch: int, length: int, device: str) -> list[torch.Tensor]:
    return [torch.randint(0, 1000, (batch, length), device=device)]


def bert(device: str, tiny: bool) -> Workload:
    """BERT-base, bf16, batch 1, 128 tokens."""
    import transformers

    config = transformers.BertConfig(num_hidden_layers=1 if tiny else 12)
    model = transformers.BertForMaskedLM(config).to(device).eval().bfloat16()
    return lambda x: model(input_ids=x).logits, lambda: _ids(1, 128, device)


def gpt2(device: str, tiny: bool) -> Workload:
    """GPT-2 small, bf16, batch 1, 64 tokens, no cache."""
    import transformers

    config = transformers.GPT2Config(n_layer=1 if tiny else 12)
    model = transformers.GPT2LMHeadModel(config).to(device).eval().bfloat16()
    return lambda x: model(input_ids=x, use_cache=False).logits, lambda: _ids(1, 64, device)


def efficientnet(device: str, tiny: bool) -> Workload:
    """EfficientNet-B0, fp16 (fp32 on a CPU), batch 1."""
    import timm

    model = timm.create_model("efficientnet_b0").to(device).eval()
    dtype = torch.half if device == "cuda" else torch.float32
    model = model.to(dtype)
    side = 64 if tiny else 224
    return model, lambda: [torch.randn(1, 3, side, side, device=device, dtype=dtype)]


def vit(device: str, tiny: bool) -> Workload:
    """ViT-B/16, fp16 (fp32 on a CPU), batch 64: the GPU is busy all the time, so a graph gains
    nothing.
    """
    import timm

    model = timm.create_model("vit_base_patch16_224").to(device).eval()
    dtype = torch.half if device == "cuda" else torch.float32
    model = model.to(dtype)
    batch = 1 if tiny else 64
    return model, lambda: [torch.randn(batch, 3, 224, 224, device=device, dtype=dtype)]


def decode(device: str, tiny: bool) -> Workload:
    """One decoding step of a Llama-like model, 16 layers of 1024, bf16, batch 1, StaticCache of
    1024.
    """
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=1 if tiny else 16,
        num_attention_heads=16,
        num_key_value_heads=16,
        vocab_size=32000,
        max_position_embeddings=4096,
    )
    model = transformers.LlamaForCausalLM(config).to(device).eval().bfloat16()
    cache = transformers.StaticCache(config=model.config, max_cache_len=1024)
    position = [5]

    def run(token: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        made = model(input_ids=token, past_key_values=cache, cache_position=place, use_cache=True)
        return made.logits

    def make() -> list[torch.Tensor]:
        position[0] = 5 + (position[0] - 4) % 1000
        return [*_ids(1, 1, device), torch.tensor([position[0]], device=device)]

    with torch.no_grad():
        run(*make())
    return run, make


def big_inputs(device: str, tiny: bool) -> Workload:
    """Three inputs of 256 MiB and little work on them."""
    shape = (4, 64, 64) if tiny else (64, 1024, 1024)

    def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.nn.functional.layer_norm(a + b, (a.shape[-1],))
        return (y * c).sum(-1), torch.relu(y)

    return run, lambda: [torch.randn(shape, device=device) for _ in range(3)]


def ten_inputs(device: str, tiny: bool) -> Workload:
    """Ten inputs and about forty library kernels, for the host time of one served call."""
    steps = 2 if tiny else 20

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        value = tensors[0]
        for i in range(steps):
            value = torch.softmax(value @ tensors[i % 10], -1)
        return value

    return run, lambda: [torch.randn(64, 64, device=device) for _ in range(10)]


WORKLOADS: dict[str, Callable[[str, bool], Workload]] = {
    "decode": decode,
    "big_inputs": big_inputs,
    "bert": bert,
    "gpt2": gpt2,
    "efficientnet": efficientnet,
    "vit": vit,
}
