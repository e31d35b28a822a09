"""The rows of several ranks: what is judged, and what follows from measurements."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.distributed import __main__ as command
from benchmarks.distributed import predicted, verdicts, votes
from benchmarks.distributed.cases import SPREADS
from benchmarks.distributed.right import first_difference
from benchmarks.distributed.rows import ROWS, Row
from benchmarks.distributed.speed import by_place


def test_rows_have_names_of_their_own_and_known_spreads() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.case.spread for row in ROWS} == set(SPREADS)
    assert all(row.tiny().case.shape.hidden == 16 for row in ROWS)
    assert all(row.case.shape.kind == row.tiny().case.shape.kind for row in ROWS)


def test_meshes_of_two_dimensions_are_left_out_on_two_ranks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command.main(["--ranks", "2", "--list"])
    two = capsys.readouterr().out
    command.main(["--ranks", "4", "--list"])
    assert "right: fsdp x tp" not in two
    assert "right: fsdp x tp" in capsys.readouterr().out


def test_a_rank_that_hangs_after_its_result_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_AFTER_RESULTS_S", 0.2)
    result = tmp_path / "rank0.json"
    result.write_text("{}")
    hangs = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    _, killed = command.wait([hangs], [result], time.monotonic(), 30.0)
    assert killed == {0}


def fault(codes: list[int], seconds: float, done: bool = True) -> dict[str, Any]:
    return {"exit_codes": codes, "ended_after_s": [seconds, 0.5], "fault": done}


@pytest.mark.parametrize(
    ("ours", "good"),
    [
        (fault([1, -9], 4.0), True),
        (fault([1, -9], 9.0), False),
        (fault([0, -9], 1.0), False),
        (fault([1, -9], 9.0, done=False), True),
    ],
)
def test_a_fault_ends_as_in_default_mode(ours: dict[str, Any], good: bool) -> None:
    found = verdicts.of_fault({"default": fault([1, -9], 2.0), "pygraph": ours})
    assert found["good"] is good


def row(kind: str) -> Row:
    return next(r for r in ROWS if r.kind == kind)


def test_verdicts_are_of_all_ranks() -> None:
    equal, apart = {"first_difference": None}, {"first_difference": "step 3"}
    assert verdicts.of_row(row("right"), [equal, equal]) == {"equal": True}
    assert verdicts.of_row(row("right"), [equal, apart]) == {"equal": False}
    assert verdicts.of_row(row("right"), [equal, {"error": "no"}]) is None
    grown = [{"grown": {"graphs": 0}}, {"grown": {"graphs": 2}}]
    assert verdicts.of_row(row("soak"), grown) == {"grown": {"graphs": 2}}
    modes = {"default": {"ms": 3.0}, "pygraph": {"ms": 2.0}, "reduce-overhead": {}}
    said = {"modes": modes, "idle_share": 0.3, "tokens_a_step_and_rank": 6, "limit_ms": 1.0}
    found = verdicts.of_row(row("speed"), [said, {**said, "limit_ms": 0.5}])
    assert found == {
        "times_as_fast_as": {"default": 1.5},
        "tokens_a_second": {"default": 2000.0, "pygraph": 3000.0},
        "default_idle": 0.3,
        "of_the_bandwidth_limit": {"default": 0.3333, "pygraph": 0.5},
    }


def freed(default: float, ours: float, captured: float) -> dict[str, Any]:
    modes = {"default": (1.0, default, 0.0), "pygraph": (0.5, ours, captured)}
    keys = ("ms", "ms_with_frees", "capture_ms_after")
    return {"modes": {mode: dict(zip(keys, said, strict=True)) for mode, said in modes.items()}}


@pytest.mark.parametrize(
    ("ours", "captured", "good"), [(0.51, 0.0, True), (0.6, 0.0, False), (0.5, 3.0, False)]
)
def test_freed_memory_makes_no_captures_and_steps_no_slower(
    ours: float, captured: float, good: bool
) -> None:
    ranks = [freed(1.01, ours, 0.0), freed(1.01, ours, captured)]
    found = verdicts.of_row(row("freed"), ranks)
    assert found is not None
    assert found["good"] is good


def test_scaling_is_beside_one_rank_of_the_same_row() -> None:
    def timed(name: str, world: int, default: float, ours: float) -> dict[str, Any]:
        rates = {"default": default, "pygraph": ours}
        verdict = {"tokens_a_second": rates}
        return {"name": name, "tiny": False, "world": world, "verdict": verdict}

    rows = [
        timed("speed: a", 1, 100, 200),
        timed("speed: a", 8, 80, 150),
        timed("speed: b", 8, 1, 1),
    ]
    (found,) = verdicts.scaling(rows)
    assert (found["name"], found["world"], found["points"]) == ("speed: a", 8, -5.0)
    assert found["of_one"] == {"default": 0.8, "pygraph": 0.75}


def test_the_first_difference_is_named() -> None:
    one = [[torch.ones(2)], [torch.tensor([1.0, float("nan")])]]
    assert first_difference(one, [[torch.ones(2)], [torch.tensor([1.0, float("nan")])]]) is None
    other = [[torch.tensor([1.0, 2.0])], one[1]]
    assert first_difference(one, other) == "step 0, result 0: 1.0 apart"
    assert first_difference(one, [one[0], []]) == "the state: 1 results and 0"


def test_the_hosts_time_is_summed_by_package() -> None:
    stats = {
        ("/x/torch/distributed/tensor/a.py", 1, "f"): (1, 1, 2e-3, 5e-3, {}),
        ("/x/torch/distributed/b.py", 1, "g"): (1, 1, 1e-3, 1e-3, {}),
        ("~", 0, "<built-in>"): (1, 1, 3e-3, 3e-3, {}),
    }
    found = by_place(stats, 10)
    assert found == {"DTensor": 200.0, "c10d": 100.0, "torch or built in": 300.0}


def test_predictions_are_worked_out_from_the_committed_results() -> None:
    """`python -m benchmarks.distributed.predicted` writes them again."""
    committed = json.loads(predicted.OUT.read_text("utf-8"))
    assert committed == json.loads(json.dumps(predicted.predict()))
    assert "not measured" in committed["what"]


def test_votes_cost_an_undecided_call_little() -> None:
    found = votes.measure(2)
    assert found["alike"]
    assert found["undecided_calls_a_rank"] < 1280
