"""The decision itself, on recorded and on adversarial sequences; what is remembered of it."""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt import backend
from pygraph_rt.replay.platform import Native
from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.select import decision, remembered
from pygraph_rt.select.decision import Block, Choice, cost, decide
from pygraph_rt.select.remembered import Decision, Decisions


def block(candidate: str, ms: float, inside: float | None = None, **more: Any) -> Block:
    return Block(candidate, (ms,) * 8, ms if inside is None else inside, **more)


def measure(
    plain: Any, graph: Any, most: int = 64, names: tuple[str, str] = (NO_GRAPH, GRAPH)
) -> tuple[Choice | None, int]:
    """Feed blocks in turn until there is a choice; `plain` and `graph` make the n-th block's cost,
    or a block. The choice, and how many blocks it took.
    """
    blocks: list[Block] = []
    for i in range(most):
        second = decision.order(i) == 1
        value = (graph if second else plain)(i)
        made = value if isinstance(value, Block) else block(names[second], value)
        blocks.append(made)
        choice = decide(blocks)
        if choice is not None:
            return choice, i + 1
    return None, most


def noisy(ms: float, spread: float, source: random.Random) -> Any:
    return lambda i: ms * (1 + spread * (source.random() - 0.5))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("plain", "graph", "winner", "most"),
    [
        (2.76, 0.73, GRAPH, 3),
        (2.0, 1.0, GRAPH, 4),
        (1.0, 0.9, GRAPH, 20),
        (1.0, 1.17, NO_GRAPH, 16),
        (0.1, 0.2, NO_GRAPH, 4),
    ],
)
def test_clear_differences_are_seen_soon(
    plain: float, graph: float, winner: str, most: int, seed: int
) -> None:
    source = random.Random(seed)
    choice, blocks = measure(noisy(plain, 0.04, source), noisy(graph, 0.04, source))
    assert choice is not None
    assert (choice.winner, choice.tie) == (winner, False)
    assert blocks <= most


@pytest.mark.parametrize("seed", range(10))
def test_strong_noise_takes_longer_and_still_ends_right(seed: int) -> None:
    source = random.Random(seed)
    choice, blocks = measure(noisy(1.3, 0.25, source), noisy(1.0, 0.25, source))
    assert choice is not None
    assert (choice.winner, choice.tie) == (GRAPH, False)
    assert blocks <= 24


@pytest.mark.parametrize("noise", [0.01, 0.04])
def test_equal_candidates_are_rarely_told_apart(noise: float) -> None:
    differ = 0
    for seed in range(200):
        source = random.Random(seed)
        choice, _ = measure(noisy(1.0, noise, source), noisy(1.0, noise, source))
        assert choice is not None
        differ += not choice.tie
    assert differ <= 4


@pytest.mark.parametrize("slower", [0.9, 1.1])
def test_a_tenth_is_seen_through_moderate_noise(slower: float) -> None:
    for seed in range(100):
        source = random.Random(seed)
        choice, _ = measure(noisy(1.0, 0.1, source), noisy(slower, 0.1, source))
        assert choice is not None
        assert choice.winner == (GRAPH if slower < 1 else NO_GRAPH)


@pytest.mark.parametrize("seed", range(10))
def test_equal_candidates_are_a_tie_for_the_one_with_less_host_time(seed: int) -> None:
    source = random.Random(seed)
    plain, graph = noisy(1.0, 0.02, source), noisy(1.0, 0.02, source)
    choice, _ = measure(
        lambda i: block(NO_GRAPH, plain(i), inside=0.8),
        lambda i: block(GRAPH, graph(i), inside=0.03),
    )
    assert choice is not None
    assert (choice.tie, choice.winner) == (True, GRAPH)
    assert "saves host time" in choice.why
    choice, _ = measure(
        lambda i: block(NO_GRAPH, plain(i), inside=0.03),
        lambda i: block(GRAPH, graph(i), inside=0.03),
    )
    assert choice is not None
    assert (choice.tie, choice.winner) == (True, NO_GRAPH)


