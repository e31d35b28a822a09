"""``python -m benchmarks.workloads.fixing FOLDER``: the workloads' sources, fixed.

Copies each package that a workload takes its model from, and the workloads themselves, runs
``pygraph-lint --fix`` over the copies, and keeps the files that changed, with a manifest of what
they replace. ``benchmarks.workloads.run --sources FOLDER`` measures with them. Needs the linter
and the packages (or ``--packages``, a folder that holds their sources), not torch.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.workloads import overlay

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("transformers", "timm", "torchvision")
_OWN = "benchmarks/workloads/zoo"


def make(target: Path, packages: Path | None, unsafe: bool) -> dict[str, Any]:
    """Fills ``target`` with fixed files and returns the manifest. Raises ``RuntimeError`` if the
    linter fails.
    """
    with tempfile.TemporaryDirectory(prefix="fixing-") as folder:
        copy = Path(folder)
        versions = {name: _copy(name, packages, copy) for name in _PACKAGES}
        shutil.copytree(_ROOT / _OWN, copy / _OWN, ignore=shutil.ignore_patterns("__pycache__"))
        before = {path: overlay.digest(path) for path in copy.rglob("*.py")}
        told = {name: _fix(copy, place, unsafe) for name, place in _places(copy).items()}
        files = {}
        for path, original in before.items():
            if overlay.digest(path) == original:
                continue
            name = path.relative_to(copy)
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
            files[name.as_posix()] = {"original": original}
    manifest = {
        "linter": importlib.metadata.version("pygraph-lint"),
        "fixes": "safe and unsafe" if unsafe else "safe",
        "versions": versions,
        "told": told,
        "files": dict(sorted(files.items())),
    }
    (target / overlay.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def _places(copy: Path) -> dict[str, Path]:
    places = {name: copy / name for name in _PACKAGES if (copy / name).is_dir()}
    return {**places, "workloads": copy / _OWN}


def _copy(name: str, packages: Path | None, target: Path) -> str | None:
    """Copies a package's Python files; its version, None where it is not there."""
    if packages is None:
        found = importlib.util.find_spec(name)
        source = Path(found.origin).parent if found is not None and found.origin else None
    else:
        source = packages / name
    if source is None or not source.is_dir():
        return None
    others = shutil.ignore_patterns("__pycache__", "*.so", "*.pyi", "*.json", "*.cu", "*.cpp")
    shutil.copytree(source, target / name, ignore=others)
    where = [str(source.parent)]
    distributions = importlib.metadata.Distribution.discover(name=name, path=where)
    return next((distribution.version for distribution in distributions), None)


def _fix(copy: Path, place: Path, unsafe: bool) -> str:
    """Runs the linter over one folder; what it says of it at the end."""
    command = [sys.executable, "-m", "pygraph_lint", "check", "--fix", "--exit-zero"]
    command += ["--no-cache", *(["--unsafe-fixes"] if unsafe else []), str(place.relative_to(copy))]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    told = done.stderr.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-400:]}")
    return " ".join([*told[-1:], lines[-1]])


def main(arguments: list[str] | None = None) -> int:
    """Makes the folder and says what is in it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workloads.fixing")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", type=Path, help="folder of the packages' sources")
    parser.add_argument("--unsafe-fixes", action="store_true")
    given = parser.parse_args(arguments)
    if given.folder.exists() and any(given.folder.iterdir()):
        print(f"{given.folder} is not empty", file=sys.stderr)
        return 2
    given.folder.mkdir(parents=True, exist_ok=True)
    manifest = make(given.folder, given.packages, given.unsafe_fixes)
    for name, line in manifest["told"].items():
        print(f"{name} {manifest['versions'].get(name, '')}: {line}")
    print(f"{len(manifest['files'])} files in {given.folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
