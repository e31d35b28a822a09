"""transformers' own `generate` compiles with the backend, whichever mode it passes; what a step
has to read of memory.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.decode import bandwidth
from benchmarks.decode.measure import llama
from benchmarks.decode.ways import GROUPS, settings
from benchmarks.workloads.zoo.vision import prepare_torchvision

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def llama_can_be_imported() -> None:
    prepare_torchvision()  # one of another build of torch lacks its operators
    try:
        getattr(transformers, "LlamaForCausalLM")  # noqa: B009  (imports it)
    except ImportError as error:
        pytest.skip(f"transformers' Llama cannot be imported: {error}")


@pytest.mark.parametrize("settings", [{}, {"mode": "max-autotune"}, {"mode": "default"}])
def test_generate_takes_the_backend_by_name(settings: dict[str, Any]) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = llama("cpu", tiny=True, layers=1)
    config = transformers.CompileConfig(backend="pygraph", **settings)
    config._compile_all_devices = True
    prompt = torch.arange(1, 9)[None]

    def tokens(**options: Any) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=6,
                do_sample=False,
                cache_implementation="static",
                **options,
            )
        return found

    assert torch.equal(tokens(compile_config=config), tokens(disable_compile=True))
    assert model._last_compile_config.backend == "pygraph"


def test_every_way_has_settings_that_transformers_takes() -> None:
    for ways in GROUPS.values():
        for way in ways:
            given = settings(way)
            assert given is None or transformers.CompileConfig(**given)
    assert settings("max-autotune pygraph") == {"backend": "pygraph", "mode": "max-autotune"}


class Tiny(nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 8)
        self.head = nn.Linear(8, 100, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def get_input_embeddings(self) -> nn.Module:
        return self.embed


def test_a_step_reads_all_weights_and_one_row_of_the_embedding_a_sequence() -> None:
    assert bandwidth.weights(Tiny(tied=False), 3) == 4 * (800 + 3 * 8)
    assert bandwidth.weights(Tiny(tied=True), 3) == 4 * 800


def test_a_step_reads_filled_positions_of_all_caches() -> None:
    config = transformers.LlamaConfig(
        hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3
    )
    assert bandwidth.cache(config, 8, 10.5) == 2 * 3 * 8 * 2 * 16 * 10.5 * 2