@pytest.mark.parametrize("limit", ["host", "GPU"])
def test_what_takes_no_part_of_the_time_is_not_decided_by_noise(limit: str) -> None:
    """0.3 ms of 46 ms: four blocks are enough where the host is the limit."""
    gpu = {"gpu_ms": 8 * 60.0} if limit == "GPU" else {}
    for seed in range(20):
        source = random.Random(seed)
        plain, graph = noisy(46.0, 0.3, source), noisy(46.0, 0.3, source)
        choice, blocks = measure(
            lambda i, ms=plain: block(NO_GRAPH, ms(i), inside=0.3, **gpu),
            lambda i, ms=graph: block(GRAPH, ms(i), inside=0.05, **gpu),
        )
        assert choice is not None
        if limit == "host":
            assert (blocks, choice.winner, choice.tie) == (4, GRAPH, True)
        else:
            assert choice.winner == NO_GRAPH


def test_one_four_is_not_believed_below_half_as_much_again() -> None:
    assert measure(lambda i: 1.3, lambda i: 1.0)[1] == 8
    assert measure(lambda i: 1.3, lambda i: 0.8)[1] == 4


@pytest.mark.parametrize(
    ("shift", "chosen"), [(0.1, False), (0.025, False), (0.0, True), (-0.1, True)]
)
def test_what_cannot_be_told_for_certain_is_no_graph_that_seems_slower(
    shift: float, chosen: bool
) -> None:
    """A region that is called twice a step, after 12 and after 30 ms; a graph saves it 2.3 ms."""
    blocks = []
    for apart in (0.6, -0.5, 0.3, 0.0, 0.0, -0.4):
        ms = 20.0 * math.exp(apart + shift)
        blocks += [block(NO_GRAPH, 20.0, inside=3.0), block(GRAPH, ms, inside=0.7)]
        blocks += [block(GRAPH, ms, inside=0.7), block(NO_GRAPH, 20.0, inside=3.0)]
    assert decide(blocks[:-1]) is None
    choice = decide(blocks)
    assert choice is not None
    assert (choice.winner, choice.tie) == (GRAPH if chosen else NO_GRAPH, True)
    assert ("timings are noisy" in choice.why, choice.noisy) == (shift != 0.0, shift != 0.0)


def test_where_the_gpu_is_the_limit_a_graph_that_seems_faster_is_kept() -> None:
    blocks = []
    for apart in (0.1, -0.2, 0.1, -0.15, -0.06, -0.1):
        gpu = 70.0 * math.exp(apart)
        blocks += [block(NO_GRAPH, 2.0, gpu_ms=70.0), block(GRAPH, 2.0, gpu_ms=gpu)]
        blocks += [block(GRAPH, 2.0, gpu_ms=gpu), block(NO_GRAPH, 2.0, gpu_ms=70.0)]
    choice = decide(blocks)
    assert choice is not None
    assert (choice.tie, choice.winner) == (True, GRAPH)
    assert choice.why.endswith("calls look 8 % slower with no graph")


def test_where_the_gpu_is_the_limit_a_tie_is_no_graph() -> None:
    def on_gpu(name: str, inside: float) -> Any:
        return lambda i: block(name, 0.5, inside=inside, gpu_ms=48.0)

    choice, _ = measure(on_gpu(NO_GRAPH, 0.5), on_gpu(GRAPH, 0.02))
    assert choice is not None
    assert (choice.tie, choice.winner) == (True, NO_GRAPH)
    assert "the GPU is the limit: a call takes 6.000 ms" in choice.why


@pytest.mark.parametrize("slope", [-0.02, 0.02])
def test_a_linear_drift_does_not_decide(slope: float) -> None:
    def drifting(i: int) -> float:
        return 1.0 + slope * i / 2

    choice, _ = measure(drifting, drifting)
    assert choice is None or choice.tie


def test_a_slow_start_does_not_decide() -> None:
    choice, blocks = measure(lambda i: 2.0 if i == 0 else 1.0, lambda i: 1.0)
    assert choice is not None
    assert choice.tie
    assert blocks > 4


