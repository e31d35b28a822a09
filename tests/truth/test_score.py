"""Findings against the truth table."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.lint_truth.score import (
    BREAKS,
    HOST_TENSORS,
    SYNCS,
    Finding,
    corpus_recall,
    judge,
    listing,
    precision,
    read_findings,
    recall,
    score,
    site_half,
    table,
)

FILE = "transformers/models/a/modeling_a.py"
OTHER = "transformers/models/b/modeling_b.py"


def same_line(file: str, line: int) -> int:
    return line


def finding(line: int, file: str = FILE, code: str = "PG201", **flags: bool) -> Finding:
    known = {"breaks": False, "errors": False, "syncs": False, "not_capturable": False}
    return Finding(
        file, line, code, "message", preview=flags.pop("preview", False), **known | flags
    )


def site(line: int, *kinds: str, file: str = FILE, model: str = "A:eval") -> dict[str, Any]:
    seen = {kind: {"what": ["item"], "in": [model]} for kind in kinds}
    return {"file": file, "line": line, "end": line, "text": f"line {line}", "kinds": seen}


def truth(*sites: dict[str, Any], ran: str = "1-100", traced: str = "1-100") -> dict[str, Any]:
    return {
        "environment": {},
        "models": {"A": {"half": "tune"}, "B": {"half": "held-out"}},
        "sites": list(sites),
        "files": {FILE: ["A"], OTHER: ["B"]},
        "ran": {FILE: ran, OTHER: ran},
        "traced": {FILE: traced},
        "skipped_frames": [],
    }


def test_reading_the_linters_json() -> None:
    row = {
        "code": "PG201",
        "message": "m",
        "filename": "/x/a.py",
        "location": {"row": 3, "column": 1},
        "consequences": {
            "compile": "break",
            "fullgraph": "ok",
            "cudagraph": "not capturable",
            "sync": "yes",
        },
    }
    elsewhere = {**row, "filename": "/y/b.py"}
    (found,) = read_findings([row, elsewhere], {"/x/a.py": FILE}.get)
    assert found == finding(3, breaks=True, syncs=True, not_capturable=True).__class__(
        FILE, 3, "PG201", "m", True, False, True, True, False
    )


def test_recall_needs_a_finding_that_says_what_happens() -> None:
    sites = [site(1, "break"), site(2, "break"), site(3, "sync"), site(4, "break")]
    found = [finding(1, breaks=True), finding(2, syncs=True)]
    numbers, missed = recall(sites, found, BREAKS, same_line)
    assert numbers == {"sites": 3, "found": 1, "recall": 0.3333, "noticed": 2}
    assert [m["line"] for m in missed] == [2, 4]


@pytest.mark.parametrize("kind", ["sync", "d2h", "h2d"])
def test_syncs_and_blocking_copies_count_together(kind: str) -> None:
    assert recall([site(1, kind)], [finding(1, syncs=True)], SYNCS, same_line)[0]["found"] == 1


def test_host_tensors_are_found_by_a_capture_consequence_too() -> None:
    sites = [site(1, "host_tensor")]
    assert (
        recall(sites, [finding(1, not_capturable=True)], HOST_TENSORS, same_line)[0]["found"] == 1
    )
    assert recall(sites, [finding(1, breaks=True)], HOST_TENSORS, same_line)[0]["found"] == 0


def test_sites_outside_model_code_are_not_required() -> None:
    outside = site(1, "break", file="transformers/utils/helper.py")
    assert recall([outside], [], BREAKS, same_line)[0] == {
        "sites": 0,
        "found": 0,
        "recall": None,
        "noticed": 0,
    }


def test_a_finding_meets_a_site_anywhere_in_the_statement() -> None:
    numbers, _ = recall([site(1, "break")], [finding(3, breaks=True)], BREAKS, lambda f, line: 1)
    assert numbers["found"] == 1


def test_verdicts() -> None:
    known = truth(
        site(1, "sync"), site(2, "dynamo_error"), site(3, "break_below"), ran="1-6", traced="1-3"
    )
    found = [
        finding(1, breaks=True),  # something happened
        finding(2, breaks=True),  # only an error of Dynamo
        finding(3, breaks=True),  # it happened below
        finding(4, breaks=True),  # Dynamo never came here
        finding(5, syncs=True),  # the line ran, no sync
        finding(6, not_capturable=True),  # claims what is not measured
        finding(7, breaks=True),  # never ran
    ]
    verdicts = [verdict for _, verdict in judge(found, known, same_line)]
    assert verdicts == ["right", "wrong", "right", "untraced", "wrong", "unjudged"]
    assert precision(judge(found, known, same_line)) == {
        "right": 2,
        "wrong": 2,
        "unjudged": 1,
        "untraced": 1,
        "precision": 0.5,
        "strict": 0.4,
    }


def test_corpus() -> None:
    corpus = [
        {"file": FILE, "line": 1, "ids": {"GB1": 1}},
        {"file": FILE, "line": 2, "ids": {"GB1": 1}},
        {"file": FILE, "line": 3, "ids": {"GB2": 1}},
        {"file": "torch/nn/functional.py", "line": 3, "ids": {}},
    ]
    known = truth(site(1, "break"), site(3, "break"), ran="1,3")
    result = corpus_recall(corpus, known, [finding(1, breaks=True), finding(2)], same_line)
    assert (result["sites"], result["found"]) == (3, 1)
    assert (result["confirmed"], result["confirmed_found"]) == (2, 1)
    assert result["misses"] == [
        {"place": f"{FILE}:2", "ids": ["GB1"], "confirmed": False, "ran": False},
        {"place": f"{FILE}:3", "ids": ["GB2"], "confirmed": True, "ran": True},
    ]


def test_a_site_of_both_halves_belongs_to_tune() -> None:
    both = site(1, "break", model="B:eval")
    assert site_half(both, {"A": "tune", "B": "held-out"}) == "held-out"
    both["kinds"]["break"]["in"].append("A:train")
    assert site_half(both, {"A": "tune", "B": "held-out"}) == "tune"


def test_halves_previews_and_lists() -> None:
    known = truth(site(1, "break"), site(2, "sync"), site(1, "break", file=OTHER, model="B:eval"))
    found = [
        finding(1, breaks=True),
        finding(9, syncs=True),
        finding(9, file=OTHER, syncs=True),
        finding(2, syncs=True, preview=True),
    ]
    result = score(known, found, same_line, lambda file, line: f"text {line}")
    tune, held_out = result["halves"]["tune"], result["halves"]["held-out"]
    assert (tune["breaks"]["found"], held_out["breaks"]["found"]) == (1, 0)
    assert tune["syncs"]["found"] == 0  # preview findings do not count
    assert result["preview"]["right"] == 1
    assert tune["false_alarms"] == [
        {"code": "PG201", "text": "text 9", "message": "message", "places": [f"{FILE}:9"]}
    ]
    assert not [name for name in held_out if name.startswith(("missed", "false"))]
    assert tune["missed_syncs"][0]["places"] == [f"{FILE}:2"]
    assert f"{FILE}:2" in listing(tune)
    assert "recall of breaks" in table(result)
    assert "1/2 50.0 %" in table(result)
