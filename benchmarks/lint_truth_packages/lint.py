"""Run the linter's command on copies of the packages."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.lint_truth.copies import copy_packages, relative_to
from benchmarks.lint_truth.findings import Finding
from benchmarks.lint_truth.score import read_findings

USAGE_ERROR = 2


class LinterError(Exception):
    """The linter did not run; the message says why."""


@dataclass(frozen=True)
class Linter:
    """One version of the linter: a checkout of it, and the options it is run with."""

    checkout: Path
    options: tuple[str, ...] = ()

    def commit(self) -> str:
        """The checkout's commit, with "+" if `pygraph_lint` or `rules` were changed since."""
        commit = self._git("rev-parse", "--short", "HEAD").strip()
        changed = self._git("status", "--porcelain", "--", "pygraph_lint", "rules").strip()
        return f"{commit}{'+' if changed else ''}"

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", os.fspath(self.checkout), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else "unknown"

    def check(self, folder: str) -> list[dict[str, Any]]:
        """The findings in `folder` as JSON rows. Raises LinterError."""
        command = [sys.executable, "-m", "pygraph_lint", "check", folder, *self.options]
        command += ["--output-format", "json", "--no-respect-gitignore", "--exclude", "nothing"]
        done = subprocess.run(
            [*command, "--no-cache"],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(folder).parent,
            env={**os.environ, "PYTHONPATH": os.fspath(self.checkout)},
        )
        if done.returncode not in (0, 1):
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            if done.returncode == USAGE_ERROR:
                asked = " ".join(self.options)
                raise LinterError(f"the linter at {self.commit()} rejects {asked!r}: {reason}")
            raise LinterError(f"the linter ended with {done.returncode}: {reason}")
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows


def kept_findings(
    linter: Linter, roots: dict[str, str], strip: bool, kept: Path | None
) -> list[Finding]:
    """The findings, read from the file `kept` if the same linter wrote it, else written there."""
    head = {"linter": linter.commit(), "options": linter.options, "strip": strip}
    head = json.loads(json.dumps({**head, "packages": sorted(roots)}))
    if kept is not None and kept.exists():
        found = json.loads(kept.read_text())
        if found["head"] == head:
            return [Finding(**row) for row in found["findings"]]
    findings = lint_packages(linter, roots, strip)
    if kept is not None:
        rows = [dataclasses.asdict(finding) for finding in findings]
        kept.write_text(json.dumps({"head": head, "findings": rows}))
    return findings


def lint_packages(linter: Linter, roots: dict[str, str], strip: bool) -> list[Finding]:
    """The findings in the packages, each linted as a project of its own.

    Given import name -> folder of the installed package. Raises LinterError.
    """
    with TemporaryDirectory(prefix="packages-") as folder:
        copies, _ = copy_packages(roots, Path(folder).resolve(), strip)
        relative = relative_to(copies)
        findings: list[Finding] = []
        for root in copies.values():
            findings += read_findings(linter.check(root), relative)
    return findings