def test_a_slow_start_does_not_hide_a_slower_graph() -> None:
    choice, _ = measure(lambda i: 2.0 if i == 0 else 1.0, lambda i: 1.2)
    assert choice is not None
    assert (choice.winner, choice.tie) == (NO_GRAPH, False)


def test_two_kinds_of_blocks_in_both_candidates_are_no_difference() -> None:
    source = random.Random(1)
    choice, _ = measure(lambda i: source.choice([1.0, 3.0]), lambda i: source.choice([1.0, 3.0]))
    assert choice is not None
    assert choice.tie


def test_single_slow_blocks_do_not_decide() -> None:
    choice, _ = measure(lambda i: 1.0, lambda i: 9.0 if i == 5 else 0.8)
    assert choice is not None
    assert choice.winner == GRAPH


@pytest.mark.parametrize("blocks", range(4))
@pytest.mark.parametrize("graph", [0.5, 5.0])
def test_too_few_samples_are_no_choice(blocks: int, graph: float) -> None:
    made = [block(NO_GRAPH, 1.0), block(GRAPH, graph), block(GRAPH, graph), block(NO_GRAPH, 1.0)]
    assert decide(made[:blocks]) is None


def test_unlike_blocks_are_not_obvious() -> None:
    made = [block(NO_GRAPH, 1.0), block(GRAPH, 0.2), block(GRAPH, 0.3)]
    assert decide(made) is None


def test_blocks_that_say_nothing_are_left_out() -> None:
    """A full queue makes calls without graph look slow; the GPU is busy all the time."""
    hidden = block(NO_GRAPH, 3.0, gpu_ms=8.0, behind=True)
    assert cost(hidden) is None
    choice, blocks = measure(lambda i: hidden, lambda i: block(GRAPH, 0.1, 0.02, gpu_ms=8.0))
    assert choice is not None
    assert choice.tie
    assert blocks == 4 * decision.MOST_FOURS


def test_which_clock_is_believed() -> None:
    ahead = cost(Block(GRAPH, (0.1,) * 8, 0.05, gpu_ms=8.0))
    assert ahead is not None
    assert (ahead.ms, ahead.limit) == (1.0, "GPU")
    draining = cost(Block(NO_GRAPH, (3.0,) * 8, 2.0, gpu_ms=16.0))
    assert draining is not None
    assert (draining.ms, draining.limit) == (3.0, "host")
    held_up = cost(Block(NO_GRAPH, (0.5, 0.5, 30.0, *(1.0,) * 5), 2.0, gpu_ms=8.0, behind=True))
    assert held_up is not None
    assert (held_up.ms, held_up.limit) == (1.0, "GPU")


# One H200, torch 2.11: sin(x) * 2 of 256 MiB, waited for every 20 calls. Calls, GPU time and the
# longest period in milliseconds, of the blocks in the order they were measured.
WAITED_FOR = [
    ((15, 2.082, 1.783), (15, 2.279, 1.149), (15, 2.134, 1.991), (15, 1.945, 0.059)),
    ((7, 1.124, 1.926), (15, 1.938, 0.048), (7, 1.131, 2.059), (15, 1.943, 0.057)),
    ((7, 1.215, 1.952), (15, 1.936, 0.058), (15, 2.174, 2.025), (15, 1.942, 0.057)),
    ((7, 1.236, 1.928), (15, 1.933, 0.055), (15, 2.216, 1.962), (15, 1.941, 0.059)),
    ((7, 1.197, 1.919), (15, 1.939, 0.054), (15, 2.235, 1.983), (15, 1.940, 0.060)),
    ((7, 1.214, 1.908), (15, 1.950, 0.070), (15, 2.246, 1.938), (15, 1.941, 0.062)),
]


def test_waiting_for_the_gpu_in_step_with_the_blocks_does_not_decide() -> None:
    names = (NO_GRAPH, GRAPH, GRAPH, NO_GRAPH)
    blocks = [
        Block(name, (0.036,) * (calls - 1) + (longest,), 0.015, gpu_ms=gpu, behind=True)
        for four in WAITED_FOR
        for name, (calls, gpu, longest) in zip(names, four, strict=True)
    ]
    choices = [decide(blocks[:n]) for n in range(1, len(blocks) + 1)]
    (choice, *_) = [c for c in choices if c is not None]
    assert (choice.winner, choice.tie) == (NO_GRAPH, True), choice.why
    assert choice.costs[NO_GRAPH].median == pytest.approx(choice.costs[GRAPH].median, rel=0.01)


