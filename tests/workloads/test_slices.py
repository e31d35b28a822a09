"""Slices of long measurements."""

from __future__ import annotations

import argparse
import re
import threading
from argparse import Namespace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import compare_commits, slices
from benchmarks.figures.data import RESULTS
from benchmarks.runtime import __main__ as runtime
from benchmarks.slices import Slice
from benchmarks.workloads import jobs


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.text(max_size=2), unique=True, max_size=30),
    st.integers(1, 5),
    st.none() | st.dictionaries(st.text(max_size=2), st.floats(0, 100), max_size=30),
)
def test_every_item_is_in_one_slice(
    items: list[str], count: int, cost: dict[str, float] | None
) -> None:
    parts = [Slice(number, count).of(items, cost) for number in range(1, count + 1)]
    assert sorted(item for part in parts for item in part) == sorted(items)
    assert all(part == [item for item in items if item in part] for part in parts)


def test_slices_cost_about_the_same() -> None:
    cost = {"a": 10.0, "b": 5.0, "c": 4.0, "d": 1.0}
    assert [Slice(number, 2).of("dcba", cost) for number in (1, 2)] == [["a"], ["d", "c", "b"]]


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/0", "-1/2"])
def test_what_is_no_slice(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        slices.parse(text)


def test_a_row_of_another_commit_is_measured_again() -> None:
    row = {"workload": "bert", **slices.stamp()}
    assert slices.is_current(row)
    assert not slices.is_current({**row, "error": "exit status 1"})
    assert not slices.is_current({**row, "commit": "0000000"})
    assert not slices.is_current({"workload": "bert"})


def test_the_interval_of_a_ratio() -> None:
    same = compare_commits.interval([1.0, 1.1, 0.9, 1.0, 1.05], [1.0, 1.1, 0.9, 1.0, 1.05])
    assert same[0] < 1.0 < same[1]
    faster = compare_commits.interval([2.0, 2.1, 1.9, 2.0], [1.0, 1.1, 0.9, 1.0])
    assert faster[0] > 1.7


class OneRun:
    """Stands for a worker: the version `new` takes half as long, and `broken` fails in it."""

    order: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, task: jobs.Task, folder: Path, threads: int, limit_s: float) -> None:
        self.task, self.ready = task, threading.Event()
        self.ready.set()

    def go(self, limit_s: float) -> None:
        self.order.append((self.task.workload, self.task.cache.name))

    def outcome(self) -> dict[str, Any]:
        new = self.task.tree == slices.ROOT
        if new and self.task.workload == "broken":
            return {"error": "out of memory"}
        ms = [1.0, 1.5, 2.0] if new else [2.0, 3.0, 4.0]
        timed = {"pygraph": {"ms": ms, "host_ms": [0.1] * 3}}
        return {"timed": timed, "profiles": {"pygraph": {"busy_ms": 0.9}}}


def test_workloads_of_two_versions_are_timed_in_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compare_commits, "Child", OneRun)
    monkeypatch.setattr(OneRun, "order", [])
    given = Namespace(base=tmp_path, rounds=2, device="cpu", tiny=True, seconds=1)
    good, broken = compare_commits.compare_workloads(["good", "broken"], given)
    assert good["ms"] == {"base": [3.0, 3.0], "new": [1.5, 1.5]}
    assert (good["ratio"], good["kernel_ms"]["new"]) == (2.0, [0.9, 0.9])
    assert broken["error"] == "new: out of memory"
    assert [each for each in OneRun.order if each[0] == "good"] == [
        *(("good", "base"), ("good", "new")),
        *(("good", "new"), ("good", "base")),
    ]


def test_benchmarks_of_two_versions_run_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both_started = threading.Barrier(4, timeout=20)

    def period(row: str, tree: Path, scratch: Path, given: Namespace) -> dict[str, float]:
        both_started.wait()
        if row == "training:broken" and tree == slices.ROOT:
            raise RuntimeError("out of memory")
        return {"ms": 1.0 if tree == slices.ROOT else 2.0, "kernel_ms": 0.9}

    monkeypatch.setattr(compare_commits, "period", period)
    given = Namespace(base=tmp_path, rounds=1)
    good, broken = compare_commits.compare(["runtime:good", "training:broken"], given)
    assert (good["row"], good["ratio"]) == ("runtime:good", 2.0)
    assert good["kernel_ms"] == {"base": [0.9], "new": [0.9]}
    assert broken["error"] == "new: RuntimeError('out of memory')"


def test_a_file_keeps_rows_of_other_runs_and_resumes() -> None:
    planned = runtime.plan(["timing", "memory"], ["bert"])
    assert [part for part, _ in planned] == ["timing", *["memory"] * 3]
    timing = {"workload": "bert", "period_ms": {mode: {} for mode in runtime.MODES}}
    memory = {"workload": "bert", "mode": "default"}
    old = {
        "environment": {"date": "2026-01-01"},
        "timing": [{**timing, **slices.stamp()}],
        "memory": [{**memory, **slices.stamp(), "commit": "0000000"}],
    }
    left = runtime.left_to_do(planned, Slice(), old, resume=True)
    assert [part for part, _ in left] == ["memory"] * 3
    failed = {"timing": [{"arguments": [], "error": "exit status 1", **slices.stamp()}]}
    assert runtime.left_to_do(planned, Slice(), failed, resume=True) == planned
    assert runtime.left_to_do(planned, Slice(), old, resume=False) == planned
    again = runtime.merged(old, {"environment": {}, "memory": [{**memory, "date": "now"}]})
    assert again["timing"][0]["workload"] == "bert"
    assert [row["date"] for row in again["memory"]] == ["now"]


@pytest.mark.parametrize("name", sorted(p.name for p in RESULTS.glob("*.json")))
def test_no_result_file_names_a_folder_of_the_machine(name: str) -> None:
    absolute = re.compile(r"(?<![\w.-])/(?:opt|root|home|work|tmp|usr)/[^\"\s]*")
    found = absolute.findall((RESULTS / name).read_text("utf-8"))
    assert not [path for path in found if not path.startswith("/home/user/")]
