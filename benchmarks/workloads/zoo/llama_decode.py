"""One decoding step of a Llama-like model with a static key/value cache (today): batch 1 and 8.

Stands for text generation: each call reads one token per sequence, mutates 48 cache tensors in
place and moves on by one position. Hugging Face's Llama with ``StaticCache``: 16 layers of width
1024, 16 heads, vocabulary 32000, room for 1024 positions, bfloat16. In ``llama_decode_b1`` and
``llama_decode_b8`` an eager prefill of 64 tokens comes first, as ``generate`` does it, which lets
the cache mark its addresses as static. In ``llama_decode_lazy_cache`` the cache is passed in
untouched, so that it is made inside the first compiled call and is an ordinary mutated input
afterwards. Where generation differs: sampling is left out, and tokens are random.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
_FULL = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}


class Decoder(nn.Module):
    """The model and its cache."""

    def __init__(self, model: nn.Module, cache: Any) -> None:
        super().__init__()
        self.model = model
        self.cache = cache

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 tokens (batch, 1) to logits (batch, 1, vocabulary); the cache advances by one
        position.
        """
        return self.model(input_ids=tokens, past_key_values=self.cache, use_cache=True).logits


def _build(setting: Setting, batch: int, prefilled: bool) -> Case:
    transformers = hf.package()
    sizes = setting.pick(_FULL, _TINY)
    model = hf.build("LlamaForCausalLM", "LlamaConfig", setting, **sizes).eval()
    room, prompt = setting.pick((1024, 64), (32, 4))
    cache = transformers.StaticCache(config=model.config, max_cache_len=room)
    decoder = Decoder(model, cache)
    prompt_tokens = torch.arange(batch * prompt, device=setting.device).view(batch, prompt)
    prompt_tokens = prompt_tokens % sizes["vocab_size"]

    def prefill() -> None:
        with torch.no_grad():
            decoder(prompt_tokens)

    def reset() -> None:
        if not cache.layers or not cache.layers[0].is_initialized:
            return
        cache.reset()
        if prefilled:
            prefill()

    def draw_batch(draw: Draw, index: int) -> Batch:
        return Batch(args=(draw.integers(0, sizes["vocab_size"], batch, 1),))

    if prefilled:
        prefill()
    return Case(decoder, draw_batch, reset=reset, calls_per_reset=room - prompt - 1)


def _workload(name: str, batch: int, prefilled: bool) -> Workload:
    return Workload(
        name=name,
        suite="today",
        batch=batch,
        build=lambda setting: _build(setting, batch, prefilled),
        packages=hf.PACKAGES,
        traits=("mutated inputs",),
    )


WORKLOADS = (
    _workload("llama_decode_b1", 1, prefilled=True),
    _workload("llama_decode_b8", 8, prefilled=True),
    _workload("llama_decode_lazy_cache", 1, prefilled=False),
)
