"""The truth on packages of other authors: halves, table, totals of the held-out half, programs."""

from __future__ import annotations

import ast
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lint_truth.findings import Finding
from benchmarks.lint_truth_packages import __main__, catalogue
from benchmarks.lint_truth_packages.lint import Linter, LinterError
from benchmarks.lint_truth_packages.page import packages_section
from benchmarks.lint_truth_packages.scoring import listing, score, summary_table
from benchmarks.lint_truth_packages.table import truth_table

ROOT = Path(__file__).resolve().parents[2]
DRIVERS = ROOT / "benchmarks" / "lint_truth_packages" / "drivers"
SEEN = "torchdiffeq/solve.py"  # of the develop half
UNSEEN = "xitorch/secret.py"  # of the held-out half


def record(stage: str, result: Any, model: str = "torchdiffeq.a") -> dict[str, Any]:
    return {"model": model, "mode": "run", "stage": stage, "result": result}


def a_break(file: str, line: int, kind: str) -> dict[str, Any]:
    return {"file": file, "line": line, "inner": f"{file}:{line}", "kind": kind, "callers": []}


def event(kind: str, file: str, line: int) -> dict[str, Any]:
    return {"kind": kind, "what": "item", "file": file, "line": line, "callers": []}


def records() -> list[dict[str, Any]]:
    ran = {SEEN: [1, 2, 3, 4], UNSEEN: [1, 2, 3, 4]}
    below = {SEEN: [1], UNSEEN: [1]}
    lines = {"lines": ran, "in_modules": below}
    events = [event("sync", SEEN, 1), event("sync", UNSEEN, 2), event("dynamic_shape", UNSEEN, 2)]
    breaks = [a_break(SEEN, 2, "graph break in loop: Known"), a_break(UNSEEN, 1, "New")]
    traced = {"breaks": breaks, "skipped_frames": [], "traced": ran, "graphs": 1, "error": None}
    return [
        record("lines", lines),
        record("ghost", []),
        record("ghost_compiling", {"events": events, **lines}),
        record("trace", traced),
        {"label": "xitorch.b:trace", "error": "ran out of time"},
    ]


SOURCES = {SEEN: "a()\nb()\nc()\nd()\n", UNSEEN: "secret()\n" * 4}


def made_of(rows: list[dict[str, Any]], ids: dict[str, str]) -> dict[str, Any]:
    return truth_table(rows, {"torchdiffeq.a", "xitorch.b"}, SOURCES.get, ids)


def table() -> dict[str, Any]:
    return made_of(records(), {"Known": "GB0001"})


def finding(file: str, line: int, **flags: bool) -> Finding:
    known = {"breaks": False, "errors": False, "syncs": False, "not_capturable": False}
    return Finding(file, line, "PG201", "secret message", preview=False, **known | flags)


def result() -> dict[str, Any]:
    found = [
        finding(SEEN, 1, syncs=True),
        finding(SEEN, 3, breaks=True),
        finding(UNSEEN, 2, syncs=True),
        finding(UNSEEN, 3, breaks=True),
    ]
    return score(table(), found, lambda file, line: line, lambda file, line: f"text {line}")


def test_each_package_has_one_half_for_ever() -> None:
    # A change of the hash would mix what was developed on with what was not.
    assert catalogue.half_of_package("torchdiffeq") == "develop"
    assert catalogue.half_of_package("xitorch") == "held-out"
    assert catalogue.half_of_file("pytorch_metric_learning/losses/base.py") == "develop"
    assert {catalogue.half_of_package(name) for name in catalogue.PACKAGES} == {
        "develop",
        "held-out",
    }
    with pytest.raises(KeyError):
        catalogue.half_of_file("elsewhere/a.py")


def test_table_names_programs_breaks_and_the_path() -> None:
    made = table()
    assert made["programs"]["torchdiffeq.a"]["half"] == "develop"
    assert made["programs"]["xitorch.b"]["errors"] == {"trace": "ran out of time"}
    sites = {(site["file"], site["line"]): site for site in made["sites"]}
    known, new = (sites[place]["kinds"]["break"]["gb"] for place in ((SEEN, 2), (UNSEEN, 1)))
    assert known == [{"gb_type": "Known", "gb_id": "GB0001"}]
    assert new == [{"gb_type": "New", "gb_id": ""}]
    assert made["in_modules"] == {SEEN: "1", UNSEEN: "1"}


def test_sites_of_the_held_out_half_have_no_source_text() -> None:
    made = table()
    assert all(("text" in site) == (site["file"] == SEEN) for site in made["sites"])
    assert "secret()" not in json.dumps(made)


