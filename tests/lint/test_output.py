"""The report formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pygraph_lint.files.settings import FORMATS
from pygraph_lint.findings import Edit, Finding, Fix, Location, Region
from pygraph_lint.report import render
from pygraph_lint.report.report import Report
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


def test_full_shows_line_evidence_consequences_and_mend(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    lines = render("full", _report(path, fix=FIX)).splitlines()
    assert lines[2] == "2 |     n = x.sum().item()  # \u00e4"
    # The marks stand below what they mark, however wide a tab is.
    marked = lines[3].index("^"), lines[3].rindex("^") + 1
    assert lines[2][slice(*marked)] == " x.sum().item()"[1:]
    text = "\n".join(lines)
    assert "region: Model.forward (nn.Module subclass)" in text
    assert "because: x is a tensor: annotated so" in text
    assert "follows: graph break under torch.compile; the host waits for the device" in text
    assert "mend (--fix): keep the tensor" in text
    assert "more: pygraph-lint rule PG201" in text


def test_full_says_why_a_fix_is_unsafe_or_declined(tmp_path: Path) -> None:
    unsafe = Fix("unsafe", "drop it", "the text is lost", FIX.edits)
    declined = Fix("declined", "", "x may be a list")
    path = tmp_path / "m.py"
    text = render("full", _report(path, fix=unsafe))
    assert "mend (--fix --unsafe-fixes): drop it\n" in text
    assert "unsafe because: the text is lost\n" in text
    assert "mend: no rewrite here, x may be a list\n" in render("full", _report(path, fix=declined))
    silent = replace(declined, reason="")
    assert "mend: no rewrite here\n" in render("full", _report(path, fix=silent))


def test_json_has_ruffs_keys_and_ours(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    (found,) = json.loads(render("json", _report(path, fix=FIX)))
    assert found == {
        "code": "PG201",
        "name": "item",
        "message": "`.item()` waits",
        "filename": str(path),
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
        "url": load()["PG201"].url,
        "region": {
            "function": "m.Model.forward",
            "road": ["Model.forward (nn.Module subclass)"],
            "certain": False,
        },
        "evidence": ["x is a tensor: annotated so"],
        "consequences": {"compile": "break", "fullgraph": "ok", "cudagraph": "ok", "sync": "yes"},
    }
    (found,) = json.loads(render("json", _report(path, fix=Fix("declined", "", "no"))))
    assert found["fix"] is None


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
    if form in ("json", "sarif"):
        json.loads(empty.out)


def test_json_from_the_command_says_where_and_why(lint: Lint) -> None:
    lint.write({"model.py": BOTH})
    mendable, sync = lint("--output-format", "json", "model.py").json()
    assert mendable["filename"] == str(lint.folder / "model.py")
    assert mendable["fix"]["applicability"] == "safe"
    row = mendable["location"]["row"]
    (edit,) = mendable["fix"]["edits"]
    assert edit["location"]["row"] == row == 6
    assert "device" in edit["content"]
    assert sync["fix"] is None
    assert any("Other.forward" in step for step in sync["region"]["road"])
    assert sync["evidence"]
    assert sync["consequences"]["sync"] == "yes"
    cached = lint("--output-format", "json", "model.py").json()
    assert cached == [mendable, sync]


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