def test_a_pause_in_every_block_is_no_reason_to_leave_all_out() -> None:
    def waited(candidate: str, ms: float) -> Block:
        return Block(candidate, (0.1,) * 7 + (8 * ms,), 0.1, gpu_ms=8 * ms, behind=True)

    choice, _ = measure(lambda i: waited(NO_GRAPH, 1.0), lambda i: waited(GRAPH, 1.1))
    assert choice is not None
    assert (choice.winner, choice.tie) == (NO_GRAPH, False)


def test_a_pause_counts_as_five_periods() -> None:
    found = cost(Block(NO_GRAPH, (1.0,) * 7 + (500.0,), 0.5, gpu_ms=400.0))
    assert found is not None
    assert found.ms == pytest.approx(12 / 8)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(1e-3, 1e3), min_size=32, max_size=32),
    st.lists(st.one_of(st.none(), st.floats(1e-3, 1e4)), min_size=32, max_size=32),
    st.lists(st.booleans(), min_size=32, max_size=32),
)
def test_any_sequence_ends_in_a_choice_with_a_reason(
    periods: list[float], gpu: list[float | None], behind: list[bool]
) -> None:
    made: list[Block] = []
    choice = None
    for i in range(32):
        name = (NO_GRAPH, GRAPH)[decision.order(i)]
        made.append(Block(name, (periods[i],) * 8, periods[i] / 2, gpu[i], behind[i]))
        choice = choice or decide(made)
    assert choice is not None
    assert choice.winner in (NO_GRAPH, GRAPH)
    assert choice.why
    assert all(
        math.isfinite(s.median) and s.low <= s.median <= s.high for s in choice.costs.values()
    )


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 100), st.floats(1.2, 10), st.integers(0, 10**6))
def test_a_graph_that_is_a_fifth_slower_is_never_kept(ms: float, factor: float, seed: int) -> None:
    source = random.Random(seed)
    choice, _ = measure(noisy(ms, 0.1, source), noisy(ms * factor, 0.1, source))
    assert choice is not None
    assert choice.winner == NO_GRAPH


def test_capturing_waits_for_its_price() -> None:
    assert not decision.worth_capturing(15, 1e4)
    assert decision.worth_capturing(16, 16 * 2.5)
    assert not decision.worth_capturing(40, 40 * 0.1)
    assert decision.worth_capturing(111, 111 * 0.1)
    assert decision.worth_capturing(128, 0.0)


# -- remembered


def test_a_decision_comes_back(tmp_path: Path) -> None:
    where = tmp_path / "not" / "there"
    store = Decisions(where)
    assert store.load("k") is None
    store.save("k", Decision(GRAPH, "it was faster", 0.5))
    assert Decisions(where).load("k") == Decision(GRAPH, "it was faster", 0.5)
    store.save("k", Decision(NO_GRAPH, "it was not", 0.7))
    assert store.load("k") == Decision(NO_GRAPH, "it was not", 0.7)
    assert [p.name for p in where.iterdir()] == ["k.json"]


def good() -> dict[str, Any]:
    return {"format": remembered.FORMAT, "key": "k", "choice": GRAPH, "why": "w", "period_ms": 1.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        json.dumps({**good(), "key": "other"}),
        json.dumps({**good(), "format": 99}),
        json.dumps({**good(), "choice": "perhaps"}),
        json.dumps({**good(), "choice": ["graph"]}),
        json.dumps({**good(), "why": None}),
        json.dumps({**good(), "period_ms": "1"}),
        json.dumps({**good(), "period_ms": -1}),
        json.dumps({**good(), "period_ms": True}),
        "[" * 100_000,
    ],
)
def test_a_file_of_somebody_else_is_as_good_as_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(text)
    store = Decisions(tmp_path)
    assert store.load("k") is None
    store.save("k", Decision(GRAPH, "w", 1.0))
    assert store.load("k") is not None


