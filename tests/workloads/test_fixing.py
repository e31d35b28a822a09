"""Workloads measured with the sources that the linter fixed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.workloads import fixing, overlay

ROOT = Path(__file__).parents[2]
MODEL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3).to(x.device)
"""
ASK = """\
import sys
from pathlib import Path

from benchmarks.workloads import overlay

overlay.install(Path(sys.argv[1]))
import torchvision.model as model, torchvision.other as other

print(model.__file__, other.__file__)
"""


def _package(folder: Path) -> Path:
    package = folder / "site" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text(MODEL)
    (package / "other.py").write_text("value = 1\n")
    return package


def _ask(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ASK, str(folder)],
        env={"PYTHONPATH": f"{site}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_changed_files_stand_in_for_those_they_were_made_from(tmp_path: Path) -> None:
    package = _package(tmp_path)
    fixed = tmp_path / "fixed"
    assert fixing.main([str(fixed), "--packages", str(package.parent)]) == 0
    assert "torch.ones(3, device=x.device)" in (fixed / "torchvision/model.py").read_text()
    assert not (fixed / "torchvision/other.py").exists()
    manifest = json.loads((fixed / overlay.MANIFEST).read_text())
    assert manifest["told"]["torchvision"] == "Fixed 1 finding. All checks passed."
    answer = _ask(fixed, package.parent)
    assert answer.stdout.split() == [str(fixed / "torchvision/model.py"), str(package / "other.py")]

    (package / "model.py").write_text(MODEL + "\n# another version\n")
    assert "is not the version that fixed was made from" in _ask(fixed, package.parent).stderr


def test_a_folder_in_use_or_without_a_manifest_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert fixing.main([str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    with pytest.raises(overlay.OverlayError, match="has no readable"):
        overlay.install(tmp_path)
