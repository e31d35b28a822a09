"""The recorder and the join together: what one writes the other reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pygraph_lint.cli import main
from tests.marks import LONG

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures" / "trace"

PROGRAM = """\
import sys
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("one")
        x = x * 2
        torch._dynamo.graph_break()
        return x - 3


torch.compile(Model(), backend="eager")(torch.ones(3))
sys.exit(4)
"""


@pytest.mark.parametrize("trace", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_the_committed_traces_are_read(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(trace, tmp_path)
    shutil.copy(trace.with_suffix(".py"), tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'sample'\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    main(["trace", "--join", trace.name, "--output-format", "json", "--output-file", "joined.json"])
    joined = json.loads((tmp_path / "joined.json").read_text("utf-8"))
    breaks = [place for place in joined["places"] if place["kind"] == "graph break"]
    assert breaks and {place["status"] for place in breaks} == {"confirmed"}
    assert not joined["changed"] and not joined["missing"]


def _trace(folder: Path, text: str) -> tuple[int, dict[str, Any]]:
    (folder / "program.py").write_text(text, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pygraph_lint", "trace", "--output-format", "json"]
    done = subprocess.run(
        [*command, "--output-file", "joined.json", "program.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    return done.returncode, json.loads((folder / "joined.json").read_text("utf-8"))


@LONG
def test_the_predicted_number_of_graphs_comes_true(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'sample'\n", "utf-8")
    code, joined = _trace(tmp_path, PROGRAM)
    assert code == 4
    assert joined["traces"][0]["graphs"] == 3
    statuses = {place["line"]: place["status"] for place in joined["places"]}
    assert statuses == {8: "confirmed", 10: statuses[10]}
    first, second = joined["fix_order"]
    assert (first["line"], first["known"], second["graphs"]) == (8, "exactly", 1)
    lines = PROGRAM.splitlines(keepends=True)
    _, after = _trace(tmp_path, "".join(lines[:7] + lines[8:]))
    assert after["traces"][0]["graphs"] == first["graphs"]
    _, clean = _trace(tmp_path, "".join(lines[:7] + lines[8:9] + lines[10:]))
    assert clean["traces"][0]["graphs"] == second["graphs"]
    assert clean["places"] == [] and clean["fix_order"] == []
