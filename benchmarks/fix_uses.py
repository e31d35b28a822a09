"""How often each rewrite is used, over the source of many packages.

    python benchmarks/fix_uses.py --packages FOLDER --out benchmarks/results/fix_uses.json

FOLDER holds one folder a package, named ``NAME-VERSION``. For each rewrite: how many findings it
was asked about, which precondition declined how many, how many it offered to fix, and how many the
fix loop made, safe and unsafe, with the packages these are in. Two packages count as one code base
for a rewrite where the files it changes there have eight lines in common.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pygraph_lint.findings import Finding, Fix
from pygraph_lint.fixes.engine import file_fixes, loop
from pygraph_lint.project.runner import ALWAYS, Runner, by_file
from pygraph_lint.rules.catalogue import load

SHINGLE = 8


@dataclass
class Uses:
    """What one rewrite did."""

    asked: int = 0
    declined: Counter[str] = field(default_factory=Counter)
    offered: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    files: dict[str, set[Path]] = field(default_factory=lambda: defaultdict(set))

    def asdict(self, bases: list[str]) -> dict[str, Any]:
        """As JSON shows it; ``bases`` are the packages of unrelated code bases with fixes."""
        return {
            "asked": self.asked,
            "offered": dict(self.offered),
            "made": dict(self.made),
            "unrelated_code_bases": len(bases),
            "code_bases": bases,
            "declined": dict(self.declined.most_common()),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, smallest packages first, and write the result after each of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--regions", choices=["forward", "all"], default="forward")
    parser.add_argument("--unpack", type=Path, help="unpack these wheels there, and do no more")
    given = parser.parse_args(arguments)
    if given.unpack is not None:
        unpack(given.unpack, given.packages)
        return 0
    if given.out is None:
        parser.error("--out is needed")
    uses: dict[str, Uses] = {rewrite.name: Uses() for rewrite in file_fixes.REWRITES}
    packages: dict[str, dict[str, int]] = {}
    folders = [path for path in given.packages.iterdir() if path.is_dir()]
    for folder in sorted(folders, key=lambda path: (len([*path.rglob("*.py")]), path.name)):
        packages[folder.name] = count_package(folder, uses, given.regions)
        print(folder.name, packages[folder.name], file=sys.stderr, flush=True)
        result = _result(given.regions, packages, uses)
        given.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _result(
    regions: str, packages: dict[str, dict[str, int]], uses: dict[str, Uses]
) -> dict[str, Any]:
    """What was counted so far."""
    return {
        "what": "fixes by rewrite; unsafe ones made as well; default rules",
        "regions": regions,
        "packages": packages,
        "rewrites": {
            name: one.asdict(unrelated(one.files))
            for name, one in sorted(uses.items(), key=lambda item: -sum(item[1].made.values()))
        },
        "near_misses": near_misses(uses),
    }


def unpack(wheels: Path, packages: Path) -> None:
    """Put the Python files of each wheel into a folder of its own."""
    for wheel in sorted(wheels.glob("*.whl")):
        folder = packages / "-".join(wheel.name.split("-")[:2])
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".py")]
            archive.extractall(folder, names)


def count_package(folder: Path, uses: dict[str, Uses], regions: str) -> dict[str, int]:
    """Add what the rewrites do in one package; its findings and fixes."""
    overrides = {"regions": regions}
    jobs = os.cpu_count() or 1
    runner = Runner(rules=load(), overrides=overrides, config=empty_settings(), jobs=jobs)
    files = runner.collect([str(folder)])
    found = [finding for finding in runner.check(files) if finding.code not in ALWAYS]
    for path, group in by_file(found).items():
        for fixes in file_fixes.answers(runner.source(path).text, group):
            note_answers(uses, fixes)
    made = loop.fix_files(runner, files, unsafe=True).applied
    for finding, fix in made:
        note_made(uses, folder.name, finding, fix)
    return {
        "files": len(files),
        "findings": len(found),
        "safe": sum(fix.applicability == "safe" for _, fix in made),
        "unsafe": sum(fix.applicability == "unsafe" for _, fix in made),
    }


def empty_settings() -> Path:
    """A settings file that says nothing, so that a package's own settings are not read."""
    path = Path(tempfile.gettempdir()) / "fix_uses.toml"
    path.write_text("")
    return path


def note_answers(uses: dict[str, Uses], fixes: Sequence[Fix]) -> None:
    """Count what each rewrite says about one finding."""
    for fix in fixes:
        one = uses[fix.rewrite]
        one.asked += 1
        if fix.applicability == "declined":
            one.declined[fix.condition or "(not its pattern)"] += 1
        else:
            one.offered[fix.applicability] += 1


def note_made(uses: dict[str, Uses], package: str, finding: Finding, fix: Fix) -> None:
    """Count one fix that stayed."""
    one = uses[fix.rewrite]
    one.made[fix.applicability] += 1
    one.files[package].add(Path(finding.filename))


def near_misses(uses: dict[str, Uses]) -> list[dict[str, Any]]:
    """The preconditions that decline most."""
    rows = [
        (count, name, condition)
        for name, one in uses.items()
        for condition, count in one.declined.items()
        if not condition.startswith("(")
    ]
    return [
        {"rewrite": name, "condition": condition, "declined": count}
        for count, name, condition in sorted(rows, reverse=True)[:40]
    ]


# --- unrelated code bases -----------------------------------------------------------------------


def unrelated(files: dict[str, set[Path]]) -> list[str]:
    """Packages in which a file is changed that has no eight lines in common with a changed file of
    a package named before it; those with most files first.
    """
    seen: set[int] = set()
    bases: list[str] = []
    for package, paths in sorted(files.items(), key=lambda item: (-len(item[1]), item[0])):
        marks = [set(shingles(path.read_text("utf-8", "replace"))) for path in paths]
        if any(not (mark & seen) for mark in marks):
            bases.append(package)
        seen.update(*marks)
    return bases


def shingles(text: str) -> Iterator[int]:
    """Hashes of each eight lines that follow each other, without comments, imports, blank lines."""
    lines = [
        line
        for raw in text.splitlines()
        if len(line := raw.strip()) > 1 and not line.startswith(("#", "import ", "from "))
    ]
    for start in range(max(len(lines) - SHINGLE + 1, 1)):
        yield hash(tuple(lines[start : start + SHINGLE]))


if __name__ == "__main__":
    sys.exit(main())
