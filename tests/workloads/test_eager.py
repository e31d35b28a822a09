"""Every workload, tiny, eager, on the CPU: it builds the same way twice, and inputs are fresh."""

from __future__ import annotations

import pytest
import torch

from benchmarks.workloads import accuracy, catalogue, running
from benchmarks.workloads.base import Workload, tensors_in
from tests.workloads.support import build

EVERY = pytest.mark.parametrize("workload", catalogue.WORKLOADS, ids=lambda w: w.name)


@EVERY
def test_runs_and_is_finite(workload: Workload) -> None:
    live = build(workload, "eager")
    batches = running.draw_batches(live, 1, seed=1)
    found = accuracy.answer(live, batches)
    assert found.outputs
    assert all(tensor.isfinite().all() for tensor in found.outputs)
    if workload.training:
        assert found.gradients
        assert any(gradient.abs().max() > 0 for gradient in found.gradients)
    live.call(batches[0])


@EVERY
def test_two_builds_have_equal_weights(workload: Workload) -> None:
    first, second = (build(workload, "eager").case.module.state_dict() for _ in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@EVERY
def test_batches_are_fresh_and_repeatable(workload: Workload) -> None:
    live = build(workload, "eager")
    first, second = running.draw_batches(live, 2, seed=1)
    again = running.draw_batches(live, 1, seed=1)[0]

    def values(batch: object) -> list[torch.Tensor]:
        return list(tensors_in((batch.args, batch.kwargs)))  # type: ignore[attr-defined]

    one, two, three = values(first), values(second), values(again)
    assert all(torch.equal(a, b) for a, b in zip(one, three, strict=True))
    assert any(a.shape != b.shape or not a.equal(b) for a, b in zip(one, two, strict=True))
    assert not {t.data_ptr() for t in one} & {t.data_ptr() for t in two}


def test_the_catalogue_is_the_papers_25_and_five_of_today() -> None:
    of_the_paper = [w for w in catalogue.WORKLOADS if w.suite != "today"]
    of_today = [w for w in catalogue.WORKLOADS if w.suite == "today"]
    assert len(of_the_paper) == 25
    # The decoding step comes in three forms.
    assert len({w.name.split("_")[0] for w in of_today}) == 5
    assert len({w.name for w in catalogue.WORKLOADS}) == len(catalogue.WORKLOADS)


def test_a_wrong_name_is_answered_with_the_right_ones() -> None:
    with pytest.raises(KeyError, match="dlrm_inference"):
        catalogue.named("dlrm")


def test_every_workload_says_what_it_stands_for() -> None:
    assert all(len(catalogue.describe(workload)) > 20 for workload in catalogue.WORKLOADS)
