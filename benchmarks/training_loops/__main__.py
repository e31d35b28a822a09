"""Score the linter on marked training loops.

Steps: fetch (packages that are not there yet), score (run the linter by its command line, join
its findings with the marks); both by default.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.training_loops.fetch import FetchError, fetch
from benchmarks.training_loops.marks import (
    GROUPS,
    OWN_LOOPS,
    Loop,
    MarksError,
    Part,
    load,
    read_checked,
    source_of,
)
from benchmarks.training_loops.score import Finding, judge, listing, read_findings, score, table

ROOT = Path(__file__).resolve().parents[2]


def _linter(files: Sequence[Path], cwd: Path, options: Sequence[str]) -> list[Finding]:
    """The linter's findings on some files. Raises RuntimeError with its message if it fails."""
    command = [sys.executable, "-m", "pygraph_lint", "check", "--output-format", "json"]
    command += ["--no-respect-gitignore", "--exclude", "nothing", "--no-cache"]
    command += [*options, *(str(file) for file in files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the linter ended with {done.returncode}: {done.stderr[-2000:]}")
    return read_findings(json.loads(done.stdout))


def _findings(
    loops: Sequence[Loop], packages: Path, options: Sequence[str], whole: bool
) -> list[Finding]:
    """One run of the linter for each package, and one for the loops of this repository."""
    projects: dict[Path, set[Path]] = {}
    for loop in loops:
        folder = packages / loop.package.folder if loop.package else OWN_LOOPS
        files = {source_of(loop, part, packages) for part in loop.parts}
        projects.setdefault(folder, set()).update(files)
    found = []
    for folder, files in projects.items():
        rows = _linter([folder] if whole else sorted(files), folder, options)
        print(f"{folder.name}: {len(rows)} findings", file=sys.stderr, flush=True)
        found += rows
    return found


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _environment(loops: Sequence[Loop]) -> dict[str, object]:
    packages = {loop.package for loop in loops if loop.package is not None}
    return {
        "python": platform.python_version(),
        "pygraph_lint": metadata.version("pygraph-lint"),
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "-uno").splitlines()),
        "packages": {package.name: package.version for package in sorted(packages, key=str)},
    }


def _score(arguments: argparse.Namespace, loops: Sequence[Loop]) -> None:
    packages: Path = arguments.folder

    def read(loop: Loop, part: Part) -> tuple[str, str]:
        path = source_of(loop, part, packages)
        return str(path), read_checked(path, part)

    for loop in loops:  # before the linter runs for minutes
        for part in loop.parts:
            read(loop, part)
    options = shlex.split(arguments.options)
    findings = _findings(loops, packages, options, arguments.whole)
    result = score(loops, judge(loops, findings, arguments.codes, read))
    result = {
        "environment": _environment(loops),
        "codes": arguments.codes,
        "options": arguments.options,
        **result,
    }
    if not arguments.only and not arguments.groups:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    if arguments.list:
        print(listing(result))


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", nargs="?", choices=("all", "fetch", "score"), default="all")
    parser.add_argument("--codes", default="PG7", help="prefixes of the codes that count, by comma")
    parser.add_argument("--options", default="", help="more options for the linter, in one string")
    parser.add_argument("--whole", action="store_true", help="give the linter whole packages")
    parser.add_argument("--list", action="store_true", help="misses and wrong findings")
    parser.add_argument("--only", nargs="*", default=[], help="packages (or own); writes no result")
    parser.add_argument("--groups", nargs="*", choices=GROUPS, help="these; writes no result")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-loops" / "packages")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results" / "training_loops.json"
    )
    arguments = parser.parse_args()
    try:
        loops = load()
        if arguments.only:
            names = set(arguments.only)
            loops = [x for x in loops if (x.package.name if x.package else "own") in names]
        if arguments.groups:
            loops = [loop for loop in loops if loop.half in arguments.groups]
        if arguments.step != "score":
            fetch({loop.package: None for loop in loops if loop.package}, arguments.folder)
        if arguments.step != "fetch":
            _score(arguments, loops)
    except (MarksError, FetchError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
