"""Why a break is left in a fixed copy: what the linter says about its line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pygraph_lint.findings import Finding
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load

Record = dict[str, Any]

NOT_REPORTED = "no finding on the line"
SERVING = ("default", "preview")


def explain(root: Path, sites: Iterable[Record]) -> list[Record]:
    """The sites with the text of their line and ``cause``; ``root`` holds the copy."""
    sites = list(sites)
    findings = _findings(root, sorted({site["file"] for site in sites}))
    return [
        {**site, "text": _line(root / site["file"], site["line"]), "cause": cause(site, findings)}
        for site in sites
    ]


def _findings(root: Path, files: list[str]) -> Mapping[str, list[Finding]]:
    """What the linter, preview rules included, finds in some files of the copy, with fixes."""
    runner = Runner(load(), {"preview": True, "exclude": ("nothing",)})
    paths = [root / name for name in files if (root / name).is_file()]
    found: dict[str, list[Finding]] = {}
    for finding in runner.offer_fixes(runner.check(paths)):
        name = Path(finding.filename).relative_to(root).as_posix()
        found.setdefault(name, []).append(finding)
    return found


def cause(site: Record, findings: Mapping[str, list[Finding]]) -> str:
    """What the findings that cover the line say: declined and why, or no rewrite, or unseen."""
    here = [
        finding
        for finding in findings.get(site["file"], [])
        if finding.location.row <= site["line"] <= finding.end_location.row
    ]
    said = dict.fromkeys(_said(finding) for finding in here)
    return "; ".join(said) if said else NOT_REPORTED


def _said(finding: Finding) -> str:
    fix = finding.fix
    if fix is None or (fix.applicability == "declined" and not fix.reason):
        return f"{finding.code} {finding.name}: no rewrite"
    if fix.applicability == "declined":
        return f"{finding.code} {finding.name}: declined, {fix.reason}"
    return f"{finding.code} {finding.name}: an {fix.applicability} rewrite, not made"


def _line(path: Path, number: int) -> str:
    if not path.is_file():
        return ""
    lines = path.read_text("utf-8").splitlines()
    return lines[number - 1].strip() if number <= len(lines) else ""


def by_cause(sites: Iterable[Record]) -> dict[str, Record]:
    """Events and lines by cause, most events first."""
    events: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for site in sites:
        events[site["cause"]] += site["events"]
        lines[site["cause"]] += 1
    return {name: {"events": n, "lines": lines[name]} for name, n in events.most_common()}
