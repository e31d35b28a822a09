"""transformers: text generation with a static cache.

Llama 3.2 1B's configuration with random bf16 weights, batch 1, greedy; `generate` compiles by
itself (`CompileConfig`). 8 of 16 layers. A step is a token.
"""

from __future__ import annotations

import torch

from benchmarks.frameworks.base import Framework, How, Meter, Setup


def loop(how: How, meter: Meter, setup: Setup) -> None:
    import transformers
    from transformers import CompileConfig

    config = transformers.LlamaConfig(
        vocab_size=setup.size(128256, 100),
        hidden_size=setup.size(2048, 32),
        intermediate_size=setup.size(8192, 64),
        num_hidden_layers=setup.size(8, 1),
        num_attention_heads=setup.size(32, 2),
        num_key_value_heads=setup.size(8, 1),
        eos_token_id=None,
        pad_token_id=0,
    )
    with torch.device(setup.device):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()

    def count(tokens: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
        meter.tick(scores[:, :64] if scores is not None else tokens[:, -1])
        return torch.zeros(tokens.shape[0], dtype=torch.bool, device=tokens.device)

    options: dict[str, object] = {"disable_compile": True}
    if how.mode != "eager":
        chosen = CompileConfig(**{"mode": "default", **how.options})
        if setup.device != "cuda":
            chosen._compile_all_devices = True
        options = {"compile_config": chosen}
    prompt = torch.arange(1, 17, device=setup.device)[None]
    with torch.no_grad():
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=meter.total,
            do_sample=False,
            cache_implementation="static",
            stopping_criteria=[count],
            **options,
        )


FRAMEWORK = Framework(("transformers",), loop, warm=100, steps=300)
