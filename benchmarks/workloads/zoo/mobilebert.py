"""MobileBERT for question answering (Hugging Face suite): inference at batch 128, 128 tokens.

Stands for many small layers at a large batch: 24 blocks of bottlenecks and stacked feed-forward
networks. The configuration is the package's default. Compared are the start and end scores.
"""

from __future__ import annotations

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_TINY = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "embedding_size": 16,
    "intra_bottleneck_size": 16,
    "true_hidden_size": 16,
    "num_feedforward_networks": 2,
}


def _build(setting: Setting) -> Case:
    sizes = setting.pick({}, _TINY)
    model = hf.build("MobileBertForQuestionAnswering", "MobileBertConfig", setting, **sizes).eval()
    vocabulary = setting.pick(30522, 100)
    shape = setting.pick((128, 128), (2, 8))

    def draw_batch(draw: Draw, index: int) -> Batch:
        return Batch(kwargs={"input_ids": draw.integers(0, vocabulary, *shape)})

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="mobilebert_qa_inference",
        suite="HF",
        batch=128,
        build=_build,
        packages=hf.PACKAGES,
    ),
)
