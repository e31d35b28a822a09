"""The wheel: it holds the catalogue and runs where there is no torch."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from pygraph_lint.rules.catalogue import load
from tests.lint.support import REPOSITORY, SYNCS

NEEDED = ("libcst", "pathspec", "platformdirs", "yaml", "tomli", "typing_extensions")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built."""
    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(REPOSITORY)).build(directory=str(folder), versions=["standard"])
    return Path(path)


def _read(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(ending))
        return archive.read(name).decode()


def test_what_the_wheel_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    pages = [name for name in names if name.startswith("pygraph_lint/rules/PG")]
    assert len(pages) == len(load())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pygraph_lint", "pygraph_rt"}
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_what_the_wheel_asks_for(wheel: Path) -> None:
    metadata = _read(wheel, "METADATA")
    asked = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    base = sorted(line.split()[1].partition(">")[0] for line in asked if "extra ==" not in line)
    assert base == ["libcst", "pathspec", "platformdirs", "tomli"]
    assert "Requires-Dist: torch>=2.11; extra == 'rt'" in asked
    points = _read(wheel, "entry_points.txt")
    assert "pygraph-lint = pygraph_lint.cli:main" in points
    assert "[torch_dynamo_backends]\npygraph = pygraph_rt.backend:pygraph" in points


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the wheel and its dependencies on the path, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            source = origin.parent if origin.name == "__init__.py" else origin
            (folder / source.name).symlink_to(source)
    return {"PYTHONPATH": str(folder), "HOME": str(folder), "PATH": os.environ["PATH"]}


def _run(
    arguments: list[str], environment: dict[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    # -S: no site-packages, so nothing is importable but what PYTHONPATH names.
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_linter_runs_without_torch(bare: dict[str, str], tmp_path: Path) -> None:
    assert _run(["-c", "import torch"], bare, tmp_path).returncode == 1
    rules = _run(["-m", "pygraph_lint", "rules"], bare, tmp_path)
    assert len(rules.stdout.splitlines()) == len(load()), rules.stderr
    (tmp_path / "model.py").write_text(SYNCS)
    checked = _run(["-m", "pygraph_lint", "model.py"], bare, tmp_path)
    assert checked.returncode == 1
    assert checked.stdout.startswith("model.py:6:16: PG201 ")
    fixed = _run(["-m", "pygraph_lint", "--fix", "--unsafe-fixes", "model.py"], bare, tmp_path)
    assert "Traceback" not in fixed.stderr


def test_the_runtime_says_in_one_sentence_what_is_missing(
    bare: dict[str, str], tmp_path: Path
) -> None:
    done = _run(["-c", "import pygraph_rt"], bare, tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ImportError: ")
    assert "PyTorch" in last
    assert "During handling of" not in done.stderr
