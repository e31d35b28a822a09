"""From a result file to figures, tables and the committed document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workloads import report, results, summary
from benchmarks.workloads.run import main as run_main

ROOT = Path(__file__).parents[2]


def _timed(*values: float) -> dict[str, Any]:
    return {"calls_a_round": 5, "ms": list(values), "host_ms": list(values)}


def _probe(reserved: int) -> dict[str, Any]:
    memory = {"steady": {"reserved": reserved, "allocated": 1}, "warm_up": None}
    compiler = {
        "graphs": 1,
        "graph_breaks": 0,
        "graph_break_reasons": {},
        "cudagraph_skips": 0,
        "cudagraph_skip_reasons": {},
        "cudagraphs_recorded": 1,
        "cudagraph_partitions": None,
    }
    return {"result": {"memory": memory, "warm_up_s": 2.0, "compiler": compiler}}


def _content() -> dict[str, Any]:
    good = {
        "about": {"batch": 1, "stands_for": "A thing.", "traits": []},
        "probes": {name: _probe(2**20) for name in ("eager", "default", "reduce-overhead")},
        "timings": [
            {
                "timed": {
                    "eager": _timed(8, 8, 8),
                    "default": _timed(4, 4, 4),
                    "reduce-overhead": _timed(2, 2, 2),
                },
                "profiles": {
                    "default": {
                        "busy_ms": 1.5,
                        "kernels": 9,
                        "copy_ms": 0.1,
                        "input_copy_bytes": 0,
                    },
                    "reduce-overhead": {
                        "busy_ms": 1.75,
                        "kernels": 10,
                        "copy_ms": 0.35,
                        "input_copy_bytes": 2**30,
                    },
                },
                "checked": {},
            }
        ],
    }
    crashed = json.loads(json.dumps(good))
    crashed["probes"]["reduce-overhead"] = {"error": "killed by SIGSEGV", "failed_step": "warming"}
    del crashed["timings"][0]["timed"]["reduce-overhead"]
    wrong = json.loads(json.dumps(good))
    errors = {"outputs": 0.5, "gradients": None}
    wrong["timings"][0]["checked"] = {"reduce-overhead": {"errors": errors, "agrees": False}}
    environment = {"device": "H200", "cpu_count": 16, "python": "3.12", "packages": {"torch": "2"}}
    return {
        "schema": 1,
        "environments": [environment],
        "workloads": {"good": good, "crashed": crashed, "wrong": wrong},
    }


def _document(*given: Any) -> str:
    """Both pages."""
    return "".join(report.pages(*given).values())


def test_a_crash_and_a_wrong_answer_count_as_default_in_the_second_mean() -> None:
    good, crashed, wrong = summary.rows(_content())
    assert good.ratio("default", "reduce-overhead") == 2
    assert crashed.ratio("default", "reduce-overhead") is None
    assert wrong.ratio("default", "reduce-overhead") is None
    for row in (crashed, wrong):
        assert row.counted_ratio("default", "reduce-overhead") == 1
        assert row.counted_ratio("eager", "reduce-overhead") == 2
    assert good.counted_ratio("default", "pygraph") is None
    assert "SIGSEGV" in crashed.failures["reduce-overhead"]
    assert wrong.failures["reduce-overhead"].startswith("wrong result")


def test_what_there_is_to_gain() -> None:
    content = _content()
    timing = content["workloads"]["good"]["timings"][0]
    timing["timed"]["pygraph"] = _timed(1.6, 1.6, 1.6)
    timing["profiles"]["pygraph"] = {**timing["profiles"]["default"], "busy_ms": 1.6}
    (good,) = [row for row in summary.rows(content) if row.name == "good"]
    assert good.most() == pytest.approx(2 / 1.5)  # of default's work, not of its own copies
    assert good.waits_for_host()
    assert "What there is to gain" not in _document(content, "file.json")
    timing["timed"]["reduce-overhead"]["host_ms"] = [1.8, 1.8, 1.8]
    text = _document(content, "file.json")
    assert "is 1.333x (1 workloads), and pygraph reaches 1.250x (1 workloads)." in text


def test_shares_of_the_time() -> None:
    share = summary.share(summary.rows(_content())[0])
    assert share is not None
    assert share.busy == 1.75
    assert share.idle == pytest.approx(0.25)
    assert share.copies == pytest.approx(0.25)
    assert share.loss == 0


def test_geometric_mean_and_spread() -> None:
    assert summary.geometric_mean([]) is None
    assert summary.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert summary.spread([1.0, 1.0, 1.0, 1.0]) == 0
    assert summary.spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(0.5)


def test_a_second_run_gives_the_change_of_the_ratio() -> None:
    content = _content()
    second = json.loads(json.dumps(content["workloads"]["good"]["timings"][0]))
    second["timed"]["reduce-overhead"] = _timed(2.1, 2.1, 2.1)
    content["workloads"]["good"]["timings"].append(second)
    row = summary.rows(content)[0]
    assert len(row.runs) == 2
    assert row.repeat_change == pytest.approx(0.05)
    text = _document(content, "results.json")
    again = text[text.index("## Run again") :].split("\n## ")[0]
    assert "| `good` | 2.000x | 1.905x | -4.8 % | 1.00 | 1.00 | 1.05 | host | host |" in again


def test_a_run_with_parts_switched_off_is_shown_apart() -> None:
    content = _content()
    timings = content["workloads"]["good"]["timings"]
    usual = timings[0]["timed"]
    usual["pygraph"] = _timed(1, 1, 1)
    apart = {**usual, "pygraph": _timed(1.5, 1.5, 1.5), "pygraph-always": _timed(5, 5, 5)}
    timings.append({**timings[0], "timed": apart})
    row = summary.rows(content)[0]
    assert row.timed["pygraph"].ms == 1
    assert row.parts["pygraph"].ms == 1.5
    text = _document(content, "file.json")
    part = text[text.index("## What each part contributes") :].split("\n## ")[0]
    assert "| `good` | 4.000 ±0% | 2.000 ±0% | 1.500 ±0% | 5.000 ±0% | - |" in part


def test_the_document_names_what_failed_and_what_did_not_run() -> None:
    text = _document(_content(), "results.json")
    assert "| `crashed` | 1 | 8.000 ±0% | 4.000 ±0% | failed | - |" in text
    assert "| `wrong` | 1 | 8.000 ±0% | 4.000 ±0% | wrong | - |" in text
    assert "| reduce-overhead over default | 2.000x (1 workloads) | 1.260x (3 workloads) |" in text
    assert "- `crashed`, reduce-overhead: killed by SIGSEGV (while warming)" in text
    assert "- pygraph on all workloads: not run yet" in text


def test_losses_and_gains_are_told_apart_with_where_their_time_goes() -> None:
    content = _content()
    good = content["workloads"]["good"]
    good["about"]["traits"] = ["large copies"]
    good["timings"][0]["timed"]["pygraph"] = _timed(2.5, 2.5, 2.5)
    good["timings"][0]["regions"] = [
        {"state": "serving", "reason": ""},
        {"state": "ordinary", "reason": "it is a | reason"},
    ]
    text = _document(content, "file.json")
    below = text[text.index("### Below it") :].split("\n## ")[0]
    assert "| `good` | reduce-overhead | 2.000 | 2.000 | 1.750 |" in below
    assert "0.80x | 1024.0 MiB | 1 serving, 1 ordinary; it is a / reason |" in below
    assert "### The best" not in text
    assert "of those with copies, mutation or CPU tensors | 0.800x (1 workloads)" in text


def test_a_loss_shows_where_the_hosts_time_goes() -> None:
    content = _content()
    timing = content["workloads"]["good"]["timings"][0]
    timing["timed"]["pygraph"] = _timed(2.5, 2.5, 2.5)
    assert "by layer" not in _document(content, "file.json")
    layers = {"compiled graphs": {"us": 310.4, "times": 2.0}, "outputs": {"us": 7.0, "times": 2.0}}
    timing["profiles"]["pygraph"] = {**timing["profiles"]["default"], "host": layers}
    text = _document(content, "file.json")
    below = text[text.index("### Below it") :].split("\n## ")[0]
    assert "| `good` | pygraph | 310 | - | - | - | 7 |" in below
    assert "| `good` | reduce-overhead |" not in below.split("by layer")[1]


def test_breaks_before_and_after_fixing() -> None:
    def copy(breaks: int, *reasons: str) -> dict[str, Any]:
        return {"graphs": breaks + 1, "graph_breaks": breaks, "reasons": list(reasons)}

    raw = {"graphs": None, "graph_breaks": None, "error": "it raised"}
    versions = {"versions": {"timm": "1.0"}, "files": 3}
    broken = {
        "environment": {"packages": {"torch": "2.13.0", "timm": "1.0", "triton": None}},
        "sources": {"safe": versions, "unsafe": versions},
        "workloads": {
            "good": {name: copy(0) for name in ("before", "safe", "unsafe")},
            "bad": {"before": copy(5, "a"), "safe": copy(2, "a"), "unsafe": copy(1, "a", "b")},
            "raises": {"before": copy(0), "safe": copy(0), "unsafe": raw},
        },
    }
    text = _document(_content(), "file.json", broken)
    part = text[text.index("## Graph breaks before and after") :].split("\n## ")[0]
    assert "(torch 2.13.0, timm 1.0)" in part
    assert "| `bad` | 5 | 2 | 1 | a, b |" in part
    assert "| `raises` | 0 | 0 | it raised |  |" in part
    assert "`good`" not in part
    assert "Of 3 rows, the others have none." in part


def test_fixed_sources_stand_beside_the_last_run_of_the_sources_as_they_are() -> None:
    content, fixed = _content(), _content()
    again = json.loads(json.dumps(content["workloads"]["good"]["timings"][0]))
    again["timed"]["default"] = _timed(6, 6, 6)
    content["workloads"]["good"]["timings"].append(again)
    elsewhere = json.loads(json.dumps(again))
    elsewhere["timed"]["default"] = _timed(9, 9, 9)
    content["workloads"]["good"]["timings"].append(elsewhere)
    content["environments"].append({**content["environments"][0], "cpu_count": 99})
    for timings in [f["workloads"]["good"]["timings"] for f in (content, fixed)]:
        for run in timings:
            run["environment"] = 0
    elsewhere["environment"] = len(content["environments"]) - 1
    fixed["workloads"] = {"good": fixed["workloads"]["good"]}
    fixed["workloads"]["good"]["timings"][0]["timed"]["default"] = _timed(3, 3, 3)
    fixed["sources"] = {"fixes": "safe", "versions": {"transformers": "5.0", "timm": None}}
    text = _document(content, "file.json", None, fixed)
    part = text[text.index("## What fixed sources add") :].split("\n## ")[0]
    assert "(safe fixes; transformers 5.0, and the workloads' own models)" in part
    assert "| workload | eager | default | reduce-overhead |" in part
    assert "6.000 ±0% → 3.000 ±0% (2.00x) | 2.000 ±0% → 2.000 ±0% (1.00x) |" in part


def test_runs_are_compared_and_those_with_a_remark_are_not() -> None:
    content = _content()
    timings = content["workloads"]["good"]["timings"]
    for milliseconds, remark in [(2.0, ""), (1.0, "an earlier version"), (1.9, "")]:
        run = json.loads(json.dumps(timings[0]))
        run["timed"]["pygraph"] = _timed(*[milliseconds] * 3)
        timings.append({**run, "remark": remark})
    text = _document(content, "file.json")
    assert "| `good` | 1.000x, 1.053x | +5.3 % |" in text
    assert "within 5 % of each other on 0 of 1 workloads" in text
    timings.pop()
    timings.pop(-2)
    assert "- `good`: an earlier version" in _document(content, "file.json")


def test_warm_ups_are_compared_where_they_were_measured_alike() -> None:
    content = _content()
    probes = content["workloads"]["good"]["probes"]
    content["workloads"]["good"]["timings"][0]["timed"]["pygraph"] = _timed(1, 1, 1)
    probes["pygraph"] = {**_probe(2**20), "environment": 1, "beside": 3}
    probes["pygraph"]["result"]["warm_up_s"] = 2.8
    text = _document(content, "file.json")
    assert "2.8* | - |" in text
    assert "as long as" not in text
    for probe in probes.values():
        probe.update(environment=1, beside=3)
    text = _document(content, "file.json")
    assert "2.8 | 1.40x |" in text
    assert "0 of them take at most 1.3 times as long, the longest 1.40 times" in text


def test_notes_are_of_workloads_that_exist() -> None:
    from benchmarks.workloads import catalogue

    names = {workload.name for workload in catalogue.WORKLOADS}
    notes = json.loads(report.NOTES.read_text())
    assert set(notes) == {"speed", "memory and warm-up"}
    assert all(set(of_kind) <= names for of_kind in notes.values())


def test_the_version_of_the_code_is_said() -> None:
    content = _content()
    assert "All were timed with version 0.1." in _document(content, "file.json")
    run = json.loads(json.dumps(content["workloads"]["good"]["timings"][0]))
    run["environment"] = len(content["environments"])
    content["environments"].append({**content["environments"][0], "commit": "abc1234"})
    content["workloads"]["good"]["timings"].append(run)
    said = summary.measured_with(summary.rows(content))
    assert said.startswith("1 were timed with commit abc1234 (`good`), ")
    assert said.endswith("`).")


def test_what_is_beyond_a_bound_is_named() -> None:
    content = _content()
    probes = content["workloads"]["good"]["probes"]
    probes["default"] = _probe(100 << 20)
    probes["reduce-overhead"] = _probe(120 << 20)
    probes["pygraph"] = _probe(110 << 20)
    assert "bound, MiB" not in _document(content, "file.json")
    probes["pygraph"] = _probe(112 << 20)
    assert "| `good` | 110 | 112 |" in _document(content, "file.json")
    probes["reduce-overhead"] = _probe(104 << 20)
    assert "| `good` | 104 | 112 |" in _document(content, "file.json")


def test_a_disturbed_run_counts_nowhere_but_is_shown() -> None:
    content = _content()
    before = summary.rows(content)
    run = json.loads(json.dumps(content["workloads"]["good"]["timings"][0]))
    run["timed"]["default"] = _timed(40, 40, 40)
    run["timed"]["pygraph"] = _timed(1, 1, 1)
    run["disturbed"] = "somebody compiled"
    content["workloads"]["good"]["timings"].append(run)
    assert summary.rows(content) == before
    text = _document(content, "file.json")
    own = text[text.index("## Runs set aside") :].split("\n## ")[0]
    assert "somebody compiled" in own
    assert "| `good` | 8.000 ±0% | 40.000 ±0% | 2.000 ±0% | 1.000 ±0% |" in own
    assert "40.000" not in text.replace(own, "")


def test_the_committed_pages_are_made_from_the_committed_results() -> None:
    folder = ROOT / "docs" / "explanation"
    content = results.load(ROOT / "benchmarks" / "results" / "workloads.json")
    broken = json.loads(report.BREAKS.read_text())
    fixed = results.load(report.FIXED)
    made = report.pages(content, "benchmarks/results/workloads.json", broken, fixed)
    assert made == {name: (folder / name).read_text() for name in made}


def test_a_foreign_result_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"schema": 99}')
    assert report.main(["--results", str(path), "--table"]) == 2
    assert "schema 1" in capsys.readouterr().err
    path.write_text("not json")
    assert report.main(["--results", str(path), "--table"]) == 2
    assert report.main(["--results", str(tmp_path / "none.json"), "--table"]) == 2


def test_results_survive_a_round_trip_with_infinities(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "result.json"
    content = results.load(path)
    results.entry(content, "one")["probes"]["eager"] = {"a": float("inf"), "b": 1 / 3}
    first = results.environment_index(content, {"device": "x"})
    assert results.environment_index(content, {"device": "x"}) == first
    results.save(path, content)
    loaded = results.load(path)
    assert loaded["workloads"]["one"]["probes"]["eager"] == {"a": "inf", "b": 0.33333}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--only", "nothing"], "dlrm_inference"), (["--variants", "turbo"], "reduce-overhead")],
)
def test_the_runner_refuses_unknown_names(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(arguments) == 2
    assert message in capsys.readouterr().err


def test_the_runner_lists_the_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(["--list"]) == 0
    assert "llama_decode_b8" in capsys.readouterr().out
