"""Packages' own test suites before and after fixes: what passed has to pass.

    python benchmarks/fix_suites.py --folder FOLDER [--only PACKAGE ...]

FOLDER holds the source distributions, `NAME-VERSION.tar.gz`. Of each there are four copies: as it
is, and with safe fixes, with the safe fixes of `assume-closed`, and with unsafe fixes. Where all
edits of a copy with safe fixes are in the one with unsafe fixes too, and all that passed passes
there, it is not run by itself. All functions that get tensors are checked (`--regions all`), tests
are not. A test that fails only after a fix is run again on both copies, and counts if it still
does. Beside that: how many of the changed lines the suite executes, and which share of the whole
package before the fixes. A decorator counts where its function is. Goes on where it stopped.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
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

from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "fix_suites.json"
PLUGINS = ROOT / "benchmarks" / "plugins"
BEFORE = "before"
#: Copy -> whether unsafe fixes are made, and whether the checked code is all there is.
VARIANTS = {"safe": (False, False), "closed": (False, True), "unsafe": (True, False)}
#: Names of tests that lie in a package, which are neither fixed nor counted.
_TESTS = ("tests", "_tests", "test_*.py", "*_test.py")
_TEST_S, _SUITE_S = 60, 1800


class Suite(NamedTuple):
    """A distribution's folder, the package in it, the tests that are run, the folder that the
    package is in, and pytest's options.
    """

    distribution: str
    package: str
    tests: tuple[str, ...]
    inside: str = "."
    options: tuple[str, ...] = ()

    def code(self, where: Path) -> Path:
        """The package's folder in a copy."""
        return where / self.inside / self.package


def one_in(cases: int) -> tuple[str, ...]:
    """Options to run that share of the cases of each test function, at least one."""
    return ("-p", "drawn_tests", f"--one-in={cases}")


#: Of peft: what needs a GPU, or models of the hub in nearly all tests.
_PEFT_NOT = (
    "*gpu* *gptqmodel* *stablediffusion* *decoder_models* *feature_extraction* *seq_classifier* "
    "*token_classification* *hub_features* *vision_models* *torch_compile*"
)
_PYKEEN = "nn sampling evaluation models.py losses.py regularizers.py utils.py"

