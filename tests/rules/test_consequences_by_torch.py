"""The recorded Dynamo runs of the rule pages' bad examples, and how they are put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.rule_consequences import merged, row_of, version_of
from tests.rules.examples import Example
from tests.rules.observe import Observed, Report, report_of

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
MESSAGE = """Graph break in user code at /tmp/x.py:6
Graph Break Reason: Data-dependent branching
  Explanation: Detected data-dependent branching.

 For more details about this graph break, please visit: https://example.org/site/gb/gb0170.html
"""
CALLED = """Graph Break Reason: Encountered graph break when attempting to trace CALL: f(x, y):

Dynamic shape operator
  Explanation: The operator's output shape depends on input data.
"""


def _example(**changed: Any) -> Example:
    facts: dict[str, Any] = {
        "code": "PG999",
        "good": False,
        "number": 1,
        "text": "x = 1\ny = 2\n",
        "marks": {2: ("PG999",)},
        "claims": {"compile": "break", "fullgraph": "error"},
        "not_run": "",
    }
    return Example(**{**facts, **changed})


def test_version() -> None:
    assert version_of("2.15.0+cu132") == "2.15"


def test_report_has_type_and_id() -> None:
    assert report_of(6, MESSAGE) == Report(6, "Data-dependent branching", "GB0170")
    assert report_of(3, CALLED) == Report(3, "Dynamic shape operator", "")
    assert report_of(3, "ValueError: no") == Report(3, "", "")


def test_only_a_break_on_a_marked_line_is_the_examples_own() -> None:
    report = Report(1, "Dynamic shape operator", "GB0036")
    elsewhere = Observed((1,), (), 2, "", (report,))
    row = row_of(_example(), elsewhere)
    assert row["breaks"] is False
    assert row["reports"] == [{"line": 1, "gb_type": "Dynamic shape operator", "gb_id": "GB0036"}]
    failing = Observed((2,), (), 2, "Unsupported: no", (), Report(0, "Kind", "GB0001"))
    row = row_of(_example(), failing)
    assert row["breaks"] is True
    assert (row["fullgraph"], row["fullgraph_gb_id"]) == ("error", "GB0001")


def test_a_version_replaces_its_own_rows_and_changed_examples_start_anew() -> None:
    old = merged({}, "2.11", {"torch": "2.11.0"}, {"A": ({"digest": "1"}, {"breaks": True})})
    same = merged(old, "2.12", {"torch": "2.12.0"}, {"A": ({"digest": "1"}, {"breaks": False})})
    assert same["examples"]["A"]["torch"] == {"2.11": {"breaks": True}, "2.12": {"breaks": False}}
    assert list(same["environments"]) == ["2.11", "2.12"]
    changed = merged(same, "2.12", {}, {"A": ({"digest": "2"}, {"breaks": False})})
    assert changed["examples"]["A"]["torch"] == {"2.12": {"breaks": False}}
    gone = merged(same, "2.12", {}, {"B": ({"digest": "3"}, None)})
    assert gone["examples"] == {"B": {"digest": "3", "torch": {}}}


def test_committed_runs_cover_every_version() -> None:
    table = json.loads((RESULTS / "rule_consequences_by_torch.json").read_text())
    versions = ["2.11", "2.12", "2.13", "2.14", "2.15"]
    assert list(table["environments"]) == versions
    ran = [each for each in table["examples"].values() if "not_run" not in each]
    assert ran
    for example in ran:
        assert list(example["torch"]) == versions
        assert all("trouble" in row or "breaks" in row for row in example["torch"].values())
