"""Packages' own test suites before and after fixes: what passed has to pass.

    python benchmarks/fix_suites.py --folder FOLDER [--only PACKAGE ...]

FOLDER holds the source distributions, `NAME-VERSION.tar.gz`. Of each there are four copies: as it
is, and with safe fixes, with the safe fixes of `assume-closed`, and with unsafe fixes. All
functions that get tensors are checked (`--regions all`), tests are not. A test that fails only
after a fix is run again on both copies, and counts if it still does. Beside that: how many of the
changed lines the suite executes; a decorator counts where its function is. Goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from pygraph_lint import runner as runs
from pygraph_lint.fixes import loop
from pygraph_lint.rules.catalogue import load

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "fix_suites.json"
BEFORE = "before"
#: Copy -> whether unsafe fixes are made, and whether the checked code is all there is.
VARIANTS = {"safe": (False, False), "closed": (False, True), "unsafe": (True, False)}
_TEST_S, _SUITE_S = 60, 1800


class Suite(NamedTuple):
    """A distribution's folder, the package in it, the tests that are run, and the folder that the
    package is in.
    """

    distribution: str
    package: str
    tests: tuple[str, ...]
    inside: str = "."

    def code(self, where: Path) -> Path:
        """The package's folder in a copy."""
        return where / self.inside / self.package


SUITES = (
    Suite("gpytorch-1.15.2", "gpytorch", ("test",)),
    Suite("linear_operator-0.6.1", "linear_operator", ("test",)),
    Suite(
        "pykeen-1.11.1",
        "pykeen",
        (
            *(
                "tests/test_nn",
                "tests/test_sampling",
                "tests/test_evaluation",
                "tests/test_models.py",
            ),
            *("tests/test_losses.py", "tests/test_regularizers.py", "tests/test_utils.py"),
        ),
        "src",
    ),
    Suite("e3nn-0.6.0", "e3nn", ("tests",)),
    Suite("peft-0.21.2", "peft", ("tests/test_custom_models.py",), "src"),
)
Outcomes = dict[str, str]


def unpacked(suite: Suite, folder: Path, variant: str) -> Path:
    """A fresh copy of a distribution."""
    where = folder / variant / suite.distribution
    shutil.rmtree(where, ignore_errors=True)
    with tarfile.open(folder / f"{suite.distribution}.tar.gz") as archive:
        archive.extractall(where.parent, filter="data")
    complete(where / Path(suite.tests[0]).parts[0])
    return where


def complete(tests: Path) -> None:
    """Make a package of tests that import each other by `from .`: what says that they are one is
    not in every source distribution.
    """
    if any(b"\nfrom ." in path.read_bytes() for path in tests.glob("*.py")):
        (tests / "__init__.py").touch()


def fixed(suite: Suite, where: Path, variant: str) -> dict[str, int]:
    """Fix a copy's package in place; how many fixes were made, safe and unsafe."""
    unsafe, closed = VARIANTS[variant]
    settings = where.parent / "settings.toml"
    settings.write_text(f"assume-closed = {str(closed).lower()}\n")
    overrides = {"regions": "all", "exclude": ("tests",), "respect_gitignore": False}
    runner = runs.Runner(rules=load(), overrides=overrides, config=settings, jobs=1)
    files = runner.collect([str(suite.code(where))])
    done = loop.fix_files(runner, files, unsafe=unsafe)
    for path, content in done.after.items():
        path.write_bytes(content)
    made = Counter(fix.applicability for _, fix in done.applied)
    return {kind: made[kind] for kind in ("safe", "unsafe")}


def changed(suite: Suite, before: Path, after: Path) -> dict[Path, set[int]]:
    """The lines of each changed file that are new."""
    found: dict[Path, set[int]] = {}
    for path in sorted(suite.code(after).rglob("*.py")):
        old = (before / path.relative_to(after)).read_bytes().splitlines()
        new = path.read_bytes().splitlines()
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        lines = {n + 1 for kind, _, _, a, b in blocks if kind != "equal" for n in range(a, b)}
        if lines:
            found[path] = lines
    return found


