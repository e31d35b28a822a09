"""Blenderbot-small, an encoder-decoder (Hugging Face suite): training at batch 64, 128 tokens.

Stands for steps whose logits gradient (64 x 128 x 50265) is large next to the work. The
configuration is the package's default (8 + 8 layers of width 512). The loss is outside the compiled
model.
"""

from __future__ import annotations

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_TINY = {
    "vocab_size": 100,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 32,
}


def _build(setting: Setting) -> Case:
    sizes = setting.pick({}, _TINY)
    model = hf.build(
        "BlenderbotSmallForConditionalGeneration", "BlenderbotSmallConfig", setting, **sizes
    ).train()
    vocabulary = setting.pick(50265, 100)
    shape = setting.pick((64, 128), (2, 8))

    def draw_batch(draw: Draw, index: int) -> Batch:
        kwargs = {
            "input_ids": draw.integers(0, vocabulary, *shape),
            "decoder_input_ids": draw.integers(0, vocabulary, *shape),
            "use_cache": False,
        }
        return Batch(kwargs=kwargs, target=draw.integers(0, vocabulary, *shape))

    return Case(model, draw_batch, loss=hf.token_loss)


WORKLOADS = (
    Workload(
        name="blenderbot_small_training",
        suite="HF",
        batch=64,
        build=_build,
        training=True,
        precision="amp",
        packages=hf.PACKAGES,
        traits=("large copies",),
    ),
)
