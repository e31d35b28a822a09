"""Breaks of a truth table that only say that they are in a loop get their cause."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from benchmarks.lint_truth.causes import add_causes, runs_without_cause, without_cause

LOOP = "graph break in loop"


def site(line: int, what: list[str], run: str = "A:eval") -> dict[str, Any]:
    return {"file": "p/a.py", "line": line, "kinds": {"break": {"what": what, "in": [run]}}}


def traced(line: int, kind: str, inner: str = "p/a.py:1", run: str = "A:eval") -> dict[str, Any]:
    model, _, mode = run.partition(":")
    found = {"file": "p/a.py", "line": line, "inner": inner, "kind": kind}
    return {"model": model, "mode": mode, "stage": "trace", "result": {"breaks": [found]}}


def same_line(file: str, line: int) -> int:
    return line


def test_a_cause_is_named_where_the_same_break_is_seen_again() -> None:
    truth = {"sites": [site(3, [LOOP]), site(5, [f"{LOOP} (in torch/x.py:2)"])]}
    records = [
        traced(3, f"{LOOP}: Dynamic shape operator"),
        traced(5, f"{LOOP}: Data dependent operator", "torch/x.py:2"),
    ]
    assert add_causes(truth, records, same_line) == 2
    assert truth["sites"][0]["kinds"]["break"]["what"] == [f"{LOOP}: Dynamic shape operator"]
    named = truth["sites"][1]["kinds"]["break"]["what"]
    assert named == [f"{LOOP}: Data dependent operator (in torch/x.py:2)"]
    assert without_cause(truth) == []


@pytest.mark.parametrize(
    "record",
    [
        traced(4, f"{LOOP}: Dynamic shape operator"),  # another place
        traced(3, f"{LOOP}: Dynamic shape operator", run="B:eval"),  # another run
        traced(3, LOOP),  # still no cause
        traced(3, "Dynamic shape operator"),  # no consequence of another break
        traced(3, f"{LOOP}: TypeError"),  # no statement about the line
        traced(3, f"{LOOP}: Dynamic shape operator", "torch/x.py:2"),  # in other code
    ],
)
def test_nothing_else_changes(record: dict[str, Any]) -> None:
    truth = {"sites": [site(3, [LOOP]), {"file": "p/a.py", "line": 4, "kinds": {"sync": {}}}]}
    before = copy.deepcopy(truth)
    assert add_causes(truth, [record], same_line) == 0
    assert truth == before


def test_one_run_is_asked_for_each_site_that_has_no_cause() -> None:
    truth = {
        "sites": [
            site(1, [LOOP], "B:train"),
            site(2, [LOOP], "B:train"),
            site(3, [LOOP, "Dynamic shape operator"], "C:eval"),
            site(4, [f"{LOOP}: Dynamic shape operator"], "D:eval"),
        ]
    }
    assert runs_without_cause(truth) == ["B:train"]
