"""``make bench-lint-one-file``: one file of a large project, with nothing cached: what it costs
beside the whole project, and whether its findings are its slice of the whole run.

Files are drawn among the modelling files with a fixed seed; hubs are files that others name in
their imports most often. Each is checked in a fork of one process that has only imported the
linter; what counts is the CPU time of that fork. Findings are compared with everything they say.

Writes ``benchmarks/results/lint_one_file.json`` (or ``--out FILE``).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.lint_speed import package_folder, processor, version
from pygraph_lint.analysis import extract, link
from pygraph_lint.files import modules
from pygraph_lint.findings import Finding
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules import reporter
from pygraph_lint.rules.catalogue import Rule, load

RESULTS = Path(__file__).parent / "results" / "lint_one_file.json"
# Imported here, so that no fork pays for it.
LOADED = (extract, link, reporter)


def row(finding: Finding) -> list[str]:
    """All that a finding says, in a form that can be compared."""
    return [finding.filename, *map(repr, (finding, finding.view))]


def timed_check(rules: dict[str, Rule], given: list[str]) -> tuple[float, list[list[str]]]:
    """CPU seconds and findings of a check that knows nothing."""
    before = time.process_time()
    runner = Runner(rules, {})
    found = runner.check(runner.collect(given))
    return time.process_time() - before, [row(finding) for finding in found]


def in_fork(rules: dict[str, Rule], given: list[str]) -> tuple[float, list[list[str]]]:
    """``timed_check`` in a process of its own."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(timed_check, (rules, given))


def hubs(package: Path, number: int) -> list[Path]:
    """The files that most files name in their imports, packages left out."""
    named: Counter[bytes] = Counter()
    paths: dict[bytes, Path] = {}
    for path in sorted(package.rglob("*.py")):
        named.update(modules.imported_words(path.read_bytes()))
        paths.setdefault(modules.last_name(str(path)), path)
    found = [paths[word] for word, _ in named.most_common() if word in paths]
    return [path for path in found if path.name != "__init__.py"][:number]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The whole run, then each file."""
    rules = load()
    package = package_folder(options.package)
    modelling = sorted(package.rglob("modeling_*.py"))
    drawn = random.Random(options.seed).sample(modelling, min(options.files, len(modelling)))
    whole_seconds, whole = in_fork(rules, [str(package)])
    rows: list[dict[str, Any]] = []
    for kind, paths in (("drawn", drawn), ("hub", hubs(package, options.hubs))):
        for path in paths:
            print(f"{path.name} ...", file=sys.stderr, flush=True)
            seconds, found = in_fork(rules, [str(path)])
            rows.append(
                {
                    "file": str(path.relative_to(package)),
                    "kind": kind,
                    "share_of_whole": round(seconds / whole_seconds, 4),
                    "findings": len(found),
                    "same": found == [each for each in whole if each[0] == str(path)],
                }
            )
    return {"whole_cpu_seconds": round(whole_seconds, 2), "files": rows}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares and differences of some files."""
    shares = [each["share_of_whole"] for each in rows]
    return {
        "files": len(rows),
        "median_share": round(statistics.median(shares), 4) if shares else None,
        "largest_share": max(shares, default=None),
        "different": [each["file"] for each in rows if not each["same"]],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", default="transformers")
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--hubs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    measured = measure(options)
    report = {
        "package": {"name": options.package, "version": version(options.package)},
        "wanted": {"drawn.median_share": "<= 0.06", "drawn.largest_share": "<= 0.12"},
        "drawn": summary([each for each in measured["files"] if each["kind"] == "drawn"]),
        "hubs": summary([each for each in measured["files"] if each["kind"] == "hub"]),
        **measured,
        "machine": {
            "python": platform.python_version(),
            "processor": processor(),
            "cores": os.cpu_count(),
            "load_average": [round(load, 2) for load in os.getloadavg()],
        },
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({key: report[key] for key in ("whole_cpu_seconds", "drawn", "hubs")}))


if __name__ == "__main__":
    main()
