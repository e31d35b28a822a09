"""The reference agrees with the code: schemas, options, environment variables."""

from __future__ import annotations

import dataclasses
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pygraph_lint.report import FORMATS
from pygraph_lint.rules import catalogue
from tests.docs.pages import ROOT
from tests.rules import examples

REFERENCE = ROOT / "docs" / "reference"
_VARIABLE = re.compile(
    r'(?:environ\.get\(|environ\[|_VARIABLE[\w, ]* = |ENVIRONMENT = )"([A-Z_]+)"'
)


def _schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((REFERENCE / "schemas" / name).read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def test_findings_of_every_rule_fit_the_schema(tmp_path: Path) -> None:
    """The bad examples of the rule pages have findings of all kinds: fixes, regions, GB ids."""
    for rule in catalogue.load().values():
        for example in examples.of_rule(rule):
            if not example.good:
                (tmp_path / f"{example.name.replace('-', '_')}.py").write_text(example.text)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pygraph_lint",
            "check",
            "--preview",
            "--output-format",
            "json",
            ".",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PYGRAPH_LINT_CACHE_DIR": str(tmp_path / ".cache")},
        text=True,
        capture_output=True,
        check=False,
    )
    findings = json.loads(done.stdout)
    jsonschema.validate(findings, _schema("findings.schema.json"))
    assert len(findings) > 70
    assert any(finding["fix"] for finding in findings)
    assert any(finding["gb_id"] for finding in findings)


def test_the_schema_refuses_a_finding_with_a_wrong_key() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([{"code": "PG201"}], _schema("findings.schema.json"))


def test_reports_of_a_gpu_fit_the_schema() -> None:
    text = (ROOT / "benchmarks" / "results" / "selection.json").read_text("utf-8")
    rows = [row["regions"] for row in json.loads(text)["compared"] if "regions" in row]
    assert rows
    for regions in rows:
        jsonschema.validate({"regions": regions}, _schema("report.schema.json"))


def test_the_schema_of_the_report_has_every_field() -> None:
    pytest.importorskip("torch")
    from pygraph_rt.reports.report import Region

    properties = _schema("report.schema.json")["$defs"]["region"]["properties"]
    assert list(properties) == [field.name for field in dataclasses.fields(Region)]
    jsonschema.validate(
        {"regions": [dataclasses.asdict(Region("graph 0/0"))]}, _schema("report.schema.json")
    )


def test_every_format_is_described() -> None:
    page = (REFERENCE / "output-formats.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \| ", page, flags=re.MULTILINE)) >= set(FORMATS)


def test_every_key_of_a_finding_is_described() -> None:
    page = (REFERENCE / "output-formats.md").read_text("utf-8")
    for key in _schema("findings.schema.json")["$defs"]["finding"]["properties"]:
        assert f"`{key}`" in page, key


def test_options_of_the_backend_are_described_with_their_defaults() -> None:
    pytest.importorskip("torch")
    from pygraph_rt.options import Options

    page = (REFERENCE / "runtime.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \| ", page, flags=re.MULTILINE))
    defaults = {field.name: field.default for field in dataclasses.fields(Options)}
    assert {name: rows[name].strip('"') for name in defaults} == {
        name: str(value) for name, value in defaults.items()
    }


def test_every_environment_variable_is_described() -> None:
    found = set()
    for package in ("pygraph_lint", "pygraph_rt"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text("utf-8")
            if "environ" in text:
                found |= set(re.findall(r'"([A-Z][A-Z_]{2,})"', text)) & _asked_for(text)
    page = (REFERENCE / "environment.md").read_text("utf-8")
    described = set(re.findall(r"`([A-Z][A-Z_]+)`", page))
    assert "PYGRAPH_LINT_CACHE_DIR" in found
    assert found <= described, found - described


def _asked_for(text: str) -> set[str]:
    """Names that a module reads from the environment, by name or through a constant."""
    direct = set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', text))
    constants = re.findall(r'^([A-Z_, ]+) = ("[A-Z_]+"(?:, "[A-Z_]+")*)$', text, flags=re.MULTILINE)
    for names, values in constants:
        if any(f"get({name})" in text for name in names.split(", ")):
            direct |= set(re.findall(r'"([A-Z_]+)"', values))
    return direct


def test_commands_of_the_runtime_are_described(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    page = (REFERENCE / "runtime-commands.md").read_text("utf-8")
    commands = ("pygraph_rt doctor", "pygraph_rt report", "pygraph_rt plot", "pygraph_rt.trace")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert len(sections) == len(commands)
    monkeypatch.setenv("COLUMNS", "300")
    for section, command in zip(sections, commands, strict=True):
        assert section.startswith(f"python -m {command}")
        module, *words = command.split()
        monkeypatch.setattr(sys, "argv", [module, *words, "--help"])
        with pytest.raises(SystemExit):
            runpy.run_module(module, run_name="__main__")
        text = capsys.readouterr().out.replace("python -m", "")
        options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text)) - {"-h", "--help"}
        assert options == set(re.findall(r"`(--?[a-z][a-z-]*)", section)), command
