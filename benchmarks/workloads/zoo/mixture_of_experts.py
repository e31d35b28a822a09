"""Forward of a mixture-of-experts language model (today): batch 1, 64 tokens.

Stands for routing: which expert sees which token is decided on the GPU. Hugging Face's Mixtral with
8 experts, 2 per token, shrunk to 8 layers of width 1024 with random weights, bfloat16, no cache.
The package chooses how experts are run. Compared with a looser tolerance, since a rounding
difference can route a token elsewhere.
"""

from __future__ import annotations

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import hf

_FULL = {
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
}
_TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "vocab_size": 100,
}


def _build(setting: Setting) -> Case:
    sizes = setting.pick(_FULL, _TINY)
    model = hf.build("MixtralForCausalLM", "MixtralConfig", setting, **sizes).eval()
    shape = setting.pick((1, 64), (1, 8))

    def draw_batch(draw: Draw, index: int) -> Batch:
        tokens = draw.integers(0, sizes["vocab_size"], *shape)
        return Batch(kwargs={"input_ids": tokens, "use_cache": False})

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="mixture_of_experts",
        suite="today",
        batch=1,
        build=_build,
        packages=hf.PACKAGES,
        tolerance=0.25,
        traits=("data-dependent routing",),
    ),
)
