"""The two wheels: each holds its own files, and the linter runs where there is no torch."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from pygraph_lint import __version__
from pygraph_lint.rules.catalogue import load
from tests.lint.support import REPOSITORY, SYNCS

NEEDED = ("libcst", "pathspec", "platformdirs", "shtab", "yaml", "tomli", "typing_extensions")


RUNTIME = REPOSITORY / "packaging" / "rt"


def _build(project: Path, folder: Path) -> Path:
    (path,) = WheelBuilder(str(project)).build(directory=str(folder), versions=["standard"])
    return Path(path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The linter's wheel."""
    return _build(REPOSITORY, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime's wheel."""
    return _build(RUNTIME, tmp_path_factory.mktemp("runtime"))


def _names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def _read(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(ending))
        return archive.read(name).decode()


def _asked(wheel: Path) -> list[str]:
    """The packages that a wheel needs, extras aside."""
    prefix = "Requires-Dist: "
    lines = [line for line in _read(wheel, "METADATA").splitlines() if line.startswith(prefix)]
    needed = [line.removeprefix(prefix) for line in lines if "extra ==" not in line]
    return sorted(line.partition(">")[0] for line in needed)


@pytest.mark.parametrize("name", ["wheel", "runtime"])
def test_a_wheel_holds_its_own_package(name: str, request: pytest.FixtureRequest) -> None:
    names = _names(request.getfixturevalue(name))
    package = {"wheel": "pygraph_lint", "runtime": "pygraph_rt"}[name]
    tops = {name.split("/")[0] for name in names}
    # pytest imports a plugin in every run: a module beside the package imports no torch.
    plugin = {"pytest_pygraph.py"} if package == "pygraph_rt" else set()
    assert {top for top in tops if not top.endswith(".dist-info")} == {package} | plugin
    assert f"{package}/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert not any("__pycache__" in name for name in names)


def test_the_linters_wheel(wheel: Path) -> None:
    pages = [name for name in _names(wheel) if name.startswith("pygraph_lint/rules/PG")]
    assert len(pages) == len(load())
    assert _asked(wheel) == ["libcst", "pathspec", "platformdirs", "shtab", "tomli"]
    assert "pygraph-lint = pygraph_lint.cli:command" in _read(wheel, "entry_points.txt")


def test_the_runtimes_wheel(runtime: Path) -> None:
    tracked = {
        path.relative_to(REPOSITORY).as_posix()
        for path in (REPOSITORY / "pygraph_rt").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert tracked <= set(_names(runtime))
    assert _asked(runtime) == ["numpy", "torch"]
    points = _read(runtime, "entry_points.txt")
    assert "[torch_dynamo_backends]\npygraph = pygraph_rt.backend:pygraph" in points
    version = re.search(
        r'__version__ = "(.+)"', (REPOSITORY / "pygraph_rt/__init__.py").read_text()
    )
    assert version is not None
    assert f"\nVersion: {version[1]}\n" in _read(runtime, "METADATA")
    assert version[1] == __version__
    assert (RUNTIME / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()


@pytest.mark.parametrize("name", ["wheel", "runtime"])
def test_the_description_reads_well_on_a_package_index(
    name: str, request: pytest.FixtureRequest
) -> None:
    metadata = _read(request.getfixturevalue(name), "METADATA")
    assert not re.findall(r"\]\((?!https://)", metadata), "relative links lead nowhere there"


@pytest.fixture(scope="module")
def bare(wheel: Path, runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with both wheels and the linter's dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    for path in (wheel, runtime):
        with zipfile.ZipFile(path) as archive:
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