def test_a_new_measurement_replaces_the_old_one() -> None:
    failed = {"label": "torchdiffeq.a:trace", "error": "ran out of time"}
    made = made_of([failed, *records()], {})
    assert "errors" not in made["programs"]["torchdiffeq.a"]
    traced = {"breaks": [], "skipped_frames": [], "traced": {}, "graphs": 1}
    made = made_of([*records(), record("trace", traced)], {})
    assert not any("break" in site["kinds"] for site in made["sites"])


def test_records_of_programs_that_are_gone_do_not_count() -> None:
    assert truth_table(records(), {"xitorch.b"}, SOURCES.get, {})["sites"] == []


def test_totals_of_both_halves() -> None:
    scored = result()
    develop, held_out = scored["develop"], scored["held-out"]
    assert (develop["all"]["syncs"]["found"], develop["all"]["syncs"]["sites"]) == (1, 1)
    assert (develop["all"]["breaks"]["found"], develop["all"]["breaks"]["sites"]) == (0, 1)
    assert develop["through_modules"]["syncs"]["sites"] == 1
    assert develop["through_functions"]["breaks"]["sites"] == 1
    assert held_out["all"]["dynamic_shapes"]["found"] == 1
    assert held_out["all"]["precision"]["right"] == held_out["all"]["precision"]["wrong"] == 1
    assert scored["both"]["all"]["syncs"]["found"] == 2


def test_only_totals_of_the_held_out_half_leave_the_scoring() -> None:
    scored = result()
    assert set(scored["held-out"]) == {"all", "through_modules", "through_functions"}
    texts = json.dumps(scored) + listing(scored["develop"]) + summary_table(scored)
    assert UNSEEN not in texts
    assert UNSEEN.partition("/")[0] not in texts


def test_the_section_of_the_page() -> None:
    scored = result()
    run = {"linter": "abc1234", "options": "--regions compiled"}
    environment = {"programs": 2, "torch": "2.13", "packages": {"torchdiffeq": "1", "xitorch": "2"}}
    text = "\n".join(
        packages_section(
            {
                "environment": environment,
                "runs": {"current": {**run, "annotated": scored, "stripped": scored}},
            }
        )
    )
    assert "2 small programs over 2 packages" in text
    assert "- develop: torchdiffeq 1\n- held-out: xitorch 2" in text
    assert "The linter at abc1234 with `--regions compiled`:" in text
    assert "| graph breaks found | 0 of 1, 0.0 % | 0 of 1, 0.0 % |" in text
    assert "| synchronising statements found | 1 of 1, 100.0 % | 1 of 1, 100.0 % |" in text
    assert "| findings that are right, through plain functions | 0 of 1, 0.0 % | 1 of 2" in text
    assert UNSEEN not in text


def test_every_miss_and_alarm_of_the_develop_half_is_listed() -> None:
    lines = listing(result()["develop"]).splitlines()
    assert len(lines) == 2
    assert "missed breaks" in lines[0]
    assert f"{SEEN}:2 (functions) b() | break: graph break in loop: Known" in lines[0]
    assert lines[1].startswith(f"false_alarms PG201 {SEEN}:3 text 3")


def test_an_option_that_the_linter_does_not_know_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text("import torch\n")
    folder = str(tmp_path / "package")
    assert Linter(ROOT).check(folder) == []
    with pytest.raises(LinterError, match="--no-such-option"):
        Linter(ROOT, ("--no-such-option",)).check(folder)


def test_a_score_without_some_of_the_packages_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they miss would count as if the linter had missed it."""
    monkeypatch.setattr(__main__.packages, "package_roots", dict)
    given = Namespace(truth=tmp_path, linter=ROOT, options="")
    with pytest.raises(LinterError, match="not installed: asteroid-filterbanks, "):
        __main__._score(given)


def _functions(path: Path) -> list[str]:
    return [
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]


@pytest.mark.parametrize("name", sorted(catalogue.PACKAGES))
def test_each_package_is_pinned_and_has_programs(name: str) -> None:
    requirements = (ROOT / "benchmarks" / "lint_truth_packages" / "requirements.txt").read_text()
    assert f"\n{name}==" in requirements
    assert len(_functions(DRIVERS / f"{catalogue.PACKAGES[name]}.py")) >= 8


def test_no_driver_is_left_out() -> None:
    files = {path.stem for path in DRIVERS.glob("*.py")} - {"__init__"}
    assert files == set(catalogue.PACKAGES.values())
