"""The scripts of docs/how-to/distributed.md, on two CPU processes under torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pygraph_rt.__main__ import main
from pygraph_rt.reports.report import Report

distributed = pytest.importorskip("torch.distributed")
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "fixtures" / "distributed"
NAMES = ["ddp", "fsdp2", "tensor_parallel"]


def reports(name: str, folder: Path, arguments: list[str]) -> list[Report]:
    """The reports of both ranks, after a script has ended well."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "REPORTS": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, str(FOLDER / f"{name}.py"), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "loss " in done.stdout
    return [Report.from_json((folder / f"rank{n}.json").read_text()) for n in range(2)]


def test_the_guide_names_all_scripts() -> None:
    text = (ROOT / "docs" / "how-to" / "distributed.md").read_text("utf-8")
    assert {path.stem for path in FOLDER.glob("*.py")} == {*NAMES, "common"}
    assert all(f"fixtures/distributed/{name}.py" in text for name in NAMES)


@pytest.mark.skipif(
    not distributed.is_available() or os.environ.get("PYGRAPH_DISTRIBUTED") != "all",
    reason="make test-distributed runs it",
)
@pytest.mark.parametrize("name", NAMES)
def test_a_script_runs_on_two_ranks_and_they_report_the_same(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = reports(name, tmp_path, ["4"])
    assert all(report.regions for report in found)
    assert main(["report", str(tmp_path / "rank0.json"), str(tmp_path / "rank1.json")]) == 0
    assert "no region differs between them" in capsys.readouterr().out
