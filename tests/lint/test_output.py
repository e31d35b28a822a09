"""The report formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pygraph_lint.findings import Edit, Finding, Fix, Location, Region
from pygraph_lint.report import FORMATS, Report, render
from pygraph_lint.rules.catalogue import load
from tests.lint.support import BOTH, SYNCS, Lint

TEXT = "import torch\n\tn = x.sum().item()  # \u00e4\nm = (\n    y\n)\n"


def _report(path: Path, **changes: Any) -> Report:
    finding = Finding(
        code="PG201",
        name="item",
        message="`.item()` waits",
        filename=str(path),
        location=Location(2, 6),
        end_location=Location(2, 20),
        region=Region("m.Model.forward", ("Model.forward (nn.Module subclass)",)),
        evidence=("x is a tensor: annotated so",),
        consequences={"compile": "break", "fullgraph": "ok", "cudagraph": "ok", "sync": "yes"},
        **changes,
    )
    return Report([finding], load(), lambda path: TEXT)


FIX = Fix("safe", "keep the tensor", edits=(Edit("x", Location(2, 6), Location(2, 20)),))


def test_concise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a" / "m.py"
    assert render("concise", _report(path)) == "a/m.py:2:6: PG201 `.item()` waits\n"
    assert "PG201 [*] `.item()`" in render("concise", _report(path, fix=FIX))
    outside = Path("/elsewhere/m.py")
    assert render("concise", _report(outside)).startswith("/elsewhere/m.py:2:6: ")


def test_full_shows_line_evidence_consequences_and_fix(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    lines = render("full", _report(path, fix=FIX)).splitlines()
    assert lines[2] == "2 |     n = x.sum().item()  # \u00e4"
    # The marks stand below what they mark, however wide a tab is.
    marked = lines[3].index("^"), lines[3].rindex("^") + 1
    assert lines[2][slice(*marked)] == " x.sum().item()"[1:]
    text = "\n".join(lines)
    assert "region: Model.forward (nn.Module subclass)" in text
    assert "because: x is a tensor: annotated so" in text
    assert (
        "impact: graph break under torch.compile (with fullgraph=True it is no error: torch then "
        "keeps the value in the graph); the host waits for the device"
    ) in text
    assert "fix (--fix): keep the tensor" in text
    assert "more: pygraph-lint rule PG201" in text


def test_full_says_why_a_fix_is_unsafe_or_declined(tmp_path: Path) -> None:
    unsafe = Fix("unsafe", "drop it", "the text is lost", FIX.edits)
    declined = Fix("declined", "", "x may be a list")
    path = tmp_path / "m.py"
    text = render("full", _report(path, fix=unsafe))
    assert "fix (--fix --unsafe-fixes): drop it\n" in text
    assert "unsafe because: the text is lost\n" in text
    assert "fix: none available, because x may be a list\n" in render(
        "full", _report(path, fix=declined)
    )
    silent = replace(declined, reason="")
    assert "fix: none available" not in render("full", _report(path, fix=silent))


def test_json_has_ruffs_keys_and_ours(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    (found,) = json.loads(render("json", _report(path, fix=FIX)))
    assert found == {
        "code": "PG201",
        "name": "item",
        "message": "`.item()` waits",
        "filename": str(path),
        "cell": None,
        "location": {"row": 2, "column": 6},
        "end_location": {"row": 2, "column": 20},
        "fix": {
            "applicability": "safe",
            "message": "keep the tensor",
            "reason": None,
            "edits": [
                {
                    "content": "x",
                    "location": {"row": 2, "column": 6},
                    "end_location": {"row": 2, "column": 20},
                }
            ],
        },
        "fix_declined": None,
        "by_hand": load()["PG201"].by_hand,
        "url": load()["PG201"].url,
        "region": {
            "function": "m.Model.forward",
            "call_path": ["Model.forward (nn.Module subclass)"],
            "certain": False,
            "road": ["Model.forward (nn.Module subclass)"],
        },
        "evidence": ["x is a tensor: annotated so"],
        "only_if": [],
        "consequences": {"compile": "break", "fullgraph": "ok", "cudagraph": "ok", "sync": "yes"},
        "gb_type": None,
        "gb_id": None,
    }
    (found,) = json.loads(render("json", _report(path, fix=Fix("declined", "", "no"))))
    assert found["fix"] is None
    assert found["fix_declined"] == "no"


def test_github_escapes(tmp_path: Path) -> None:
    report = _report(tmp_path / "a,b:c.py")
    out = render("github", report)
    assert out.startswith("::error title=pygraph-lint (PG201),file=")
    assert "a%2Cb%3Ac.py,line=2,col=6,endLine=2,endColumn=20::" in out
    assert out.count("\n") == 1


def test_sarif_has_the_required_structure(tmp_path: Path) -> None:
    document = json.loads(render("sarif", _report(tmp_path / "a m.py", fix=FIX)))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "pygraph-lint"
    (rule,) = driver["rules"]
    (result,) = run["results"]
    assert rule["id"] == result["ruleId"] == driver["rules"][result["ruleIndex"]]["id"]
    assert rule["help"]["text"]
    assert result["level"] in ("none", "note", "warning", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].startswith("file:///")
    assert place["artifactLocation"]["uri"].endswith("a%20m.py")
    assert place["region"] == {"startLine": 2, "startColumn": 6, "endLine": 2, "endColumn": 20}
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "x"}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_from_the_command(lint: Lint, form: str) -> None:
    lint.write({"model.py": SYNCS})
    result = lint("--output-format", form, "model.py")
    assert result.code == 1
    assert "PG201" in result.out
    lint.write({"model.py": ""})
    empty = lint("--output-format", form, "model.py")
    assert empty.code == 0
    if form in ("json", "sarif", "gitlab", "rdjson"):
        json.loads(empty.out)


def test_json_lines(lint: Lint) -> None:
    lint.write({"model.py": BOTH})
    lines = lint("--output-format", "json-lines", "model.py").out.splitlines()
    as_one = lint("--output-format", "json", "model.py").json()
    assert [json.loads(line) for line in lines] == as_one


def test_grouped(lint: Lint) -> None:
    lint.write({"a.py": BOTH, "b.py": SYNCS})
    blocks = lint("--output-format", "grouped", ".").out.split("\n\n")
    first = blocks[0].splitlines()
    assert first[0] == "a.py:"
    assert first[1].startswith("  6:16  PG101 [*] ")
    assert first[2].startswith("  12:16 PG201 ")
    assert blocks[1].startswith("b.py:\n  6:16 PG201 ")


def test_gitlab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = _report(tmp_path / "m.py")
    twice = replace(report, findings=[*report.findings, *report.findings])
    first, second = json.loads(render("gitlab", twice))
    assert first["location"]["path"] == "m.py"
    assert first["location"]["positions"]["begin"] == {"line": 2, "column": 6}
    assert first["severity"] in ("info", "minor", "major", "critical", "blocker")
    # Equal findings must not be taken for one, and moving code must not make a new one.
    assert first["fingerprint"] != second["fingerprint"]
    moved = replace(report.findings[0], location=Location(9, 6))
    (again,) = json.loads(render("gitlab", replace(report, findings=[moved])))
    assert again["fingerprint"] == first["fingerprint"]


def test_junit(tmp_path: Path) -> None:
    report = _report(tmp_path / "m.py")
    broken = replace(report.findings[0], code="PG001", message="a\x00b <&>")
    text = render("junit", replace(report, findings=[*report.findings, broken]))
    root = ElementTree.fromstring(text)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "1")
    (suite,) = root
    failed, error = suite
    assert failed.find("failure") is not None
    said = error.find("error")
    assert said is not None
    assert said.get("message") == "a\N{REPLACEMENT CHARACTER}b <&>"
    empty = ElementTree.fromstring(render("junit", replace(report, findings=[])))
    assert (empty.get("tests"), empty.get("failures")) == ("1", "0")


def test_rdjson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads(render("rdjson", _report(tmp_path / "m.py", fix=FIX)))
    (found,) = document["diagnostics"]
    place = {"start": {"line": 2, "column": 6}, "end": {"line": 2, "column": 20}}
    assert found["location"] == {"path": "m.py", "range": place}
    assert found["severity"] in ("ERROR", "WARNING", "INFO")
    assert found["suggestions"] == [{"range": place, "text": "x"}]


def test_columns_of_rdjson_count_bytes(lint: Lint) -> None:
    lint.write({"model.py": SYNCS.replace("x.abs()", "x.mul(len('é☃'))")})
    (row,) = lint("--output-format", "concise", "model.py").lines
    (found,) = json.loads(lint("--output-format", "rdjson", "model.py").out)["diagnostics"]
    place = found["location"]["range"]
    assert place["start"]["column"] == int(row.split(":")[2])  # nothing before it
    assert place["end"]["column"] == len("        peak = x.mul(len('--')).max().item()") + 1 + 3


@pytest.mark.parametrize(("variable", "shown"), [("FORCE_COLOR", True), ("NO_COLOR", False)])
def test_color(lint: Lint, monkeypatch: pytest.MonkeyPatch, variable: str, shown: bool) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv(variable, "1")
    lint.write({"model.py": SYNCS})
    for form in ("concise", "full", "grouped"):
        assert ("\x1b[" in lint("--output-format", form, "model.py").out) is shown
    assert "\x1b[" not in lint("--output-format", "json", "model.py").out


def test_no_color_in_a_file_or_a_pipe(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    lint.write({"model.py": SYNCS})
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert "\x1b[" not in lint("model.py").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    lint("--output-file", "report.txt", "model.py")
    assert "\x1b[" not in lint.read("report.txt")


def test_json_from_the_command_says_where_and_why(lint: Lint) -> None:
    lint.write({"model.py": BOTH})
    fixable, sync = lint("--output-format", "json", "model.py").json()
    assert fixable["filename"] == str(lint.folder / "model.py")
    assert fixable["fix"]["applicability"] == "safe"
    row = fixable["location"]["row"]
    (edit,) = fixable["fix"]["edits"]
    assert edit["location"]["row"] == row == 6
    assert "device" in edit["content"]
    assert sync["fix"] is None
    assert any("Other.forward" in step for step in sync["region"]["call_path"])
    assert sync["evidence"]
    assert sync["consequences"]["sync"] == "yes"
    cached = lint("--output-format", "json", "model.py").json()
    assert cached == [fixable, sync]


def test_output_file_and_quiet(lint: Lint) -> None:
    lint.write({"model.py": SYNCS})
    result = lint("-q", "--output-file", "report.txt", "model.py")
    assert (result.out, result.err) == ("", "")
    assert (lint.folder / "report.txt").read_text() == "".join(
        f"{line}\n" for line in lint("model.py").lines
    )
    wrong = lint("--output-file", "no/such/folder.txt", "model.py")
    assert wrong.code == 2
    assert "cannot be written" in wrong.err


def test_a_message_names_the_function_that_is_called(lint: Lint) -> None:
    calls = "return x * abs(cmath.sqrt(x.sum())) * math.sqrt(x.sum())\n"
    model = "import cmath, math, torch\n\n\nclass M(torch.nn.Module):\n"
    lint.write({"m.py": f"{model}    def forward(self, x: torch.Tensor):\n        {calls}"})
    said = lint("m.py").out
    assert "`cmath.sqrt()` reads" in said
    assert "`math.sqrt()` reads" in said


def test_azure_and_pylint(lint: Lint) -> None:
    lint.write({"a;b].py": SYNCS})
    azure = lint("--output-format", "azure", ".").out.splitlines()[0]
    place = "sourcepath=a%3Bb%5D.py;linenumber=6;columnnumber=16;code=PG201;"
    assert azure.startswith(f"##vso[task.logissue type=error;{place}]`")
    pylint = lint("--output-format", "pylint", ".").out.splitlines()[0]
    assert pylint.startswith("a;b].py:6: [PG201] `")


def test_color_as_the_command_line_says(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    lint.write({"model.py": SYNCS})
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in lint("--color", "always", "model.py").out
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" not in lint("--color", "never", "model.py").out
