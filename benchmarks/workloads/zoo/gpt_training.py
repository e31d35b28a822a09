"""A GPT-style training step with AdamW (today): batch 4, 512 tokens.

Stands for everyday language-model training: forward and backward compiled under AMP, loss and fused
optimizer outside. Hugging Face's GPT-2 with 12 layers of width 1024 and random weights. The
learning rate is small, so that the weights of all variants stay together over the steps that are
compared.
"""

from __future__ import annotations

import torch

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_TINY = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32}


def _build(setting: Setting) -> Case:
    sizes = setting.pick({"n_embd": 1024, "n_layer": 12, "n_head": 16}, _TINY)
    model = hf.build("GPT2LMHeadModel", "GPT2Config", setting, **sizes).train()
    fused = setting.device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=fused)
    vocabulary = setting.pick(50257, 100)
    shape = setting.pick((4, 512), (2, 16))

    def draw_batch(draw: Draw, index: int) -> Batch:
        tokens = draw.integers(0, vocabulary, *shape)
        target = draw.integers(0, vocabulary, *shape)
        return Batch(kwargs={"input_ids": tokens, "use_cache": False}, target=target)

    return Case(model, draw_batch, loss=hf.token_loss, optimizer=optimizer)


WORKLOADS = (
    Workload(
        name="gpt_training_adamw",
        suite="today",
        batch=4,
        build=_build,
        training=True,
        precision="amp",
        packages=hf.PACKAGES,
        traits=("large copies",),
    ),
)
