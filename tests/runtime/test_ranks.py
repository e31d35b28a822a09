"""Ranks choose alike: on gloo with three or eight processes, and in one process call by call."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.select import remembered
from pygraph_rt.select.agreed_trial import ROUND
from pygraph_rt.select.ballot import (
    MOST_ROUNDS,
    Ballots,
    Courier,
    Ranks,
    slowest,
    tally,
    wants_round,
)
from pygraph_rt.select.decision import Block
from pygraph_rt.select.groups import Selector
from tests.runtime.simulated_loop import Machine, Part, entry

distributed = pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="this torch has no torch.distributed"
)
ROOT = Path(__file__).parents[2]
HOST_BOUND = {"kernels": 300, "launch_us": 8.0, "kernel_us": 2.0}
SLOWER = {"kernels": 2, "launch_us": 8.0, "kernel_us": 2.0, "graph_us": 60.0}


MINUTES = pytest.mark.skipif(
    os.environ.get("PYGRAPH_DISTRIBUTED") != "all", reason="make test-distributed runs it"
)


@pytest.fixture(scope="module", params=[3, pytest.param(8, marks=MINUTES)])
def ended(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What each rank said at the end of `ranks_program`."""
    size = request.param
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.ranks_program", str(rank), str(size), str(port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        said = [rank.communicate(timeout=400) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (_, errors) in zip(ranks, said, strict=True):
        assert rank.returncode == 0, errors
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


def choices(ended: list[dict[str, Any]], scenario: str) -> list[str]:
    return [rank[scenario]["choice"] for rank in ended if scenario in rank]


@pytest.mark.parametrize(
    ("scenario", "choice", "absent"),
    [
        ("faster", GRAPH, 0),
        ("slower on one rank", NO_GRAPH, 0),
        ("the same code", GRAPH, 0),  # although it is slower there: choices belong to code
        ("a stage", GRAPH, 0),
        ("no store", GRAPH, 0),
        ("restart", NO_GRAPH, 1),  # with another world size, what was chosen does not count
    ],
)
def test_all_ranks_choose_the_same(
    ended: list[dict[str, Any]], scenario: str, choice: str, absent: int
) -> None:
    assert choices(ended, scenario) == [choice] * (len(ended) - absent), ended


def test_a_sub_group_chooses_the_same(ended: list[dict[str, Any]]) -> None:
    assert choices(ended, "a sub-group") == [GRAPH] * 2, ended


@pytest.mark.parametrize("scenario", ["a sub-group", "a stage", "a rank never votes", "no store"])
def test_where_nothing_is_compared_graphs_are_kept(
    ended: list[dict[str, Any]], scenario: str
) -> None:
    """Each of them is slower there: it was not measured."""
    found = [rank[scenario] for rank in ended if scenario in rank]
    voted = [rank for rank in found if rank["choice"] != "none"]
    assert len(voted) >= 2
    assert all(rank["choice"] == GRAPH for rank in voted)
    assert all("ranks compared nothing" in rank["why"] for rank in voted)


# -- in one process, call by call


class AtOnce(Courier):
    """Does each job when it is given."""

    def post(self, job: Callable[[Any], None]) -> None:
        if not self.failed:
            job(self._store)


