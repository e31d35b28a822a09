"""``make bench-lint-incremental``: what an edit in an editor costs, and whether its findings are
those of a fresh check.

Edits are drawn over the files of an installed package with a fixed seed: a tensor's value is read,
a branch or a print is put in or taken out, a parameter is renamed, a base class changes. Each is
given to an ``OpenProject`` that holds the file and some that import it. What is measured is the CPU
time of ``update`` in this process. Every n-th edit is compared with a check of a new process-wide
state over the same texts (``--compare-every``).

Writes ``benchmarks/results/lint_incremental.json`` (or ``--out FILE``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lint_speed import package_folder, processor, version
from pygraph_lint.findings import Finding
from pygraph_lint.project.open_project import OpenProject
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load

RESULTS = Path(__file__).parent / "results" / "lint_incremental.json"
LEAF_LINES = 3000
_FORWARD = re.compile(r"^( +)def forward\(\s*self,\s*(\w+)[^)]*\)[^:]*:\n", re.MULTILINE)
_BASE = re.compile(r"^class (\w+)\((\w+)\):\n", re.MULTILINE)


class Edit(NamedTuple):
    """A new text of a file."""

    kind: str
    text: str


def edits(text: str, random_: random.Random) -> Iterator[Edit]:
    """Some edits of a file, each of the text that the one before left."""
    found = list(_FORWARD.finditer(text))
    if not found:
        return
    at = random_.choice(found)
    indent, name = at[1] + "    ", at[2]
    for kind, line in (
        ("read", f"{indent}limit = {name}.sum().item()\n"),
        ("branch", f"{indent}if {name}.sum() > 0:\n{indent}    print({name})\n"),
        ("unfinished", f"{indent}if {name}.sum(\n"),
    ):
        yield Edit(kind, text[: at.end()] + line + text[at.end() :])
    yield Edit("taken out", text)
    bases = list(_BASE.finditer(text))
    if bases:
        base = random_.choice(bases)
        start, end = base.span(2)
        yield Edit("base", f"{text[:start]}object{text[end:]}")
        yield Edit("base back", text)


def rows(findings: list[Finding]) -> list[str]:
    """Findings in a form that can be compared."""
    return [repr(each) for each in findings]


def fresh(path: Path, texts: dict[Path, str]) -> list[str]:
    """The findings of a check that knows nothing, with some texts changed."""
    runner = Runner(load(), {})
    runner.replace_content({each: text.encode() for each, text in texts.items()})
    return rows(runner.check([path]))


class Session:
    """One project under edits: times, and what was compared."""

    def __init__(self, compare_every: int) -> None:
        self.project = OpenProject(load())
        self.compare_every = compare_every
        self.shown: dict[Path, list[Finding]] = {}  # the files that are held, and their findings
        self.timed: list[dict[str, Any]] = []
        self.compared = 0
        self.different: list[str] = []

    def run(self, path: Path, seed: int) -> None:
        """Open a file, make its edits, close it."""
        text = path.read_text()
        self.shown[path] = []
        self._update(path, text)
        for edit in edits(text, random.Random(seed)):
            before = time.process_time()
            given = self._update(path, edit.text)
            spent = time.process_time() - before
            self.timed.append(
                {
                    "file": path.name,
                    "lines": text.count("\n"),
                    "kind": edit.kind,
                    "milliseconds": round(1000 * spent, 1),
                    "files_given": len(given),
                }
            )
            if len(self.timed) % self.compare_every == 0:
                self._compare(path, edit.text, given)
        self.project.take(path, None)
        del self.shown[path]

    def _update(self, path: Path, text: str) -> dict[Path, list[Finding]]:
        """Take a text; gives the findings of its file, and those of others that are new."""
        self.project.take(path, text)
        order = sorted(self.shown, key=lambda each: each != path)
        now = {each: self.project.findings(each) for each in order}
        found = {each: new for each, new in now.items() if each == path or new != self.shown[each]}
        self.shown.update(found)
        return found

    def _compare(self, path: Path, text: str, given: dict[Path, list[Finding]]) -> None:
        for each, findings in given.items():
            self.compared += 1
            if rows(findings) != fresh(each, {path: text}):
                self.different.append(f"{each.name} after an edit of {path.name}")


def drawn(package: Path, number: int, seed: int) -> tuple[list[Path], list[Path]]:
    """Leaf files of about ``LEAF_LINES`` lines, and others that files import."""
    files = sorted(package.rglob("modeling_*.py"))
    by_size = sorted(files, key=lambda path: abs(path.read_bytes().count(b"\n") - LEAF_LINES))
    others = random.Random(seed).sample(files, min(number, len(files)))
    return by_size[:number], others


def summary(timed: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians and extremes of some edits, milliseconds of CPU time."""
    spent = sorted(each["milliseconds"] for each in timed)
    return {
        "edits": len(spent),
        "median_ms": round(statistics.median(spent), 1),
        "p90_ms": spent[int(0.9 * (len(spent) - 1))],
        "largest_ms": spent[-1],
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", default="transformers")
    parser.add_argument("--files", type=int, default=10, help="of each group")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare-every", type=int, default=6, metavar="N")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    leaves, others = drawn(package_folder(options.package), options.files, options.seed)
    session = Session(options.compare_every)
    for number, path in enumerate((*leaves, *others)):
        print(f"{path.name} ...", file=sys.stderr, flush=True)
        session.run(path, options.seed + number)
    names = {path.name for path in leaves}
    large = [each for each in session.timed if each["file"] in names]
    report = {
        "package": {"name": options.package, "version": version(options.package)},
        "wanted": {"leaves.median_ms": "<= 150", "different": 0},
        "leaves": {
            "lines": [min(each["lines"] for each in large), max(each["lines"] for each in large)],
            **summary(large),
        },
        "drawn": summary([each for each in session.timed if each["file"] not in names]),
        "compared": session.compared,
        "different": session.different,
        "memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "machine": {
            "python": platform.python_version(),
            "processor": processor(),
            "cores": os.cpu_count(),
            "load_average": [round(load, 2) for load in os.getloadavg()],
        },
        "edits": session.timed,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({key: report[key] for key in ("leaves", "drawn", "compared", "different")}))


if __name__ == "__main__":
    main()