def outcomes(suite: Suite, where: Path, tests: Sequence[str], data: Path | None) -> Outcomes:
    """Test -> "passed", "failed" or "skipped". `data`: where to write the lines that were run."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m"]
        if data is not None:
            command += ["coverage", "run", f"--data-file={data}", f"--source={suite.package}", "-m"]
        command += ["pytest", "-q", "-p", "no:cacheprovider", f"--timeout={_TEST_S}"]
        command += [f"--rootdir={where}", "-c", settings_of(where), "-o", "addopts="]
        command += [f"--junitxml={report}", "-o", "junit_family=xunit1", *tests]
        environment = {**os.environ, "PYTHONPATH": str(where / suite.inside), "HF_HUB_OFFLINE": "1"}
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        try:
            subprocess.run(
                command,
                cwd=where,
                env=environment,
                stdout=subprocess.DEVNULL,
                timeout=_SUITE_S,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {}
        cases = ElementTree.parse(report).iter("testcase") if report.exists() else []
        return {f"{c.get('file')}::{_place(c)}": _outcome(c) for c in cases}


def settings_of(where: Path) -> str:
    """A distribution's own settings of pytest, not those of a folder above it."""
    named = [where / name for name in ("pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml")]
    own = [path for path in named if path.exists() and "pytest" in path.read_text()]
    return str(own[0]) if own else os.devnull


def _place(case: ElementTree.Element) -> str:
    """Class and name, as pytest takes them."""
    module = (case.get("file") or "").removesuffix(".py").replace("/", ".")
    inside = (case.get("classname") or "").removeprefix(module).strip(".")
    return "::".join(filter(None, (*inside.split("."), case.get("name") or "")))


def _outcome(case: ElementTree.Element) -> str:
    found = {child.tag for child in case}
    if "skipped" in found:
        return "skipped"
    return "failed" if found & {"failure", "error"} else "passed"


def executed(data: Path, lines: dict[Path, set[int]]) -> tuple[int, int]:
    """Of the changed lines that hold statements: how many there are, and how many were run. A
    decorator was run where the decorated function was.
    """
    import coverage

    measured = coverage.Coverage(data_file=str(data))
    measured.load()
    there = run = 0
    for path, new in lines.items():
        _, statements, _, missing, _ = measured.analysis2(str(path))
        decides = decorated(path.read_bytes())
        held = [decides.get(line, line) for line in new & set(statements)]
        there += len(held)
        run += sum(line not in missing for line in held)
    return there, run


def decorated(source: bytes) -> dict[int, int]:
    """Line of a decorator -> that of the first statement of its function."""
    found: dict[int, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = 1 if ast.get_docstring(node) is not None and node.body[1:] else 0
            for each in node.decorator_list:
                lines = range(each.lineno, (each.end_lineno or each.lineno) + 1)
                found |= dict.fromkeys(lines, node.body[start].lineno)
    return found


def measure(suite: Suite, folder: Path) -> dict[str, Any]:
    """All copies of one package."""
    before = unpacked(suite, folder, BEFORE)
    expected = outcomes(suite, before, suite.tests, None)
    row: dict[str, Any] = {"name": suite.distribution, BEFORE: dict(Counter(expected.values()))}
    for variant in VARIANTS:
        where = unpacked(suite, folder, variant)
        made = fixed(suite, where, variant)
        lines = changed(suite, before, where)
        row[variant] = {"fixes": made}
        if not lines:
            continue
        data = folder / variant / f"{suite.package}.coverage"
        found = outcomes(suite, where, suite.tests, data)
        worse = [name for name, how in expected.items() if how == "passed" != found.get(name)]
        there, run = executed(data, lines) if data.exists() else (0, 0)
        row[variant] |= {
            "outcomes": dict(Counter(found.values())),
            "changed_lines": there,
            "executed_lines": run,
            "no_longer_pass": again(suite, before, where, worse),
        }
        print(suite.distribution, variant, row[variant], flush=True)
    return row


def again(suite: Suite, before: Path, after: Path, names: list[str]) -> list[str]:
    """Those of the tests that pass before the fixes and not after them, when run once more."""
    if not names:
        return []
    expected, found = (outcomes(suite, copy, names, None) for copy in (before, after))
    return [name for name in names if expected.get(name) == "passed" != found.get(name)]


def environment() -> dict[str, str]:
    """The versions that were measured."""
    named = ("torch", "pytest", "pygraph-lint")
    return {"python": platform.python_version(), **{n: metadata.version(n) for n in named}}


def main() -> int:
    """Command line; returns 1 if a test that passed before safe fixes does not pass after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    folder = given.folder.resolve()
    result = json.loads(given.out.read_text()) if given.out.exists() else {"packages": {}}
    result["environment"] = environment()
    for suite in SUITES:
        asked = not given.only or suite.package in given.only
        if asked and suite.package not in result["packages"]:
            result["packages"][suite.package] = measure(suite, folder)
            given.out.write_text(json.dumps(result, indent=1) + "\n")
    rows = result["packages"].values()
    return int(any(row[v].get("no_longer_pass") for row in rows for v in ("safe", "closed")))


if __name__ == "__main__":
    raise SystemExit(main())