class CountingStore:
    """A store that counts what is asked of it."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.operations = 0

    def set(self, key: str, value: str) -> None:
        self.operations += 1
        self.content[key] = value.encode()

    def get(self, key: str) -> bytes:
        self.operations += 1
        return self.content[key]

    def check(self, keys: list[str]) -> bool:
        self.operations += 1
        return all(key in self.content for key in keys)

    def has_extended_api(self) -> bool:
        return False


class Job:
    """Ranks that make their calls in turn; each waits for the slowest of them."""

    def __init__(self, shapes: list[dict[str, Any]], store: Any = None) -> None:
        self.store = store or CountingStore()
        self.machines = [Machine(0.05, seed) for seed, _ in enumerate(shapes)]
        self.parts = [Part(m, **s) for m, s in zip(self.machines, shapes, strict=True)]
        self.kept = []
        for rank, (machine, part) in enumerate(zip(self.machines, self.parts, strict=True)):
            part.key = "a-key"
            ranks = Ranks(rank, len(shapes), "0", self.store)
            ballots = Ballots(lambda ranks=ranks: ranks, AtOnce)  # type: ignore[misc]
            self.kept.append(entry(Selector(machine.instruments(), ballots), part))

    def run(self, calls: int) -> None:
        for _ in range(calls):
            for part in self.parts:
                part([])
            latest = max(m.host for m in self.machines)
            for machine in self.machines:
                machine.synchronize()
                machine.host = max(machine.host, latest)

    @property
    def choices(self) -> list[str]:
        return [part.choice for part in self.parts]


@pytest.mark.parametrize(
    ("shapes", "choice"),
    [
        ([HOST_BOUND, HOST_BOUND], GRAPH),
        ([SLOWER, SLOWER, SLOWER], NO_GRAPH),
        ([HOST_BOUND, HOST_BOUND, {**HOST_BOUND, "graph_us": 4000.0}], NO_GRAPH),
    ],
)
def test_the_slowest_rank_decides_for_all_and_then_nothing_is_asked(
    shapes: list[dict[str, Any]], choice: str
) -> None:
    job = Job(shapes)
    job.run(128 + 8 * ROUND)
    assert job.choices == [choice] * len(shapes)
    assert all(part.watcher is None for part in job.parts)
    before = job.store.operations
    job.run(200)
    assert job.store.operations == before


def test_ranks_alternate_at_the_same_calls() -> None:
    job = Job([HOST_BOUND, HOST_BOUND])
    job.run(128 + 8 * ROUND)
    first, second = (part.served for part in job.parts)
    assert first.count(False) < len(first) / 2
    assert first[128:] == second[128:]


def test_a_rank_without_a_graph_ends_the_vote() -> None:
    job = Job([HOST_BOUND, {**HOST_BOUND, "refused": True}])
    job.run(400)
    assert job.choices == [GRAPH, ""]
    assert "no graph on rank 1" in job.parts[0].region.choice_why


def test_a_store_that_answers_never_holds_up_no_call() -> None:
    asked, stop = threading.Event(), threading.Event()

    class Stuck(CountingStore):
        def set(self, key: str, value: str) -> None:
            asked.set()
            stop.wait()

    machine = Machine(0.05)
    part = Part(machine, **HOST_BOUND)
    ranks = Ranks(0, 2, "0", Stuck())
    kept = entry(Selector(machine.instruments(), Ballots(lambda: ranks)), part)
    for _ in range(200 + MOST_ROUNDS * ROUND):
        part([])
    assert asked.wait(10)
    stop.set()
    assert kept.members()
    assert (part.choice, part.served[-1]) == (GRAPH, True)
    assert "did not come together" in part.region.choice_why


def test_a_store_that_fails_is_left_alone() -> None:
    class Broken(CountingStore):
        def check(self, keys: list[str]) -> bool:
            raise ConnectionError("the server is gone\nand more")

    store = Broken()
    courier = Courier(store)
    courier.post(lambda store: store.check(["a"]))
    thread = courier._thread
    assert thread is not None
    thread.join(10)
    assert courier.failed == "their store fails (ConnectionError: the server is gone)"
    courier.post(lambda store: store.set("a", "b"))
    assert store.content == {}


# -- what votes decide


def four(plain: float, graph: float) -> list[Block]:
    order = [(NO_GRAPH, plain), (GRAPH, graph), (GRAPH, graph), (NO_GRAPH, plain)]
    return [Block(name, (ms,) * 7, ms) for name, ms in order]


def test_a_round_counts_only_if_all_have_voted_and_were_in_step() -> None:
    fast, alike = four(2.0, 1.0), four(2.1, 1.1)
    chosen = tally(3, [GRAPH, GRAPH], {1: [fast, alike]})
    assert chosen is not None
    assert (chosen.winner, chosen.costs[GRAPH].median) == (GRAPH, pytest.approx(1.1))
    assert tally(3, [GRAPH, GRAPH], {1: None}) is None
    assert tally(3, None, {}) is None
    assert slowest([fast, four(1.0, 0.5)]) == []
    assert tally(3, [GRAPH, GRAPH], {1: [fast, four(1.0, 0.5)]}) is None
    given_up = tally(MOST_ROUNDS, None, {})
    assert given_up is not None
    assert "one has not voted" in given_up.why


def test_a_round_waits_for_late_votes_but_not_for_ever() -> None:
    assert wants_round(1, {})
    assert wants_round(2, {1: [four(2.0, 1.0)]})
    assert not wants_round(5, {1: None})
    assert wants_round(6, {1: None})


def test_code_has_one_key_on_all_ranks() -> None:
    source = (
        "meta = {'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132)}\n"
        "with torch.cuda._DeviceGuard(0):\n    torch.cuda.set_device(0)\n"
        "    raw_stream0 = get_raw_stream(0)\n    k.run(buf0, 4096, stream=raw_stream0)\n"
        "    c = torch.empty((2, 3), device='cuda:0')\n"
        "    torch.ops._c10d_functional.all_reduce_.default(buf0, 'sum', '0')\n"
    )
    other = (
        source.replace("index=0", "index=1").replace("stream0", "stream1").replace("(0)", "(1)")
    ).replace("cuda:0", "cuda:1")
    other = other.replace("'sum', '0'", "'sum', '3'")
    keys = [remembered.code_key(text, "partition_0", {}) for text in (source, other)]
    assert keys[0] == keys[1]
    for old, new in (("4096", "4097"), ("(2, 3)", "(2, 4)"), ("buf0", "buf1")):
        assert remembered.code_key(source.replace(old, new), "partition_0", {}) != keys[0]
