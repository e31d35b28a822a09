"""mT5 encoder-decoder (Hugging Face suite): inference and training at batch 16, 128 tokens.

Stands for steps with a huge vocabulary: logits of 16 x 128 x 250112 values, whose gradient of about
1 GB enters the backward graph from outside and is copied on each step by graphs that need fixed
addresses. The configuration is the package's default (8 + 8 layers of width 512). Encoder and
decoder get the same length, as in the original suite; the loss is outside the compiled model, as in
the paper.
"""

from __future__ import annotations

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_TINY = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 100}


def _build(setting: Setting, training: bool) -> Case:
    sizes = setting.pick({"vocab_size": 250112}, _TINY)
    model = hf.build("MT5ForConditionalGeneration", "MT5Config", setting, **sizes).train(training)
    vocabulary = sizes["vocab_size"]
    shape = setting.pick((16, 128), (2, 8))

    def draw_batch(draw: Draw, index: int) -> Batch:
        kwargs = {
            "input_ids": draw.integers(0, vocabulary, *shape),
            "decoder_input_ids": draw.integers(0, vocabulary, *shape),
            "use_cache": False,
        }
        target = draw.integers(0, vocabulary, *shape) if training else None
        return Batch(kwargs=kwargs, target=target)

    return Case(model, draw_batch, loss=hf.token_loss if training else None)


WORKLOADS = (
    Workload(
        name="mt5_training",
        suite="HF",
        batch=16,
        build=lambda setting: _build(setting, training=True),
        training=True,
        precision="amp",
        packages=hf.PACKAGES,
        traits=("large copies",),
    ),
    Workload(
        name="mt5_inference",
        suite="HF",
        batch=16,
        build=lambda setting: _build(setting, training=False),
        packages=hf.PACKAGES,
    ),
)
