"""What the recorder writes keeps to the schema, and the committed examples do too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pygraph_rt

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "trace"
SCHEMA = json.loads((ROOT / "pygraph_rt" / "trace" / "trace.schema.json").read_text("utf-8"))


def check(trace: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(trace)


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.json")), ids=lambda f: f.stem)
def test_a_committed_trace_keeps_to_the_schema(file: Path) -> None:
    check(json.loads(file.read_text("utf-8")))


def test_a_new_trace_keeps_to_the_schema_and_shows_what_the_committed_one_shows(
    tmp_path: Path,
) -> None:
    out = tmp_path / "trace.json"
    program = FIXTURES / "small_model.py"
    command = [sys.executable, "-m", "pygraph_rt.trace", "--trace-file", str(out), str(program)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    new = json.loads(out.read_text("utf-8"))
    check(new)
    committed = json.loads((FIXTURES / "small_model.json").read_text("utf-8"))

    def shown(trace: dict[str, Any]) -> list[Any]:
        return [(e["kind"], e["line"], e["end_line"], e["count"]) for e in trace["events"]]

    if new["torch"].split("+")[0] == committed["torch"].split("+")[0]:
        assert shown(new) == shown(committed)
    breaks = [e for e in new["events"] if e["kind"] == "graph_break"]
    assert [(e["line"], e["frame_skipped"]) for e in breaks] == [
        (14, False),
        (16, False),
        (17, False),
        (24, True),
    ]
    assert all(e["file"] == str(program) for e in breaks)
    assert new["exit"] == {"kind": "finished", "code": 0, "error": None}


def test_the_module_can_be_called_and_is_not_imported_before() -> None:
    source = (
        "import sys, pygraph_rt\n"
        "assert not any(name.startswith('pygraph_rt.trace') for name in sys.modules)\n"
        "with pygraph_rt.trace() as t: pass\n"
        "assert 'nothing was compiled' in t.summary()\n"
        "with pygraph_rt.expect(allow_nothing=True): pass\n"
    )
    subprocess.run([sys.executable, "-c", source], cwd=ROOT, check=True)


def test_an_error_of_the_block_is_not_replaced_by_one_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    nowhere = tmp_path / "file" / "trace.json"
    with pytest.raises(ZeroDivisionError), pygraph_rt.trace(nowhere) as trace:
        1 / 0
    assert f"pygraph: {nowhere} cannot be written: " in capsys.readouterr().err
    assert "written to" not in trace.summary()
    with pytest.raises(OSError), pygraph_rt.trace(nowhere):
        pass


def test_a_summary_names_the_file_once_it_is_there(tmp_path: Path) -> None:
    with pygraph_rt.trace(tmp_path / "trace.json") as trace:
        assert "written to" not in trace.summary()
    assert trace.summary().endswith(f"written to {tmp_path / 'trace.json'}")
