"""DeBERTa (Hugging Face suite): v2 question answering inference at batch 1, v1 masked-language
training at batch 8.

Both use disentangled attention, whose relative positions and scale factors are made in ``forward``,
some of them on the CPU. 512 tokens. The v2 configuration is the package's default (24 layers of
width 1536), the v1 one is the base model (12 layers of width 768), both with random weights. The
training loss is outside the compiled model. Training has bfloat16 weights where the paper has AMP,
since under AMP the package's mask value does not fit the scores' dtype and eager raises.
"""

from __future__ import annotations

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_TINY = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
}
_DISENTANGLED = {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
}


def _build_qa(setting: Setting) -> Case:
    sizes = setting.pick({}, _TINY)
    sizes = {**sizes, **_DISENTANGLED}
    model = hf.build("DebertaV2ForQuestionAnswering", "DebertaV2Config", setting, **sizes).eval()
    vocabulary = setting.pick(128100, 100)
    shape = setting.pick((1, 512), (1, 16))

    def draw_batch(draw: Draw, index: int) -> Batch:
        return Batch(kwargs={"input_ids": draw.integers(0, vocabulary, *shape)})

    return Case(model, draw_batch)


def _build_masked_lm(setting: Setting) -> Case:
    base = {"vocab_size": 50265, "type_vocab_size": 0, "max_relative_positions": -1}
    sizes = setting.pick(base, {**_TINY, "type_vocab_size": 0})
    sizes = {**sizes, **_DISENTANGLED}
    model = hf.build("DebertaForMaskedLM", "DebertaConfig", setting, **sizes).train()
    vocabulary = sizes["vocab_size"]
    shape = setting.pick((8, 512), (2, 16))

    def draw_batch(draw: Draw, index: int) -> Batch:
        tokens = draw.integers(0, vocabulary, *shape)
        return Batch(kwargs={"input_ids": tokens}, target=draw.integers(0, vocabulary, *shape))

    return Case(model, draw_batch, loss=hf.token_loss)


WORKLOADS = (
    Workload(
        name="deberta_v2_qa_inference",
        suite="HF",
        batch=1,
        build=_build_qa,
        packages=hf.PACKAGES,
        traits=("CPU scalars",),
    ),
    Workload(
        name="deberta_mlm_training",
        suite="HF",
        batch=8,
        build=_build_masked_lm,
        training=True,
        packages=hf.PACKAGES,
        traits=("CPU scalars", "large copies"),
    ),
)
