"""What selection chooses on simulated loops, and what it costs them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.select.groups import Phase, Selector
from pygraph_rt.select.remembered import Decisions
from tests.runtime.simulated_loop import Machine, Part, entry, selector


def run(part: Part, calls: int, after: Callable[[int], None] = lambda i: None) -> None:
    for i in range(calls):
        part([])
        after(i)


def made(machine: Machine, **shape: Any) -> Part:
    part = Part(machine, **shape)
    part.keep = entry(selector(machine), part)  # type: ignore[attr-defined]
    return part


HOST_BOUND = {"kernels": 300, "launch_us": 8.0, "kernel_us": 2.0}
GPU_BOUND = {"kernels": 300, "launch_us": 8.0, "kernel_us": 20.0, "graph_gpu": 0.998}
SLOWER = {"kernels": 2, "launch_us": 8.0, "kernel_us": 2.0, "graph_us": 25.0}


@pytest.mark.parametrize("noise", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize(
    ("shape", "choice"), [(HOST_BOUND, GRAPH), (SLOWER, NO_GRAPH), (GPU_BOUND, None)]
)
def test_the_faster_is_chosen(
    shape: dict[str, Any], choice: str | None, synchronous: bool, noise: float
) -> None:
    machine = Machine(noise)
    part = made(machine, **shape)
    run(part, 640, lambda i: machine.synchronize() if synchronous else None)
    if choice is None:  # no time to be won on the GPU: is host time?
        choice = GRAPH if synchronous else NO_GRAPH
    assert part.choice == choice, (part.region.choice_why, part.region.candidates)
    assert part.served[-1] == (choice == GRAPH)


NEVER = 10**6


@pytest.mark.parametrize(
    ("shape", "every", "choice"),
    [
        ({"kernels": 2, "kernel_us": 15.0}, 50, NO_GRAPH),  # host bound
        ({"kernels": 2, "kernel_us": 60.0, "graph_gpu": 1.0}, 50, NO_GRAPH),  # GPU bound
        (
            {"kernels": 2, "kernel_us": 15.0, "launch_us": 12.0, "graph_gpu": 1.0},
            50,
            NO_GRAPH,
        ),  # tie
        ({"kernels": 6, "kernel_us": 2.0}, 50, GRAPH),
        ({"kernels": 200, "kernel_us": 6.0, "graph_gpu": 1.0}, 50, GRAPH),
        ({"kernels": 200, "kernel_us": 6.0, "graph_gpu": 1.0}, NEVER, GRAPH),  # hidden by a queue
        ({"kernels": 200, "kernel_us": 30.0, "graph_gpu": 0.998}, NEVER, NO_GRAPH),
        ({"kernels": 200, "kernel_us": 30.0, "graph_gpu": 1.05}, NEVER, NO_GRAPH),
    ],
)
def test_five_programs_choose_the_same_within_640_calls(
    shape: dict[str, Any], every: int, choice: str
) -> None:
    """A loop with 30 us of its own work, which waits for the GPU now and then, or never."""
    for seed in range(5):
        machine = Machine(0.3, seed)
        part = made(machine, **{"launch_us": 8.0, "graph_us": 25.0, **shape})
        for i in range(640):
            machine.spend(30.0)
            part([])
            if i % every == every - 1:
                machine.synchronize()
        assert part.choice == choice, (seed, part.region.choice_why)


def test_a_group_switches_together_and_is_judged_by_the_whole_loop() -> None:
    machine = Machine(0.1)
    group = selector(machine)
    first, second, third = (Part(machine, name=f"graph {i}", **HOST_BOUND) for i in range(3))
    kept = [entry(group, part) for part in (first, second, third)]
    for _ in range(400):
        for part in (first, second, third):
            part([])
        assert first.served[-1] == second.served[-1] == third.served[-1]
    assert [p.choice for p in (first, second, third)] == [GRAPH] * 3
    assert first.region.candidates == third.region.candidates
    assert first.region.candidates[GRAPH]["median"] > 3 * 0.55
    assert len({id(e.group) for e in kept}) == 1


def test_forward_and_backward_of_one_graph_belong_together() -> None:
    machine = Machine(0.1)
    forward, backward = (Part(machine, name=name, **HOST_BOUND) for name in ("f", "b"))
    compiled = entry(selector(machine), forward)
    forward([])
    compiled.add(backward)
    for _ in range(400):
        backward([])
        forward([])
    assert (forward.choice, backward.choice) == (GRAPH, GRAPH)


@pytest.mark.parametrize(("slower", "choice"), [(1.0, GRAPH), (9.0, NO_GRAPH)])
def test_a_backward_that_is_compiled_late_counts(slower: float, choice: str) -> None:
    machine = Machine(0.1)
    forward = Part(machine, name="f", **{**HOST_BOUND, "kernels": 100})
    backward = Part(machine, name="b", **{**HOST_BOUND, "graph_gpu": slower})
    compiled = entry(selector(machine), forward)
    for step in range(320):
        machine.spend(30.0)
        forward([])
        if step == 0:
            compiled.add(backward)
        backward([])
        machine.synchronize()
    assert (forward.choice, backward.choice) == (choice, choice), forward.region.choice_why


def test_a_prefill_is_not_the_clock_of_a_decoding_loop() -> None:
    machine = Machine(0.1)
    group = selector(machine)
    prefill, decode = (Part(machine, name=name, **HOST_BOUND) for name in ("prefill", "decode"))
    kept = [entry(group, prefill), entry(group, decode)]
    for _ in range(30):
        prefill([])
        for _ in range(20):
            decode([])
    assert decode.choice == GRAPH
    assert decode.region.candidates[GRAPH]["median"] < 1.0
    assert kept[0].group is not kept[1].group


def test_a_rare_region_is_not_captured() -> None:
    machine = Machine()
    part = made(machine, **HOST_BOUND)
    run(part, 14)
    assert part.captures == 0


def test_a_tiny_region_is_captured_later_than_a_large_one() -> None:
    captured = {}
    for name, shape in (("tiny", SLOWER), ("large", HOST_BOUND)):
        machine = Machine()
        part = made(machine, **shape)
        while not part.captures:
            run(part, 1)
        captured[name] = len(part.served)
    assert captured["large"] < 24
    assert captured["large"] < captured["tiny"] <= 140


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(
    ("plain_us", "graph_us"), [(8.0, 25.0), (8.0, 400.0), (20.0, 25.0), (3.0, 700.0), (3.0, 900.0)]
)
def test_calls_in_the_slower_mode_cost_little_of_the_first_200(
    plain_us: float, graph_us: float, noise: float
) -> None:
    """From the first graph on, capture aside; 300 kernels of 2 us each."""
    machine = Machine(noise)
    part = made(machine, kernels=300, launch_us=plain_us, kernel_us=2.0, graph_us=graph_us)
    run(part, 200, lambda i: machine.synchronize() if i % 10 == 9 else None)
    spent = machine.host / 1e3 - part.captures * part.capture_ms
    plain, graph = max(300 * plain_us, 600.0) / 1e3, max(graph_us, 588.0) / 1e3
    first = part.served.index(True)
    slower = part.served[first:].count(plain < graph)
    assert slower * abs(plain - graph) < 0.1 * spent


def test_a_pause_does_not_decide() -> None:
    machine = Machine(0.1)
    part = made(machine, **HOST_BOUND)
    run(part, 300, lambda i: machine.spend(5e5) if i % 37 == 36 else None)
    assert part.choice == GRAPH


def test_a_region_that_is_refused_is_left_alone() -> None:
    machine = Machine()
    part = made(machine, refused=True)
    run(part, 100)
    assert part.choice == ""
    assert part.watcher is None


def test_a_decided_region_has_nothing_left_of_the_trial_on_its_calls() -> None:
    machine = Machine(0.05)
    part = made(machine, **HOST_BOUND)
    run(part, 300)
    assert part.choice == GRAPH
    assert part.watcher is None
    decided, stamps = part.served.count(False), machine.stamps
    run(part, 2000)
    assert part.served.count(False) == decided
    assert (part.captures, machine.stamps) == (1, stamps)


def test_a_group_that_is_not_called_any_more_does_not_stop_others() -> None:
    machine = Machine(0.05)
    group = selector(machine)
    first, second = (Part(machine, name=name, **HOST_BOUND) for name in ("first", "second"))
    kept = [entry(group, first), entry(group, second)]
    while not first.captures:
        first([])
    run(second, 3000)
    assert second.choice == GRAPH
    run(first, 300)
    assert first.choice == GRAPH
    assert len(kept) == 2


def test_a_group_that_waits_for_another_leaves_no_trace_on_its_calls() -> None:
    machine = Machine(0.05)
    group = selector(machine)
    first, second = (Part(machine, name=name, **HOST_BOUND) for name in ("first", "second"))
    kept = [entry(group, first), entry(group, second)]
    while not first.captures:
        first([])
    run(second, 60)
    assert kept[1].group is not None
    assert kept[1].group.phase is Phase.WAITING
    stamps = machine.stamps
    run(second, 60)
    assert machine.stamps == stamps
    assert not any(second.served)
    while not first.choice:
        first([])
    run(second, 200)
    assert [part.choice for part in (first, second)] == [GRAPH] * 2


@pytest.mark.parametrize("when", ["watching", "waiting", "comparing"])
def test_a_graph_whose_leader_is_not_called_any_more_is_decided_on_its_own(when: str) -> None:
    """Dynamo compiles the first graph of a loop anew, for sizes that change, say."""
    machine = Machine(0.05)
    group = selector(machine)
    before, leader, other = (
        Part(machine, name=name, **HOST_BOUND) for name in ("before", "leader", "other")
    )
    kept = [entry(group, part) for part in (before, leader, other)]
    if when == "waiting":
        while not before.captures:
            before([])
    for _ in range(6 if when == "watching" else 36):
        leader([])
        other([])
        if when == "waiting":
            before([])
    assert kept[1].group is kept[2].group
    assert kept[2].group is not None
    assert kept[2].group.phase.value == when
    run(other, 1600)
    assert other.choice == GRAPH
    assert kept[1].group is not kept[2].group


def test_what_noise_decided_is_not_remembered(tmp_path: Path) -> None:
    """The program does other work that takes from 0 to 40 ms between calls."""
    kept, source = Decisions(tmp_path), random.Random(3)
    machine = Machine()
    part = Part(machine, **HOST_BOUND)
    part.key = "k"
    noisy = entry(selector(machine), part, decisions=kept)
    run(part, 640, lambda i: machine.spend(source.random() * 40_000))
    assert noisy.group is not None
    assert "timings are noisy" in part.region.choice_why
    assert part.choice
    assert kept.load("k") is None

    part = Part(machine, **HOST_BOUND)
    part.key = "k"
    quiet = entry(selector(machine), part, decisions=kept)
    run(part, 640)
    assert quiet.group is not None
    assert kept.load("k") is not None


def test_what_was_measured_before_a_helper_was_built_is_not_remembered(tmp_path: Path) -> None:
    kept, machine, building = Decisions(tmp_path), Machine(), [True]
    selected = Selector(machine.instruments(), will_be_quicker=lambda: building[0])
    for expected in (None, GRAPH):
        part = Part(machine, **HOST_BOUND)
        part.key = "k"
        watched = entry(selected, part, decisions=kept)
        run(part, 640)
        assert watched.group is not None
        assert part.choice == GRAPH
        found = kept.load("k")
        assert (found and found.choice) == expected
        building[0] = False


def test_a_group_that_starts_over_forgets_what_it_chose() -> None:
    machine = Machine()
    part = Part(machine, **SLOWER)
    watched = entry(selector(machine), part)
    run(part, 640)
    assert watched.group is not None
    assert part.region.choice == NO_GRAPH
    watched.group.start_over()
    assert (part.region.choice, part.region.choice_why, part.region.candidates) == ("", "", {})


def test_there_is_one_trial_where_no_helper_is_being_built() -> None:
    machine = Machine()
    part = made(machine, **SLOWER)
    run(part, 640)
    part.graph_us = 1.0
    run(part, 2400)
    assert part.choice == NO_GRAPH
    assert part.watcher is None
