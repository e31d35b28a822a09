"""``make bench-hook``: how long the pre-commit hook takes on staged files of a project of 3,000.

Files are taken at equal distances; ``--also`` names files that many others import, the worst case.
The project is a fresh git repository with the Python files of real packages. A few of its files are
changed and staged; `pre-commit run` then gives those to the hook. *Cold*: the linter's cache is
empty, as in a fresh clone or a CI job. *Warm*: the file has been changed once more since. The
hook's environment is installed before the clock starts, as pre-commit does that once.

CPU seconds are those of pre-commit and its children; wall time depends on what else runs.
Writes ``benchmarks/results/hook_speed.json`` (or ``--out FILE``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).parent / "results" / "hook_speed.json"
IDENTITY = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")


def git(folder: Path, *words: str) -> str:
    """What a git command in `folder` prints."""
    command = ["git", *IDENTITY, *words]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_project(folder: Path, packages: Sequence[Path], files: int) -> list[Path]:
    """A committed project with `files` Python files of the packages; which these are."""
    found = [(package, path) for package in packages for path in sorted(package.rglob("*.py"))]
    if len(found) < files:
        raise SystemExit(f"the packages hold {len(found)} Python files, {files} are needed")
    made = []
    for package, path in found[:files]:
        target = folder / path.relative_to(package.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        made.append(target)
    (folder / "pyproject.toml").write_text('[project]\nname = "project"\nversion = "1"\n')
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {ROOT}\n    rev: {git(ROOT, 'rev-parse', 'HEAD')}\n"
        "    hooks:\n      - id: pygraph-lint\n"
    )
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "project")
    return made


def spread_over(made: Sequence[Path], number: int) -> list[Path]:
    """Files with modules, at equal distances in the sorted list."""
    with_modules = [path for path in made if b"nn.Module" in path.read_bytes()]
    step = len(with_modules) / number
    return [with_modules[int(step * (i + 0.5))] for i in range(number)]


def touch(folder: Path, paths: Sequence[Path]) -> None:
    """Change the files by a line, and stage them."""
    for path in paths:
        path.write_bytes(path.read_bytes() + b"\n# changed\n")
    git(folder, "add", *(str(path) for path in paths))


def seconds(command: Sequence[str], folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """CPU (user and system, with children) and wall seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    wall = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout + done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": round(cpu, 2), "wall_s": round(wall, 2)}


def measure(folder: Path, staged: Sequence[Path]) -> dict[str, Any]:
    """One row: the hook on `staged` files, cold and warm, and beside it pre-commit alone."""
    pre_commit = [sys.executable, "-m", "pre_commit", "run", "pygraph-lint"]
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            "PYGRAPH_LINT_CACHE_DIR": cache,
            "PRE_COMMIT_HOME": str(folder.parent / "pre-commit"),
        }
        idle = seconds(pre_commit, folder, environment)  # nothing is staged: the hook is skipped
        touch(folder, staged)
        cold = seconds(pre_commit, folder, environment)
        touch(folder, staged)
        warm = seconds(pre_commit, folder, environment)
    git(folder, "reset", "-q", "--hard")
    names = [str(path.relative_to(folder)) for path in staged]
    return {"staged": names, "pre_commit_alone": idle, "cold": cold, "warm": warm}


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, nargs="+", required=True)
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--single", type=int, default=5, help="rows of one staged file")
    parser.add_argument("--also", nargs="*", default=[], help="more files to stage, one a row")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        folder.mkdir()
        made = make_project(folder, [path.resolve() for path in given.packages], given.files)
        environment = {**os.environ, "PRE_COMMIT_HOME": str(folder.parent / "pre-commit")}
        install = [sys.executable, "-m", "pre_commit", "install-hooks"]
        subprocess.run(install, cwd=folder, env=environment, check=True, capture_output=True)
        chosen = spread_over(made, given.single)
        rows = []
        also = [[folder / name] for name in given.also]
        for staged in [*([path] for path in chosen), chosen, *also]:
            rows.append(measure(folder, staged))
            print(json.dumps(rows[-1]), flush=True)
        lines = sum(path.read_bytes().count(b"\n") for path in made)
    result = {
        "commit": git(ROOT, "rev-parse", "--short", "HEAD"),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "packages": [path.name for path in given.packages],
        "files": given.files,
        "lines": lines,
        "rows": rows,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
