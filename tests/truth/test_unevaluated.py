"""Parts of statements that no program evaluated do not count."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lint_truth.claims import break_claims
from benchmarks.lint_truth.findings import Finding, evaluated
from benchmarks.lint_truth.size_breaks import Table, programs_of_numbers
from benchmarks.lint_truth.statements import Sources
from benchmarks.lint_truth.unevaluated import Recorder, conditional_parts, outermost, wanted_parts

FILE = "package/models/x.py"
SOURCE = """\
def arms(x):
    first = len(x) if x else abs(-1)
    second = x and len(x)
    third = [str(y) for y in x if y > 1]
    fourth = len(x) + 1
    return first, second, third, fourth
"""


def _finding(line: int, column: int) -> Finding:
    return Finding(FILE, line, "PG202", "m", True, True, True, True, False, column=column)


def _function(folder: Path) -> Callable[[Any], Any]:
    path = folder / "module_with_arms.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("module_with_arms", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[[Any], Any] = module.arms
    return function


def _text(part: tuple[int, int, int, int]) -> str:
    return SOURCE.splitlines()[part[0] - 1][part[1] : part[3]]


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ([], {"abs(-1)"}),
        ([1], {"len(x)", "y > 1"}),
        ([2], {"len(x)", "str(y)", "y > 1"}),
    ],
)
def test_a_part_counts_as_evaluated_when_it_ran(
    tmp_path: Path, given: list[int], seen: set[str]
) -> None:
    parts = conditional_parts(SOURCE)
    assert {_text(part) for part in parts} == {"len(x)", "abs(-1)", "str(y)", "y > 1"}
    function = _function(tmp_path)
    recorder = Recorder({FILE: parts})
    recorder.during(lambda: function(given), lambda name: FILE if "with_arms" in name else None)
    assert {_text(part) for part in recorder.seen[FILE]} == seen


def test_parts_of_statements_that_ran_are_asked_for() -> None:
    found = wanted_parts({FILE: "2,5", "other.py": "1-9"}, lambda file: SOURCE, lambda f: f == FILE)
    assert {_text(part) for part in found[FILE]} == {"len(x)", "abs(-1)"}
    assert found.keys() == {FILE}


def test_what_lies_in_another_part_is_not_noted_twice() -> None:
    assert outermost([(1, 4, 1, 9), (1, 5, 1, 8), (2, 0, 2, 3)]) == [(1, 4, 1, 9), (2, 0, 2, 3)]


def test_findings_in_parts_that_never_ran_do_not_count() -> None:
    truth: dict[str, Any] = {
        "sites": [],
        "ran": {FILE: "2"},
        "traced": {FILE: "2"},
        "unevaluated": {FILE: [[2, 12, 2, 18]]},
    }
    inside, beside = _finding(2, 12), _finding(2, 29)
    assert evaluated([inside, beside], truth) == [beside]
    claims = break_claims(
        truth, evaluated([inside, beside], truth), lambda _, line: line, counted=bool
    )
    assert claims["break_claims"]["without_a_break"] == 1


def test_a_second_size_adds_breaks_where_an_operator_reads_a_number() -> None:
    site = {"file": FILE, "line": 2, "end": 2, "text": "t", "kinds": {"break": {}}, "lines": [2]}
    made = {"host_tensor": {"what": ["div"], "in": ["A:eval"]}}
    truth: dict[str, Any] = {"sites": [site, {**site, "line": 5, "end": 5, "kinds": made}]}
    assert programs_of_numbers(truth) == {"A:eval"}
    table = Table(truth, Sources(lambda file: SOURCE))
    breaks = [
        {"file": FILE, "line": line, "kind": kind}
        for line, kind in (
            (2, "Data dependent operator"),
            (4, "Data dependent operator (in torch/x.py:2)"),
            (5, "Data dependent operator"),
            (6, "Data-dependent branching"),
        )
    ]
    assert table.add("A:eval", breaks) == 2
    assert table.added == {(FILE, 4), (FILE, 5)}
    assert [row["line"] for row in truth["sites"]] == [2, 4, 5]
    assert truth["sites"][1]["text"] == "third = [str(y) for y in x if y > 1]"
