"""Workloads compiled with ``aot_eager`` agree with eager. All of them are in the long tests."""

from __future__ import annotations

import pytest
import torch

from benchmarks.workloads import accuracy, catalogue, running
from tests.workloads.support import build

QUICK = (
    "alexnet_inference",
    "dcgan_training",
    "deeprecommender_training",
    "dlrm_inference",
    "gpt_training_adamw",
    "llama_decode_b1",
    "pyhpc_turbulent_kinetic_energy_inference",
)


@pytest.mark.parametrize("name", QUICK)
def test_agrees_with_eager(name: str) -> None:
    workload = catalogue.named(name)
    torch._dynamo.reset()
    compiled, eager = build(workload, "aot_eager"), build(workload, "eager")
    batches = running.draw_batches(eager, 3, seed=1)
    wanted, found = accuracy.answer(eager, batches), accuracy.answer(compiled, batches)
    errors = accuracy.errors(found, wanted)
    assert errors["outputs"] is not None
    assert errors["outputs"] <= workload.tolerance
    assert (errors["gradients"] or 0.0) <= workload.tolerance
