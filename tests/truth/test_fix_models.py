"""The benchmark of fixed copies: what counts as equal, as a break, as removed and as stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.fix_models import causes, own_tests, tables
from benchmarks.fix_models.compare import difference, gap, same
from benchmarks.fix_models.copies import count_changes
from benchmarks.fix_models.models import GRAPHMEND, NAMES
from benchmarks.fix_models.records import digest, named, own_breaks, read
from benchmarks.fix_models.summary import left_over, rows, share, sums, verdict
from benchmarks.lint_truth.catalogue_transformers import entries
from pygraph_lint.findings import Finding, Fix, Location

NAN = float("nan")


def at(file: str, line: int, kind: str = "Data-dependent branching") -> dict[str, Any]:
    return {"file": file, "line": line, "kind": kind}


def record(*breaks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"breaks": list(breaks), "compiled_error": None, **more}


def after(*breaks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return record(*breaks, **{"equal": {}, "random_state_equal": True, **more})


class TestCompare:
    @pytest.mark.parametrize(
        ("one", "two", "equal"),
        [
            (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), True),
            (torch.tensor([1.0]), torch.tensor([1.0 + 2**-23]), False),
            (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
            (torch.tensor([1.0]), torch.tensor([[1.0]]), False),
            (torch.tensor([True]), torch.tensor([False]), False),
            (torch.tensor([], dtype=torch.int64), torch.tensor([], dtype=torch.int64), True),
        ],
    )
    def test_same(self, one: torch.Tensor, two: torch.Tensor, equal: bool) -> None:
        assert same(one, two) is equal

    def test_gap_is_the_largest_one_and_infinite_between_shapes(self) -> None:
        assert gap(torch.tensor([1.0, 2.0]), torch.tensor([1.5, -2.0])) == 4.0
        assert gap(torch.zeros(2), torch.zeros(3)) == float("inf")
        assert gap(torch.tensor([True]), torch.tensor([False])) == 1.0

    def test_equal_sets_say_no_more_than_that(self) -> None:
        assert difference({"a": torch.ones(2)}, {"a": torch.ones(2)}) == {"equal": True}

    def test_names_that_come_and_go_are_a_difference(self) -> None:
        found = difference({"a": torch.ones(2)}, {"b": torch.ones(2)})
        assert (found["equal"], found["missing"], found["added"]) == (False, ["a"], ["b"])

    def test_what_differs_is_named_with_the_largest_gap(self) -> None:
        old = {"a": torch.ones(2), "b": torch.zeros(1)}
        found = difference(old, {"a": torch.ones(2), "b": torch.tensor([0.25])})
        assert (found["differ"], found["count"], found["largest"]) == (["b"], 1, 0.25)


class TestRecords:
    def test_the_latest_record_of_a_model_counts(self, tmp_path: Path) -> None:
        lines = [{"model": "A", "mode": "eval", "seconds": n} for n in (1, 2)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / "records.jsonl").write_text(text)
        assert read(tmp_path)["A", "eval"]["seconds"] == 2
        assert read(tmp_path / "none") == {}

    def test_a_killed_job_keeps_its_name(self) -> None:
        found = named({"error": "ran out of time"}, "A:train")
        assert (found["model"], found["mode"]) == ("A", "train")

    def test_consequences_of_other_breaks_are_not_counted(self) -> None:
        found = record(at("f.py", 1), at("f.py", 2, "graph break in loop: Missing tp_iternext"))
        assert [one["line"] for one in own_breaks(found)] == [1]

    def test_a_digest_follows_the_contents(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("x = 1\n")
        (tmp_path / "b.py").write_text("y = 1\n")
        first = digest(tmp_path, ["a.py"])
        assert digest(tmp_path, ["a.py"]) == first != digest(tmp_path, ["b.py"])


class TestSummary:
    def test_breaks_are_counted_each_time_and_by_line(self) -> None:
        found = verdict(record(), after(at("f.py", 1), at("f.py", 1), at("f.py", 2)))
        assert found == {"breaks": {"events": 3, "sites": 2}}

    def test_a_model_that_does_not_run_any_more_has_stopped(self) -> None:
        assert verdict(record(), {"error": "TypeError"}) == {"stopped": "TypeError"}
        found = verdict(record(), after(compiled_error="TypeError"))
        assert found["stopped"] == "compiled: TypeError"

    def test_one_that_never_ran_compiled_has_not_stopped(self) -> None:
        found = verdict(record(compiled_error="TypeError"), after(compiled_error="TypeError"))
        assert "stopped" not in found

    def test_only_what_ran_and_broke_has_a_row(self) -> None:
        before = {
            ("A", "eval"): record(at("a.py", 1)),
            ("B", "eval"): record(),
            ("C", "eval"): {"error": "no"},
        }
        found = rows({"before": before, "safe": {}}, {}, {})
        assert [row["model"] for row in found] == ["A"]

    def test_lines_changed_are_those_of_files_the_model_imports(self) -> None:
        key = ("A", "eval")
        copies = {"before": {key: record(at("a.py", 1))}, "safe": {key: after()}}
        changed = {"safe": {"a.py": [2, 1], "other.py": [9, 9]}}
        (row,) = rows(copies, {key: ["a.py"]}, changed)
        assert row["safe"]["lines_changed"] == [2, 1]

    def test_sums(self) -> None:
        line = at("a.py", 1)
        moved = {"outputs": {"equal": False}}
        copies = {
            "before": {(name, "train"): record(line, line) for name in "ABCD"},
            "unsafe": {
                ("A", "train"): after(),
                ("B", "train"): after(line, equal=moved),
                ("C", "train"): after(equal=moved, random_state_equal=False),
                ("D", "train"): {"error": "NameError"},
            },
        }
        table = rows(copies, dict.fromkeys(copies["before"], ()), {"unsafe": {}})
        found = sums(table, "train", "unsafe")
        assert found["models"] == 4
        assert found["events"] == {"before": 6, "after": 1, "removed": 0.833}
        assert found["models_without_breaks"] == 2
        assert found["differ"] == ["B"]
        assert found["differ_with_random_stream"] == ["C"]
        assert found["stopped"] == ["D"]

    def test_the_share_of_nothing_is_unknown(self) -> None:
        assert share(0, 0) is None
        assert share(4, 5) == -0.25

    def test_what_is_left_is_listed_by_line_with_its_models(self) -> None:
        found = left_over(
            {
                ("A", "eval"): record(at("f.py", 1), at("f.py", 1), at("f.py", 9)),
                ("B", "eval"): record(at("f.py", 1, "other")),
                ("C", "eval"): {"error": "no"},
            }
        )
        assert [(site["line"], site["events"]) for site in found] == [(1, 3), (9, 1)]
        assert found[0]["in"] == {"A:eval": 2, "B:eval": 1}
        assert found[0]["kinds"] == ["Data-dependent branching", "other"]


class TestCauses:
    def finding(self, first: int, last: int, fix: Fix | None) -> Finding:
        start, end = Location(first, 1), Location(last, 5)
        return Finding("PG301", "tensor-branch", "", "f.py", start, end, fix=fix)

    def test_the_finding_that_covers_the_line_gives_the_cause(self) -> None:
        known = {"f.py": [self.finding(3, 5, Fix("declined", "", "no shape"))]}
        assert causes.cause(at("f.py", 4), known) == "PG301 tensor-branch: declined, no shape"
        assert causes.cause(at("f.py", 6), known) == causes.NOT_REPORTED

    def test_without_a_rewrite(self) -> None:
        known = {"f.py": [self.finding(3, 3, None)]}
        assert causes.cause(at("f.py", 3), known) == "PG301 tensor-branch: no rewrite"
        known = {"f.py": [self.finding(3, 3, Fix("declined", "", ""))]}
        assert causes.cause(at("f.py", 3), known) == "PG301 tensor-branch: no rewrite"

    def test_causes_are_summed(self) -> None:
        sites = [
            {"cause": "a", "events": 2},
            {"cause": "b", "events": 9},
            {"cause": "a", "events": 1},
        ]
        found = causes.by_cause(sites)
        assert list(found.items()) == [
            ("b", {"events": 9, "lines": 1}),
            ("a", {"events": 3, "lines": 2}),
        ]


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [("a\nb\n", "a\nb\n", [0, 0]), ("a\nb\n", "a\nc\nd\n", [2, 1]), ("--x\n", "y\n", [1, 1])],
)
def test_changed_lines(old: str, new: str, changes: list[int]) -> None:
    assert count_changes(old, new) == changes


def test_every_model_is_in_the_catalogue_once() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) <= {entry.name for entry in entries()}


def test_a_test_that_passed_has_to_pass_again() -> None:
    before = {"T.a": "passed", "T.b": "passed", "T.c": "failed", "T.d": "passed", "T.e": "skipped"}
    safe = {"T.a": "passed", "T.b": "failed", "T.c": "passed", "T.d": "skipped"}
    found = own_tests.compared({"before": before, "safe": safe, "unsafe": before})
    assert found["passed_before"] == 3
    assert found["no_longer_pass"] == {"safe": ["T.b", "T.d"], "unsafe": []}
    assert found["outcomes"]["safe"] == {"passed": 2, "failed": 1, "skipped": 1}


def test_models_of_other_lists_are_in_the_catalogue() -> None:
    assert {*GRAPHMEND, *own_tests.MODELS} <= {entry.name for entry in entries()}


@pytest.mark.parametrize("prefix", tables.RESULTS)
def test_the_document_has_the_tables_of_the_results(prefix: str) -> None:
    text = tables.DOCUMENT.read_text("utf-8")
    result = json.loads(tables.RESULTS[prefix].read_text("utf-8"))
    assert f"<!-- {prefix}sums -->" in text
    assert tables.filled(text, prefix, result) == text
    other = {**result, "sums": {mode: {} for mode in result["sums"]}}
    assert tables.filled(text, prefix, other) != text


def test_the_document_says_what_became_of_the_packages_own_tests() -> None:
    path = tables.ROOT / "benchmarks" / "results" / "fix_models_own_tests.json"
    result = json.loads(path.read_text("utf-8"))
    assert result["no_longer_pass"] == {"safe": [], "unsafe": []}
    text = tables.DOCUMENT.read_text("utf-8")
    failed = {counts["failed"] for counts in result["outcomes"].values()}
    assert f"{result['passed_before']} tests pass before the fixes" in text
    assert f"{failed.pop()} fail in each" in text and not failed
