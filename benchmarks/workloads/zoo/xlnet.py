"""XLNet language model (Hugging Face suite): inference at batch 1 and training at batch 8, 512
tokens.

Stands for models that make tensors on the CPU in ``forward``: the relative positions are computed
there and sent to the GPU on each call. Reported to gain most from moving them (3.14x in the paper).
The configuration is the package's default (24 layers of width 1024, vocabulary 32000). Differs from
the original suite in the loss, which is computed outside the compiled model, as in the paper.
"""

from __future__ import annotations

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_TINY = {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64, "vocab_size": 100}


def _build(setting: Setting, batch: int, training: bool) -> Case:
    sizes = setting.pick({}, _TINY)
    model = hf.build("XLNetLMHeadModel", "XLNetConfig", setting, **sizes).train(training)
    vocabulary = setting.pick(32000, 100)
    shape = setting.pick((batch, 512), (min(batch, 2), 16))

    def draw_batch(draw: Draw, index: int) -> Batch:
        tokens = draw.integers(0, vocabulary, *shape)
        target = draw.integers(0, vocabulary, *shape) if training else None
        return Batch(kwargs={"input_ids": tokens, "use_mems": False}, target=target)

    return Case(model, draw_batch, loss=hf.token_loss if training else None)


WORKLOADS = (
    Workload(
        name="xlnet_inference",
        suite="HF",
        batch=1,
        build=lambda setting: _build(setting, 1, training=False),
        packages=hf.PACKAGES,
        traits=("CPU tensors",),
    ),
    Workload(
        name="xlnet_training",
        suite="HF",
        batch=8,
        build=lambda setting: _build(setting, 8, training=True),
        training=True,
        precision="amp",
        packages=hf.PACKAGES,
        traits=("CPU tensors", "large copies"),
    ),
)
