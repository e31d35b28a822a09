"""DistilGPT2 (Hugging Face suite): training at batch 16, 512 tokens.

Stands for a small causal decoder: six GPT-2 layers of width 768 under a vocabulary of 50257, whose
logits gradient is about 0.8 GB in bfloat16. The loss is outside the compiled model.
"""

from __future__ import annotations

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_TINY = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32}


def _build(setting: Setting) -> Case:
    sizes = setting.pick({"n_layer": 6}, _TINY)
    model = hf.build("GPT2LMHeadModel", "GPT2Config", setting, **sizes).train()
    vocabulary = setting.pick(50257, 100)
    shape = setting.pick((16, 512), (2, 16))

    def draw_batch(draw: Draw, index: int) -> Batch:
        tokens = draw.integers(0, vocabulary, *shape)
        return Batch(
            kwargs={"input_ids": tokens, "use_cache": False},
            target=draw.integers(0, vocabulary, *shape),
        )

    return Case(model, draw_batch, loss=hf.token_loss)


WORKLOADS = (
    Workload(
        name="distilgpt2_training",
        suite="HF",
        batch=16,
        build=_build,
        training=True,
        precision="amp",
        packages=hf.PACKAGES,
        traits=("large copies",),
    ),
)
