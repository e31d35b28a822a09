"""``make bench-fix-cost``: what ``--fix`` costs beside ``check``, over a whole package.

Each way is one process without a cache over a fresh copy of the package, in memory where there is
such a folder. What counts is its CPU time: user and system, start included. A pass of fixing looks
at all files and tries fixes in some of them, once and again until nothing is left to do there; its
lines are those of the files it tried, each counted once. Beside that the time of one file, alone in
a folder: of the files that got one fix in the package, the one nearest to 3,000 lines. Alone it may
get others, as its package says less.

Writes ``benchmarks/results/fix_cost.json`` (or ``--out FILE``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.lint_speed import RESULTS as SPEED
from benchmarks.lint_speed import Timing, run, version

RESULTS = SPEED.with_name("fix_cost.json")
ROOT = Path(__file__).parents[1]
MEMORY = Path("/dev/shm")
WAYS = {"check": [], "safe": ["--fix"], "unsafe": ["--fix", "--unsafe-fixes"]}
OPTIONS = ["--no-cache", "--jobs", "1", "--exit-zero", "--quiet", "--isolated"]
OPTIONS += ["--no-respect-gitignore", "--exclude", "nothing"]
WANTED = {
    "ms_per_line_and_pass": "<= 0.5",
    "passes": "<= 4",
    "one_file.wall_seconds": "<= 1.5",
}
FILE_LINES, FILE_ROUNDS = 3000, 7


def recorded(out: Path, arguments: Sequence[str]) -> int:
    """Run the command line in this process; write what each pass tried and the number of fixes of
    each file to ``out``.
    """
    from pygraph_lint import cli
    from pygraph_lint.fixes.engine import loop

    original = loop.fix_files

    def fix_files(*given: Any) -> loop.Fixed:
        fixed = original(*given)
        lines = {str(path): data.count(b"\n") for path, data in fixed.before.items()}
        made = Counter(finding.filename for finding, _ in fixed.applied)
        tried = [list(map(str, paths)) for paths in fixed.passes]
        record = {"passes": tried, "tries": fixed.tries, "lines": lines, "fixes": made}
        out.write_text(json.dumps(record))
        return fixed

    loop.fix_files = fix_files
    sys.argv[1:] = arguments
    return cli.command()


def timed(way: str, target: Path, record: Path | None = None) -> Timing:
    """One process over a file or folder."""
    call = ["-m", "benchmarks.fix_cost", "--record", str(record), "--"]
    if record is None:
        call = ["-m", "pygraph_lint"]
    command = [sys.executable, *call, "check", str(target), *WAYS[way], *OPTIONS]
    return run(command, ROOT)


def passes_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Files and lines of each pass, and how many files each of its tries took."""
    lines = record["lines"]
    return [
        {"files": len(paths), "lines": sum(lines.get(path, 0) for path in paths), "tries": tries}
        for paths, tries in zip(record["passes"], record["tries"], strict=True)
    ]


def measure_way(way: str, package: Path, work: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """CPU seconds of one way to look at a package; and its record, for a way that fixes."""
    copy = work / way / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    record = work / f"{way}.json" if WAYS[way] else None
    timing = timed(way, copy, record)
    shutil.rmtree(copy.parent)
    row: dict[str, Any] = {"cpu_seconds": round(timing.cpu, 1)}
    row["memory_mib"] = round(timing.memory)
    if record is None:
        return row, {}
    seen = json.loads(record.read_text())
    row["fixes"] = sum(seen["fixes"].values())
    row["changed_files"] = len(seen["lines"])
    row["changed_lines"] = sum(seen["lines"].values())
    row["passes"] = passes_of(seen)
    return row, seen


def compared(row: dict[str, Any], check: dict[str, Any]) -> None:
    """Add what fixing costs more than a check."""
    row["times_check"] = round(row["cpu_seconds"] / check["cpu_seconds"], 2)
    lines = sum(each["lines"] for each in row["passes"])
    more = row["cpu_seconds"] - check["cpu_seconds"]
    row["ms_per_line_and_pass"] = round(1000 * more / lines, 3) if lines else None


def measure_file(package: Path, seen: dict[str, dict[str, Any]], work: Path) -> dict[str, Any]:
    """Wall and CPU seconds of one file with one fix, alone in a folder."""
    single = [
        (abs(record["lines"][path] - FILE_LINES), way, path)
        for way, record in seen.items()
        for path, made in record["fixes"].items()
        if made == 1
    ]
    _, way, path = min(single)
    name = Path(path).relative_to(work / way / package.name)
    timings = []
    for _ in range(FILE_ROUNDS):
        copy = work / "one" / name.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(package / name, copy)
        timings.append(timed(way, copy))
    return {
        "file": name.as_posix(),
        "fix": way,
        "lines": seen[way]["lines"][path],
        "wall_seconds": round(statistics.median(each.wall for each in timings), 2),
        "cpu_seconds": round(statistics.median(each.cpu for each in timings), 2),
        "wall_seconds_of_rounds": [round(each.wall, 2) for each in timings],
    }


def measure(package: Path, work: Path) -> dict[str, Any]:
    """All ways over the package, and one file."""
    result: dict[str, Any] = {"package": package.parent.name, "wanted": WANTED, "ways": {}}
    seen: dict[str, dict[str, Any]] = {}
    for way in WAYS:
        row, record = measure_way(way, package, work)
        if record:
            seen[way] = record
            compared(row, result["ways"]["check"])
        result["ways"][way] = row
        print(way, row, flush=True)
    result["one_file"] = measure_file(package, seen, work)
    print(result["one_file"], flush=True)
    return result


def environment() -> dict[str, Any]:
    """What the figures are of."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "libcst": version("libcst"),
        "pygraph-lint": version("pygraph-lint"),
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, help="the folder of a package's source")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.record is not None:
        return recorded(given.record, given.command)
    memory = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as work:
        result = {"environment": environment(), **measure(given.package, Path(work))}
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
