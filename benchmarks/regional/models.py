"""Four models of repeated blocks, with the sizes of published ones and random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn


class Case(NamedTuple):
    """model: with random weights. call: what is run of it, returns one tensor. inputs: of several
    calls.
    """

    model: nn.Module
    call: Callable[..., torch.Tensor]
    inputs: list[tuple[torch.Tensor, ...]]


def _ids(count: int, batch: int, length: int, tokens: int, device: str) -> list[Any]:
    source = torch.Generator().manual_seed(1)
    drawn = torch.randint(0, tokens, (count, batch, length), generator=source)
    return [(ids.to(device),) for ids in drawn]


def llama(device: str, tiny: bool, training: bool) -> Case:
    """32 layers of TinyLlama's width (2048, 32 heads, 4 of keys and values): 1.6 billion weights.
    Inference of 64 tokens, training on 512.
    """
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=100 if tiny else 32000,
        hidden_size=64 if tiny else 2048,
        intermediate_size=128 if tiny else 5632,
        num_hidden_layers=3 if tiny else 32,
        num_attention_heads=4 if tiny else 32,
        num_key_value_heads=2 if tiny else 4,
        use_cache=False,
    )
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    length = 8 if tiny else 512 if training else 64
    inputs = _ids(4, 1, length, config.vocab_size, device)
    return Case(model, lambda m, ids: m(input_ids=ids).logits, inputs)


def dit(device: str, tiny: bool, training: bool) -> Case:
    """DiT-L/2: 24 blocks of 1024, 16 heads, 256 patches; one image in inference, eight in
    training.
    """
    from benchmarks.workloads.zoo.diffusion_step import DiffusionTransformer

    side, width, heads, layers = (8, 32, 2, 3) if tiny else (32, 1024, 16, 24)
    with torch.device(device):
        model = DiffusionTransformer(side, width, heads, layers, 1000).to(torch.bfloat16)
    batch = 8 if training and not tiny else 1
    source = torch.Generator().manual_seed(1)
    inputs = []
    for _ in range(4):
        latents = torch.randn(batch, 4, side, side, generator=source).to(device, torch.bfloat16)
        times = torch.randint(20, 500, (batch,), generator=source).to(device)
        inputs.append((latents, times, torch.zeros_like(times)))
    return Case(model, lambda m, *given: m(*given), inputs)


def vit(device: str, tiny: bool, training: bool) -> Case:
    """ViT-L/16 at 224 x 224: 24 blocks of 1024; one image in inference, sixteen in training."""
    import timm

    sizes = {"depth": 3, "embed_dim": 48, "num_heads": 2, "img_size": 32} if tiny else {}
    with torch.device(device):
        model = timm.create_model("vit_large_patch16_224", **sizes).to(torch.bfloat16)
    batch, side = (16 if training and not tiny else 1), (32 if tiny else 224)
    source = torch.Generator().manual_seed(1)
    images = torch.randn(4, batch, 3, side, side, generator=source).to(device, torch.bfloat16)
    return Case(model, lambda m, x: m(x), [(image,) for image in images])


def bert(device: str, tiny: bool, training: bool) -> Case:
    """BERT-large: 24 layers of 1024, 16 heads; 128 tokens, batch 1 in inference, 8 in training."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=100 if tiny else 30522,
        hidden_size=48 if tiny else 1024,
        num_hidden_layers=3 if tiny else 24,
        num_attention_heads=2 if tiny else 16,
        intermediate_size=64 if tiny else 4096,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.device(device):
        model = transformers.BertModel(config, add_pooling_layer=False).to(torch.bfloat16)
    batch, length = (8 if training and not tiny else 1), (8 if tiny else 128)
    inputs = _ids(4, batch, length, config.vocab_size, device)
    return Case(model, lambda m, ids: m(input_ids=ids).last_hidden_state, inputs)


MODELS: dict[str, Callable[[str, bool, bool], Case]] = {
    "llama32": llama,
    "dit24": dit,
    "vit_l": vit,
    "bert_large": bert,
}
