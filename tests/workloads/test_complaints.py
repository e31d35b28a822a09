"""Complaints name their threads, run, and repeat themselves; symptoms are told from measurements.

What compiled code and CUDA graphs do with them is measured by `make bench-complaints`.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import rows
from benchmarks.complaints import base, observe, report
from benchmarks.complaints.__main__ import totals
from benchmarks.complaints.base import Compile, Observed, Setup

SETUP = Setup("cpu", tiny=True)


def test_there_are_enough_threads_of_enough_groups() -> None:
    complaints = [base.load(name) for name in base.names()]
    assert len(complaints) >= 25
    assert len({complaint.group for complaint, _ in complaints}) >= 8
    links = [link for _, found in complaints for link in found]
    assert all(found for _, found in complaints)
    assert len(links) == len(set(links))


@pytest.mark.parametrize("name", base.names())
def test_a_program_runs_and_repeats_itself(name: str) -> None:
    complaint, _ = base.load(name)
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        step = complaint.start(Compile("eager"), SETUP)
        found.append([observe.tensors(step(number)) for number in range(complaint.check)])
    assert all(results and all(t.numel() for t in results) for results in found[0])
    for first, second in zip(*found, strict=True):
        assert not observe.differ(first, second, 0.0)
    values = [tuple(float(t.double().sum()) for t in results) for results in found[0]]
    assert all(math.isfinite(number) for numbers in values for number in numbers)
    assert complaint.symptoms
    assert all(symptom.mode in base.STOCK for symptom in complaint.symptoms)


def seen(**changed: Any) -> dict[str, Observed]:
    """All modes at one millisecond and 100 MiB, with something else of reduce-overhead."""
    usual = {"period_ms": 1.0, "reserved_mib": 100.0, "steps": 30}
    found = {mode: Observed(**usual) for mode in ("eager", *base.MODES)}
    found["reduce-overhead"] = Observed(**{**usual, **changed})
    return found


SYMPTOMS = [
    (base.fails("overwritten"), {"error": "RuntimeError: overwritten"}, {"error": "other"}),
    (base.wrong(), {"wrong": True}, {}),
    (base.records(5), {"records": 5}, {"records": 4}),
    (base.skips("mutated"), {"skips": ["due to mutated inputs"]}, {"skips": ["other"]}),
    (base.warns("pending"), {"told": ["pending backwards"]}, {"told": ["other"]}),
    (base.untold(), {"skips": ["a"], "told": ["b"]}, {"skips": ["a"], "told": ["cudagraph a"]}),
    (base.slower(), {"period_ms": 1.11}, {"period_ms": 1.09}),
    (base.slower(), {"period_ms": 2.0}, {"period_ms": math.nan}),
    (base.holds_memory(), {"reserved_mib": 121.0}, {"reserved_mib": 119.0}),
]


@pytest.mark.parametrize(("symptom", "shown", "not_shown"), SYMPTOMS)
def test_a_symptom_is_seen_only_where_it_is(
    symptom: base.Symptom, shown: dict[str, Any], not_shown: dict[str, Any]
) -> None:
    assert symptom.shown(seen(**shown))
    assert not symptom.shown(seen(**not_shown))
    assert not symptom.shown(seen())


def test_a_loss_is_told_beside_the_best_mode_that_is_right() -> None:
    complaint, _ = base.load("block_by_block")
    found = seen(error="RuntimeError: overwritten by a subsequent run")
    found["pygraph"].period_ms = 1.25
    judged = observe.judge(complaint, found, "cuda")
    assert (judged["counted"], judged["best_stock"]) == (True, "default")
    assert judged["speed_beside_best_stock"] == 0.8
    assert not observe.judge(complaint, found, "cpu")["counted"]
    assert not observe.judge(complaint, seen(), "cuda")["counted"]


@pytest.mark.parametrize(
    ("found", "expected", "other"),
    [
        (torch.ones(3), torch.ones(3), False),
        (torch.ones(3) * 1.01, torch.ones(3), True),
        (torch.ones(3), torch.ones(4), True),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), True),
        (torch.full((3,), math.nan), torch.ones(3), True),
        (torch.ones(0), torch.ones(0), False),
    ],
)
def test_results_that_differ(found: torch.Tensor, expected: torch.Tensor, other: bool) -> None:
    assert observe.differ([found], [expected], 1e-3) is other
    assert observe.differ([], [expected], 1e-3)


def test_what_a_user_is_told_is_collected_once_and_without_paths() -> None:
    lines: list[str] = []
    with observe.told_to_the_user(lines):
        for _ in range(2):
            os.write(2, b"/home/somebody/torch/a.py:3: a warning\n")
    assert lines == ["a.py:3: a warning"]


def test_totals_name_what_is_lost_and_what_is_not_shown() -> None:
    def row(name: str, counted: bool, speed: float | None, right: bool = True) -> dict[str, Any]:
        return {
            "name": name,
            "group": name[0],
            "modes": {},
            "counted": counted,
            "speed_beside_best_stock": speed,
            "right": right,
        }

    found = totals(
        [
            row("a1", True, 0.97),
            row("a2", True, 0.99),
            row("b1", True, 2.0, right=False),
            row("b2", False, 0.5),
            {"name": "c", "error": "needs x"},
        ]
    )
    assert found == {
        "programs": 5,
        "counted": 3,
        "groups": 2,
        "right": 2,
        "lost": ["a1", "a2"],
        "below_0.98": ["a1"],
        "not_shown_today": ["b2"],
        "failed": ["c"],
    }


def test_a_failed_row_does_not_replace_a_good_one() -> None:
    old = [{"name": "a", "ms": 1}, {"name": "b", "error": "before"}]
    new = [{"name": "a", "error": "now"}, {"name": "b", "error": "now"}, {"name": "c", "ms": 3}]
    assert rows.merged(["c", "b", "a"], old, new) == [
        {"name": "c", "ms": 3},
        {"name": "b", "error": "now"},
        {"name": "a", "ms": 1},
    ]


def result() -> dict[str, Any]:
    """A result file with a win, a loss, and a complaint that is not shown."""

    def row(name: str, counted: bool, speed: float, **stock: Any) -> dict[str, Any]:
        period = {"median": 1.0, "low": 0.9, "high": 1.1}
        mode = {"error": "", "wrong": False, "period_ms": period, "records": 3}
        return {
            "name": name,
            "group": "g",
            "threads": ["https://github.com/pytorch/pytorch/issues/1"],
            "shown": "12 graphs | recorded" if counted else "",
            "counted": counted,
            "best_stock": "default",
            "speed_beside_best_stock": speed,
            "right": True,
            "modes": {
                "default": mode,
                "reduce-overhead": {**mode, **stock},
                "pygraph": {**mode, "period_ms": {**period, "median": 1 / speed}},
            },
        }

    found = [
        row("block_by_block", True, 2.0, error="RuntimeError: overwritten"),
        row("take_of_a_vector", True, 0.5),
        row("rope_in_place", False, 0.1),
    ]
    return {
        "environment": {"gpu": "a GPU", "torch": "2.11", "started_together": 4},
        "totals": totals(found),
        "rows": found,
    }


def test_the_page_tells_losses_and_what_is_not_shown() -> None:
    content = result()
    text = report.page(content, content, content, {"take_of_a_vector": "Guards."})
    counted, _, rest = text.partition("## Lost")
    assert "2 of 3 programs, of 1 groups" in counted
    assert "| fails | 0.5 | **2.00** |" in counted
    assert "12 graphs / recorded" in counted
    assert "[pytorch#1](https://github.com/pytorch/pytorch/issues/1)" in counted
    assert "- `take_of_a_vector`: 0.50 of default. Guards." in rest
    assert base.title("rope_in_place") in rest.partition("## Not shown")[2]
    assert base.title("rope_in_place") not in counted
    assert "has not been measured" in report.page(content, content, content, {})
    busy = "- `take_of_a_vector`: 0.50 (default 0.9 to 1.1, pygraph 0.9 to 1.1)"
    assert busy in text.partition("## On a busy host")[2]
    newest = text.partition("## With torch 2.11\n")[2]
    assert "| `block_by_block` | 1 | fails | 0.5 | **2.00** |" in newest
    assert "- `take_of_a_vector`: 0.50 of default. Guards." in newest
    assert report.figures(content) == {
        "block by block": {"reduce-overhead": None, "pygraph": 2.0},
        "take of a vector": {"reduce-overhead": 1.0, "pygraph": 0.5},
    }


def test_no_row_is_started_late_and_rows_of_other_runs_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "rows.json"
    measured: list[str] = []

    def measure(name: str, extra: list[str], cache: str, seconds: int) -> dict[str, Any]:
        measured.append(name)
        return {"ms": len(measured)} if name != "b" else {"error": "a crash"}

    benchmark = rows.Benchmark("m", ["a", "b", "c"], str(out), str, len, measure)

    def run(*arguments: str) -> list[tuple[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["rows", *arguments])
        rows.main(benchmark, None)
        found = json.loads(out.read_text())["rows"]
        return [(row["name"], row.get("ms")) for row in found]

    assert run("--shard", "1/2") == [("a", 1), ("c", 2)]
    assert run("--limit-seconds", "-1") == [("a", 1), ("c", 2)]
    assert run("--resume") == [("a", 1), ("b", None), ("c", 2)]
    assert run("--resume", "--only", "a,b") == [("a", 1), ("b", None), ("c", 2)]
    assert measured == ["a", "c", "b", "b"]


def test_the_page_is_made_from_the_result_file() -> None:
    content, newest, causes = (
        json.loads(path.read_text("utf-8"))
        for path in (report.RESULTS, report.NEWEST, report.CAUSES)
    )
    slow_host = json.loads(report.SLOW_HOST.read_text())
    assert report.PAGE.read_text("utf-8") == report.page(content, newest, slow_host, causes)
    for each in (content, newest):
        assert each["totals"] == totals(each["rows"])
