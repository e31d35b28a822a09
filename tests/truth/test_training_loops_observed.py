"""The instrument that checks the marks on a pretended device."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from benchmarks.lint_truth import ghost
from benchmarks.training_loops import on_cpu
from benchmarks.training_loops.marks import Loop, load
from benchmarks.training_loops.observe import Watch, compare, observe, report, summary


def own(name: str) -> Loop:
    (found,) = (loop for loop in load() if loop.name == name)
    return found


def test_an_event_belongs_to_a_step_of_the_first_optimizer() -> None:
    watch = Watch(frozenset({__file__}))
    first, second = object(), object()
    for step in range(4):
        watch.record()  # in every step
        if step == 0:
            watch.record()  # once
        watch.stepped(first)
        watch.stepped(second)
    often, once = sorted(line for _, line in watch.events)
    assert watch.steps == 4
    assert watch.every_step(__file__) == {often}
    assert watch.every_step("elsewhere.py") == set()
    assert once not in watch.every_step(__file__)


def test_without_an_optimizer_the_median_line_counts_the_steps() -> None:
    watch = Watch(frozenset())
    watch.events = {("a.py", 1): [0] * 8, ("a.py", 2): [0] * 5, ("a.py", 3): [0]}
    assert watch.every_step("a.py") == {1, 2}


@pytest.mark.parametrize("name", ["vision_trainer", "gradient_norms"])
def test_marks_are_confirmed(name: str) -> None:
    loop = own(name)
    found = compare(loop, observe(loop, on_cpu.watching))
    assert (found.not_seen, found.unmarked) == ((), ())
    assert len(found.confirmed) == sum(len(part.marks) for part in loop.parts)


def test_a_clean_loop_has_no_event_in_every_step() -> None:
    loop = own("log_every_n")
    watch = observe(loop, on_cpu.watching)
    assert watch.events  # it logs
    assert compare(loop, watch) == compare(loop, Watch(watch.files))


def test_the_report_names_what_does_not_agree() -> None:
    loop = own("gradient_norms")
    nothing = compare(loop, Watch(frozenset()))
    result = report({loop.name: nothing})
    assert result["confirmed"] == 0
    assert len(result["not_seen"]) == 2
    assert "not seen: gradient_norms.py:" in summary(result)


def test_a_positional_non_blocking_is_no_dtype() -> None:
    marks = ghost.Marks()
    with ghost.GhostFunctions(marks):
        moved = torch.ones(2).to(ghost.DEVICE, torch.float64, True)
        assert moved.dtype == torch.float64
        assert marks.marked(moved)