SUITES = (
    Suite("gpytorch-1.15.2", "gpytorch", ("test",)),
    Suite("linear_operator-0.6.1", "linear_operator", ("test",)),
    Suite("pykeen-1.11.1", "pykeen", tuple(f"tests/test_{n}" for n in _PYKEEN.split()), "src"),
    Suite("e3nn-0.6.0", "e3nn", ("tests",)),
    Suite(
        "peft-0.21.2",
        "peft",
        ("tests",),
        "src",
        (*(f"--ignore-glob={name}" for name in _PEFT_NOT.split()), *one_in(8)),
    ),
    Suite("neuraloperator-2.0.0", "neuralop", ("neuralop",), options=one_in(10)),
    Suite("zuko-1.6.0", "zuko", ("tests",)),
    Suite("xitorch-0.5.1", "xitorch", ("xitorch/_tests",)),
    Suite("normflows-1.7.3", "normflows", ("normflows",)),
    Suite("evotorch-0.6.1", "evotorch", ("tests",), "src", one_in(8)),
    Suite("torchquad-0.6.0", "torchquad", ("tests",)),
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
    overrides = {"regions": "all", "exclude": _TESTS, "respect_gitignore": False}
    runner = Runner(rules=load(), overrides=overrides, config=settings, jobs=1)
    files = runner.collect([str(suite.code(where))])
    done = loop.fix_files(runner, files, unsafe=unsafe)
    for path, content in done.after.items():
        path.write_bytes(content)
    made = Counter(fix.applicability for _, fix in done.applied)
    return {kind: made[kind] for kind in ("safe", "unsafe")}


class Edit(NamedTuple):
    """Lines of a file that were exchanged: which old ones, where the new ones start, and these."""

    path: Path
    old: tuple[int, int]
    start: int
    new: tuple[bytes, ...]

    @property
    def key(self) -> tuple[Path, tuple[int, int], tuple[bytes, ...]]:
        """What is the same for the same edit in another copy."""
        return self.path, self.old, self.new


def edits(suite: Suite, before: Path, after: Path) -> list[Edit]:
    """What differs in a copy's package. Paths are relative to the copy, lines counted from 0."""
    found: list[Edit] = []
    for path in sorted(suite.code(after).rglob("*.py")):
        inside = path.relative_to(after)
        old = (before / inside).read_bytes().splitlines()
        new = path.read_bytes().splitlines()
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        found += [
            Edit(inside, (start, end), a, tuple(new[a:b]))
            for kind, start, end, a, b in blocks
            if kind != "equal"
        ]
    return found


def changed(made: Sequence[Edit], after: Path) -> dict[Path, set[int]]:
    """The lines of each changed file that are new."""
    found: dict[Path, set[int]] = {}
    for edit in made:
        if edit.new:
            lines = range(edit.start + 1, edit.start + 1 + len(edit.new))
            found.setdefault(after / edit.path, set()).update(lines)
    return found


def within(made: Sequence[Edit], others: Sequence[Edit]) -> bool:
    """Whether all edits of a copy are in another copy too."""
    return {each.key for each in made} <= {each.key for each in others}


def outcomes(suite: Suite, where: Path, tests: Sequence[str], data: Path | None) -> Outcomes:
    """Test -> "passed", "failed" or "skipped". `data`: where to write the lines that were run."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m"]
        if data is not None:
            command += ["coverage", "run", f"--data-file={data}", f"--source={suite.package}", "-m"]
        command += ["pytest", "-q", "-p", "no:cacheprovider", f"--timeout={_TEST_S}"]
        command += ["--continue-on-collection-errors", "--tb=no", "-p", "no_network"]
        command += [f"--rootdir={where}", "-c", settings_of(where), "-o", "addopts="]
        command += [f"--junitxml={report}", "-o", "junit_family=xunit1", *suite.options, *tests]
        paths = os.pathsep.join(map(str, (where / suite.inside, PLUGINS)))
        environment = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
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


def executed(data: Path, lines: dict[Path, set[int]]) -> dict[str, int]:
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
    return {"changed_lines": there, "executed_lines": run}


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


def covered(data: Path) -> float:
    """The percentage of a package's statements that a run executed, its own tests left out."""
    import coverage

    measured = coverage.Coverage(data_file=str(data))
    measured.load()
    table = io.StringIO()
    left_out = [f"*/{name}" if name.endswith(".py") else f"*/{name}/*" for name in _TESTS]
    return round(measured.report(file=table, omit=left_out, ignore_errors=True), 1)


def measure(suite: Suite, folder: Path) -> dict[str, Any]:
    """All copies of one package."""
    before = unpacked(suite, folder, BEFORE)
    data = folder / BEFORE / f"{suite.package}.coverage"
    expected = outcomes(suite, before, suite.tests, data)
    row: dict[str, Any] = {"name": suite.distribution, "commit": commit()}
    row |= {BEFORE: dict(Counter(expected.values())), "covered_percent": covered(data)}
    copies = {variant: unpacked(suite, folder, variant) for variant in VARIANTS}
    for variant, where in copies.items():
        row[variant] = {"fixes": fixed(suite, where, variant)}
    made = {variant: edits(suite, before, where) for variant, where in copies.items()}
    whole = "unsafe"
    for variant in reversed(VARIANTS):
        part = variant != whole and within(made[variant], made[whole])
        if part and not row[whole].get("no_longer_pass"):
            row[variant] |= as_part(suite, folder, made[variant], whole, made[whole])
        elif made[variant]:
            row[variant] |= compared(suite, folder, variant, made[variant], expected)
        print(suite.distribution, variant, row[variant], flush=True)
    return row


def compared(
    suite: Suite, folder: Path, variant: str, made: Sequence[Edit], expected: Outcomes
) -> dict[str, Any]:
    """A copy's outcomes beside those before the fixes, and how many changed lines were run."""
    before, where = (folder / name / suite.distribution for name in (BEFORE, variant))
    data = folder / variant / f"{suite.package}.coverage"
    found = outcomes(suite, where, suite.tests, data)
    worse = [name for name, how in expected.items() if how == "passed" != found.get(name)]
    return {
        "outcomes": dict(Counter(found.values())),
        **executed(data, changed(made, where)),
        "no_longer_pass": again(suite, before, where, worse),
    }


def as_part(
    suite: Suite, folder: Path, made: Sequence[Edit], wider: str, others: Sequence[Edit]
) -> dict[str, Any]:
    """The same for a copy whose edits are all in `wider`, where what passed before passes."""
    keys = {each.key for each in made}
    lines = changed([e for e in others if e.key in keys], folder / wider / suite.distribution)
    data = folder / wider / f"{suite.package}.coverage"
    return {"part_of": wider, **executed(data, lines), "no_longer_pass": []}


def again(suite: Suite, before: Path, after: Path, names: list[str]) -> list[str]:
    """Those of the tests that pass before the fixes and not after them, when run once more."""
    if not names:
        return []
    expected, found = (outcomes(suite, copy, names, None) for copy in (before, after))
    return [name for name in names if expected.get(name) == "passed" != found.get(name)]


def commit() -> str:
    """The commit of the linter that makes the fixes."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(
        asked, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


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
