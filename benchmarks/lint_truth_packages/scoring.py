"""The linter's findings against the truth of the packages.

The develop half gets every miss and false alarm; of the held-out half only totals leave this
module, so that nobody can work on its single places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.lint_truth.claims import break_claims
from benchmarks.lint_truth.findings import Finding, StatementOf, evaluated, statements_of
from benchmarks.lint_truth.score import (
    BREAKS,
    DYNAMIC_SHAPES,
    HOST_TENSORS,
    SYNCS,
    by_code,
    judge,
    precision,
    recall,
)
from benchmarks.lint_truth_packages.catalogue import DEVELOP, HALVES, half_of_file

KINDS = {
    "breaks": BREAKS,
    "syncs": SYNCS,
    "host_tensors": HOST_TENSORS,
    "dynamic_shapes": DYNAMIC_SHAPES,
}
PATHS = ("all", "through_modules", "through_functions")
Verdict = tuple[Finding, str]
Site = Mapping[str, Any]


def _any_file(file: str) -> bool:
    return True


def _numbers(
    sites: Sequence[Site],
    findings: Sequence[Finding],
    verdicts: Sequence[Verdict],
    statement: StatementOf,
) -> dict[str, Any]:
    """Found of all by kind, and precision."""
    found = {
        name: recall(sites, findings, kinds, statement, _any_file)[0]
        for name, kinds in KINDS.items()
    }
    return {**found, "precision": precision(verdicts)}


def totals(
    truth: Mapping[str, Any],
    findings: Sequence[Finding],
    verdicts: Sequence[Verdict],
    statement: StatementOf,
    mine: Callable[[str], bool],
) -> dict[str, Any]:
    """Numbers over the files of `mine`: all, those below a module's method, the others."""
    below = statements_of(truth["in_modules"], statement)
    sites = [site for site in truth["sites"] if mine(site["file"])]
    judged = [verdict for verdict in verdicts if mine(verdict[0].file)]

    def part(through_modules: bool) -> dict[str, Any]:
        return _numbers(
            [s for s in sites if ((s["file"], s["line"]) in below) == through_modules],
            findings,
            [
                (finding, verdict)
                for finding, verdict in judged
                if ((finding.file, statement(finding.file, finding.line)) in below)
                == through_modules
            ],
            statement,
        )

    all_paths, modules, functions = PATHS
    return {
        all_paths: _numbers(sites, findings, judged, statement)
        | break_claims(truth, findings, statement, mine),
        modules: part(True),
        functions: part(False),
    }


def score(
    truth: Mapping[str, Any],
    findings: Sequence[Finding],
    statement: StatementOf,
    text_of: Callable[[str, int], str],
    half_of: Callable[[str], str] = half_of_file,
) -> dict[str, Any]:
    """Totals of both halves; of the develop half also each package, code, miss and alarm. Findings
    in parts of statements that were never evaluated do not count.
    """
    findings = evaluated(findings, truth)
    verdicts = judge(findings, truth, statement, _any_file)
    halves: dict[str, Any] = {}
    for half in HALVES:
        halves[half] = totals(
            truth, findings, verdicts, statement, lambda file, half=half: half_of(file) == half
        )
    everything = totals(truth, findings, verdicts, statement, _any_file)
    mine = [v for v in verdicts if half_of(v[0].file) == DEVELOP]
    sites = [s for s in truth["sites"] if half_of(s["file"]) == DEVELOP]
    halves[DEVELOP] |= {
        "by_code": by_code(mine),
        "by_package": _by_package(sites, findings, mine, statement),
        "misses": _misses(sites, findings, statement, truth),
        "false_alarms": _alarms(mine, "wrong", text_of),
        "unjudged": _alarms(mine, "unjudged", text_of),
        "untraced": _alarms(mine, "untraced", text_of),
    }
    return {"both": everything, **halves}


def _by_package(
    sites: Sequence[Site],
    findings: Sequence[Finding],
    verdicts: Sequence[Verdict],
    statement: StatementOf,
) -> dict[str, Any]:
    """Import name -> numbers."""
    names = sorted({site["file"].partition("/")[0] for site in sites})
    return {
        name: _numbers(
            [s for s in sites if s["file"].partition("/")[0] == name],
            findings,
            [v for v in verdicts if v[0].file.partition("/")[0] == name],
            statement,
        )
        for name in names
    }


def _misses(
    sites: Sequence[Site],
    findings: Iterable[Finding],
    statement: StatementOf,
    truth: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Every site of which a kind was not found, with the kinds and what was said there."""
    findings = list(findings)
    below = statements_of(truth["in_modules"], statement)
    said: dict[tuple[str, int], set[str]] = defaultdict(set)
    for finding in findings:
        said[(finding.file, statement(finding.file, finding.line))].add(finding.code)
    missed: dict[tuple[str, int], dict[str, Any]] = {}
    for name, kinds in KINDS.items():
        for site in recall(sites, findings, kinds, statement, _any_file)[1]:
            place = (site["file"], site["line"])
            row = missed.setdefault(
                place,
                {
                    "place": f"{site['file']}:{site['line']}",
                    "text": site["text"],
                    "through": "modules" if place in below else "functions",
                    "missed": {},
                    "said": sorted(said[place]),
                },
            )
            row["missed"][name] = sorted(
                f"{kind}: {what}"
                for kind in kinds & set(site["kinds"])
                for what in site["kinds"][kind]["what"]
            )
    return [row for _, row in sorted(missed.items())]


def _alarms(
    verdicts: Iterable[Verdict], verdict: str, text_of: Callable[[str, int], str]
) -> list[dict[str, Any]]:
    return [
        {
            "place": f"{finding.file}:{finding.line}",
            "code": finding.code,
            "text": text_of(finding.file, finding.line),
            "message": finding.message,
        }
        for finding, found in sorted(verdicts, key=lambda v: (v[0].file, v[0].line, v[0].code))
        if found == verdict
    ]


def listing(develop: Mapping[str, Any]) -> str:
    """The develop half's misses and false alarms as text, one line each."""
    lines = []
    for row in develop["misses"]:
        what = "; ".join(part for parts in row["missed"].values() for part in parts)
        said = f" | said {', '.join(row['said'])}" if row["said"] else ""
        lines.append(
            f"missed {'+'.join(row['missed'])} {row['place']} ({row['through']}) "
            f"{row['text'][:150]} | {what[:160]}{said}"
        )
    for name in ("false_alarms", "unjudged", "untraced"):
        lines += [
            f"{name} {row['code']} {row['place']} {row['text'][:150]} | {row['message'][:120]}"
            for row in develop[name]
        ]
    return "\n".join(lines)


def summary_table(result: Mapping[str, Any]) -> str:
    """A short text table of the totals of both halves."""
    rows: list[tuple[str, ...]] = [("", *HALVES, "both")]
    parts = [result[half] for half in (*HALVES, "both")]
    for through in PATHS:
        for name in KINDS:
            cells = [_share(p[through][name]["found"], p[through][name]["sites"]) for p in parts]
            rows.append((f"{through} {name}", *cells))
        counts = [p[through]["precision"] for p in parts]
        cells = [_share(c["right"], c["right"] + c["wrong"]) for c in counts]
        rows.append((f"{through} precision", *cells))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} {100 * part / whole:.1f} %" if whole else "0/0"
