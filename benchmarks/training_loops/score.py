"""Findings against the marks of training loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.lint_truth.statements import statement_spans
from benchmarks.training_loops.marks import GROUPS, KINDS, OPEN, Loop, Part

Span = tuple[int, int]


@dataclass(frozen=True)
class Finding:
    """One finding of the linter, by the path of the file as it was given."""

    file: str
    line: int
    code: str
    message: str


@dataclass(frozen=True)
class Site:
    """A marked statement: what counts once, however many marks of one kind stand on it."""

    loop: Loop
    file: str
    statement: int
    kind: str
    text: str
    why: str


@dataclass(frozen=True)
class Verdict:
    """A finding of the family inside of a loop: "right", "either" or "wrong"."""

    loop: Loop
    file: str
    finding: Finding
    text: str
    verdict: str


@dataclass
class Judged:
    """What was found of the marks, and what the findings inside of the loops are worth."""

    sites: list[tuple[Site, bool, bool]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)


def read_findings(rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """The findings in the linter's JSON."""
    return [
        Finding(row["filename"], row["location"]["row"], row["code"], row["message"])
        for row in rows
    ]


def judge(
    loops: Iterable[Loop],
    findings: Iterable[Finding],
    codes: str,
    read: Callable[[Loop, Part], tuple[str, str]],
) -> Judged:
    """Join the findings with the marks by logical statement.

    `codes` are the prefixes, separated by commas, of the codes that count; `read` gives the path,
    as the findings have it, and the text of a part's file.
    """
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.file, []).append(finding)
    judged = Judged()
    prefixes = tuple(code.strip() for code in codes.split(","))
    for loop in loops:
        for part in loop.parts:
            path, text = read(loop, part)
            _judge_part(judged, loop, part, text, by_file.get(path, []), prefixes)
    return judged


def _judge_part(
    judged: Judged,
    loop: Loop,
    part: Part,
    text: str,
    findings: Sequence[Finding],
    prefixes: tuple[str, ...],
) -> None:
    spans = statement_spans(text)
    lines = text.splitlines()

    def statement(line: int) -> int:
        return spans.get(line, (line, line))[0]

    def quote(line: int) -> str:
        first, last = spans.get(line, (line, line))
        return " ".join(line.strip() for line in lines[first - 1 : last])[:160]

    inside = [finding for finding in findings if part.covers(finding.line)]
    family = [finding for finding in inside if finding.code.startswith(prefixes)]
    said = {statement(finding.line) for finding in family}
    said_by_any = {statement(finding.line) for finding in inside}
    sites = {}
    for mark in part.marks:
        key = (statement(mark.line), mark.kind)
        sites[key] = Site(loop, part.file, key[0], mark.kind, quote(mark.line), mark.why)
    judged.sites += [(s, s.statement in said, s.statement in said_by_any) for s in sites.values()]
    marked = {first for first, _ in sites}
    either = {statement(line) for line in part.either}
    for finding in family:
        first = statement(finding.line)
        verdict = "right" if first in marked else "either" if first in either else "wrong"
        judged.verdicts.append(Verdict(loop, part.file, finding, quote(finding.line), verdict))


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _numbers(loops: Sequence[Loop], judged: Judged) -> dict[str, Any]:
    """Totals over some of the loops: no line of any of them."""
    names = {loop.name for loop in loops}
    sites = [row for row in judged.sites if row[0].loop.name in names]
    verdicts = [verdict for verdict in judged.verdicts if verdict.loop.name in names]
    kinds = {}
    for kind in ("all", *KINDS):
        mine = [row for row in sites if kind in ("all", row[0].kind)]
        found = sum(hit for _, hit, _ in mine)
        kinds[kind] = {
            "marks": len(mine),
            "found": found,
            "share": _share(found, len(mine)),
            "found_by_any_code": sum(by_any for _, _, by_any in mine),
        }
    right, either, wrong = (
        sum(verdict.verdict == name for verdict in verdicts)
        for name in ("right", "either", "wrong")
    )
    clean = [loop for loop in loops if loop.clean]
    loud = {verdict.loop.name for verdict in verdicts if verdict.verdict == "wrong"}
    return {
        "loops": len(loops) - len(clean),
        "marks": kinds,
        "findings": {
            "right": right,
            "wrong": wrong,
            "either": either,
            "precision": _share(right, right + wrong),
        },
        "clean_loops": {
            "loops": len(clean),
            "silent": sum(loop.name not in loud for loop in clean),
        },
    }


def score(loops: Sequence[Loop], judged: Judged) -> dict[str, Any]:
    """All numbers, and what was missed and wrong in the groups that rules are worked on with.

    Of the other groups there are totals only.
    """
    develop = {loop.name for loop in loops if loop.half in OPEN}
    return {
        "all": _numbers(loops, judged),
        "groups": {
            group: _numbers([loop for loop in loops if loop.half == group], judged)
            for group in GROUPS
        },
        "develop_missed": [
            {
                "loop": site.loop.name,
                "place": f"{site.file}:{site.statement}",
                "kind": site.kind,
                "text": site.text,
                "why": site.why,
            }
            for site, hit, _ in judged.sites
            if not hit and site.loop.name in develop
        ],
        "develop_wrong": [
            {
                "loop": verdict.loop.name,
                "clean": verdict.loop.clean,
                "place": f"{verdict.file}:{verdict.finding.line}",
                "code": verdict.finding.code,
                "text": verdict.text,
                "message": verdict.finding.message,
            }
            for verdict in judged.verdicts
            if verdict.verdict == "wrong" and verdict.loop.name in develop
        ],
    }


def table(result: Mapping[str, Any]) -> str:
    """The numbers as text."""
    parts = [result["all"], *(result["groups"][group] for group in GROUPS)]
    rows: list[tuple[str, ...]] = [("", "all", *(name.replace("_", " ") for name in GROUPS))]
    for kind in ("all", *KINDS):
        name = "marks found" if kind == "all" else f"  {kind}"
        cells = [part["marks"][kind] for part in parts]
        rows.append((name, *(_of(cell["found"], cell["marks"], cell["share"]) for cell in cells)))
    rows.append(
        ("  by any code", *(str(part["marks"]["all"]["found_by_any_code"]) for part in parts))
    )
    judged = [part["findings"] for part in parts]
    cells = [_of(f["right"], f["right"] + f["wrong"], f["precision"]) for f in judged]
    rows.append(("findings that are right", *cells))
    rows.append(("findings that count for nothing", *(str(f["either"]) for f in judged)))
    clean = [part["clean_loops"] for part in parts]
    rows.append(("silent clean loops", *(f"{c['silent']}/{c['loops']}" for c in clean)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _of(part: int, whole: int, share: float | None) -> str:
    return f"{part}/{whole} {'-' if share is None else f'{100 * share:.1f} %'}"


def listing(result: Mapping[str, Any]) -> str:
    """The misses and wrong findings of the groups that may be looked at, one a line."""
    lines = ["## missed"]
    lines += [
        f"{m['kind']} {m['place']} | {m['text']} | {m['why']}" for m in result["develop_missed"]
    ]
    lines.append("## wrong")
    lines += [
        f"{w['code']} {w['place']} | {w['text']} | {w['message']}" for w in result["develop_wrong"]
    ]
    return "\n".join(lines)