def test_bytes_that_are_no_text_are_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_bytes(b"\xff\xfe\x00")
    assert Decisions(tmp_path).load("k") is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = Decisions(blocked / "below")
    store.save("k", Decision(GRAPH, "w", 1.0))
    assert store.load("k") is None


def test_an_old_decision_is_found_anew(tmp_path: Path) -> None:
    store = Decisions(tmp_path)
    store.save("k", Decision(GRAPH, "w", 1.0))
    (file,) = tmp_path.iterdir()
    month_ago = time.time() - 31 * 86400
    os.utime(file, (month_ago, month_ago))
    assert store.load("k") is None


def test_without_a_folder_or_a_key_nothing_is_kept(tmp_path: Path) -> None:
    Decisions(None).save("k", Decision(GRAPH, "w", 1.0))
    Decisions(tmp_path).save("", Decision(GRAPH, "w", 1.0))
    assert list(tmp_path.iterdir()) == []
    assert Decisions(None).load("k") is None


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    store = Decisions(tmp_path)
    seen: list[Decision | None] = []

    def work(number: int) -> None:
        for _ in range(30):
            store.save("k", Decision(GRAPH, "w" * 5000, float(number)))
            seen.append(store.load("k"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in seen
    assert [p.name for p in tmp_path.iterdir()] == ["k.json"]


def test_old_decisions_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_MOST_FILES", 8)
    store = Decisions(tmp_path)
    for i in range(40):
        store.save(f"k{i}", Decision(GRAPH, "w", 1.0))
    assert len(list(tmp_path.iterdir())) <= 9
    assert store.load("k39") is not None


SOURCE = (
    "# AOT ID: ['0_inference']\nx = 1  # from /a/b.py:3\n\ndef partition_0(args):\n    return x\n"
)


def test_the_key_follows_code_and_machine_but_not_comments() -> None:
    facts = {"gpu": "H200", "torch": "2.11"}
    key = remembered.code_key(SOURCE, "partition_0", facts)
    other = SOURCE.replace("0_inference", "7_inference").replace("/a/b.py:3", "/c.py:9")
    assert remembered.code_key(other, "partition_0", facts) == key
    different = [
        remembered.code_key(SOURCE.replace("x = 1", "x = 2"), "partition_0", facts),
        remembered.code_key(SOURCE, "partition_1", facts),
        remembered.code_key(SOURCE, "partition_0", {**facts, "torch": "2.12"}),
    ]
    assert len({key, *different}) == 4


def test_a_choice_without_the_helper_is_none_for_a_process_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = SimpleNamespace(version=lambda: 13000)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "H200")
    monkeypatch.setattr(backend, "load", lambda: driver)
    keys = set()
    for launch in (None, print, len):
        maker = SimpleNamespace(platform=SimpleNamespace(native=Native(launch)))
        monkeypatch.setattr(backend, "_graph_maker", lambda maker=maker: maker)
        keys.add(remembered.code_key(SOURCE, "partition_0", backend._machine(0)))
    assert len(keys) == 2


def test_the_folder_is_the_systems_or_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(remembered.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert remembered.folder() == tmp_path / "pygraph" / "decisions"
    monkeypatch.setattr("sys.platform", "darwin")
    assert remembered.folder().parts[-4:] == ("Library", "Caches", "pygraph", "decisions")
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert remembered.folder() == tmp_path / "local" / "pygraph" / "decisions"
    monkeypatch.setenv(remembered.FOLDER_VARIABLE, str(tmp_path / "mine"))
    assert remembered.folder() == tmp_path / "mine" / "decisions"


@pytest.mark.parametrize(
    ("said", "wanted"), [("0", False), ("off", False), ("1", True), ("", True)]
)
def test_the_environment_can_switch_it_off(
    said: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(remembered.SWITCH_VARIABLE, said)
    assert remembered.wanted_by_environment() is wanted
