"""The linter's findings against the truth table: recall, precision, misses and false alarms.

Everything here is a pure function of plain data. A *site* is a logical statement at which
something happened; a finding meets a site when both lie in the same logical statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.lint_truth.claims import break_claims, claims_without_a_break, wrong_names
from benchmarks.lint_truth.findings import Finding, StatementOf, evaluated, statements_of
from benchmarks.lint_truth.truth import PARTS, is_model_code, part_of

HALVES = ("tune", "held-out")

#: What happened -> which recall it counts for.
BREAKS = frozenset({"break"})
SYNCS = frozenset({"sync", "d2h", "h2d"})
HOST_TENSORS = frozenset({"host_tensor"})
DYNAMIC_SHAPES = frozenset({"dynamic_shape"})

#: Kinds that make no finding right: Dynamo's own errors say nothing about the line.
NO_EVIDENCE = frozenset({"dynamo_error", "dynamo_error_below"})


def read_findings(
    rows: Iterable[Mapping[str, Any]],
    relative: Callable[[str], str | None],
    preview: bool = False,
) -> list[Finding]:
    """Findings from the linter's JSON rows, without those outside the measured packages."""
    found = []
    for row in rows:
        file = relative(row["filename"])
        if file is None:
            continue
        follows = row.get("consequences") or {}
        found.append(
            Finding(
                file,
                row["location"]["row"],
                row["code"],
                row["message"],
                breaks=follows.get("compile") == "break",
                errors=follows.get("fullgraph") == "error",
                syncs=follows.get("sync") == "yes",
                not_capturable=follows.get("cudagraph", "ok") not in ("ok", ""),
                preview=preview,
                gb_type=row.get("gb_type") or "",
                column=row["location"].get("column", 1) - 1,
            )
        )
    return found


def covers(finding: Finding, kinds: frozenset[str]) -> bool:
    """Whether a finding says that something of `kinds` happens on its statement."""
    if kinds is BREAKS:
        return finding.breaks
    if kinds is SYNCS:
        return finding.syncs
    if kinds is DYNAMIC_SHAPES:
        return finding.breaks or finding.syncs or finding.not_capturable
    return finding.syncs or finding.not_capturable


def site_half(site: Mapping[str, Any], halves: Mapping[str, str]) -> str:
    """ "tune" if any model of that half shows the site, else "held-out"."""
    seen = {
        halves.get(where.rpartition(":")[0], "held-out")
        for kind in site["kinds"].values()
        for where in kind["in"]
    }
    return "tune" if "tune" in seen else "held-out"


def withhold(truth: dict[str, Any]) -> None:
    """Take the source text away from sites of the held-out half: they are only counted."""
    halves = {name: model["half"] for name, model in truth["models"].items()}
    for site in truth["sites"]:
        if site_half(site, halves) == "held-out":
            del site["text"]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def recall(
    sites: Sequence[Mapping[str, Any]],
    findings: Iterable[Finding],
    kinds: frozenset[str],
    statement: StatementOf,
    counted: Callable[[str], bool] = is_model_code,
) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    """(numbers, missed sites) over the sites in `counted` files that show one of `kinds`.

    `found` needs a finding that says so; `noticed` any finding on the statement.
    """
    wanted = [site for site in sites if counted(site["file"]) and kinds & set(site["kinds"])]
    said: set[tuple[str, int]] = set()
    noticed: set[tuple[str, int]] = set()
    for finding in findings:
        place = (finding.file, statement(finding.file, finding.line))
        noticed.add(place)
        if covers(finding, kinds):
            said.add(place)
    missed = [site for site in wanted if (site["file"], site["line"]) not in said]
    hits = len(wanted) - len(missed)
    near = sum((site["file"], site["line"]) in noticed for site in wanted)
    numbers = {
        "sites": len(wanted),
        "found": hits,
        "recall": _share(hits, len(wanted)),
        "noticed": near,
    }
    return numbers, missed


def judge(
    findings: Iterable[Finding],
    truth: Mapping[str, Any],
    statement: StatementOf,
    counted: Callable[[str], bool] = is_model_code,
) -> list[tuple[Finding, str]]:
    """Each finding in `counted` files on a statement that ran, with a verdict.

    "right": something happened on that statement in some model and mode. "untraced": nothing
    did, it claims only a break, and Dynamo never traced the line (its frame was skipped).
    "unjudged": it claims neither a break nor a synchronisation. "wrong": everything else.
    """
    happened = {
        (site["file"], site["line"]) for site in truth["sites"] if set(site["kinds"]) - NO_EVIDENCE
    }
    ran = statements_of(truth["ran"], statement)
    traced = statements_of(truth["traced"], statement)
    verdicts = []
    for finding in findings:
        place = (finding.file, statement(finding.file, finding.line))
        if not counted(finding.file) or place not in ran:
            continue
        if place in happened:
            verdict = "right"
        elif not finding.breaks and not finding.errors and not finding.syncs:
            verdict = "unjudged"
        elif not finding.syncs and place not in traced:
            verdict = "untraced"
        else:
            verdict = "wrong"
        verdicts.append((finding, verdict))
    return verdicts


def precision(verdicts: Iterable[tuple[Finding, str]]) -> dict[str, Any]:
    """Counts by verdict; `precision` = right / (right + wrong), `strict` has unjudged as wrong."""
    counts: dict[str, int] = defaultdict(int)
    for _, verdict in verdicts:
        counts[verdict] += 1
    right, wrong, unjudged = counts["right"], counts["wrong"], counts["unjudged"]
    return {
        "right": right,
        "wrong": wrong,
        "unjudged": unjudged,
        "untraced": counts["untraced"],
        "precision": _share(right, right + wrong),
        "strict": _share(right, right + wrong + unjudged),
    }


def by_code(verdicts: Iterable[tuple[Finding, str]]) -> dict[str, dict[str, int]]:
    """Verdict counts of each code."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for finding, verdict in verdicts:
        counts[finding.code][verdict] += 1
    return {code: dict(sorted(found.items())) for code, found in sorted(counts.items())}


def group_misses(
    missed: Iterable[Mapping[str, Any]], kinds: frozenset[str]
) -> list[dict[str, Any]]:
    """Missed sites by source text, the most frequent first."""
    groups: dict[str, dict[str, Any]] = {}
    for site in missed:
        group = groups.setdefault(site["text"], {"text": site["text"], "what": set(), "places": []})
        for kind in kinds & set(site["kinds"]):
            group["what"].update(f"{kind}: {what}" for what in site["kinds"][kind]["what"])
        group["places"].append(f"{site['file']}:{site['line']}")
    ordered = sorted(groups.values(), key=lambda group: (-len(group["places"]), group["text"]))
    return [{**group, "what": sorted(group["what"])} for group in ordered]


def group_alarms(
    verdicts: Iterable[tuple[Finding, str]], verdict: str, text_of: Callable[[str, int], str]
) -> list[dict[str, Any]]:
    """Findings with one `verdict` by code and source text, the most frequent first."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for finding, found in verdicts:
        if found != verdict:
            continue
        text = text_of(finding.file, finding.line)
        group = groups.setdefault(
            (finding.code, text),
            {"code": finding.code, "text": text, "message": finding.message, "places": []},
        )
        group["places"].append(f"{finding.file}:{finding.line}")
    return sorted(groups.values(), key=lambda g: (-len(g["places"]), g["code"], g["text"]))


def corpus_recall(
    corpus: Iterable[Mapping[str, Any]],
    truth: Mapping[str, Any],
    findings: Iterable[Finding],
    statement: StatementOf,
) -> dict[str, Any]:
    """Recall on recorded break sites ({"file", "line", ...}) in model code.

    `confirmed` are those at whose statement the truth table has a break too; `misses` says of
    each missed one whether its line ran here and what happened there.
    """
    sites = {(site["file"], site["line"]): site for site in truth["sites"]}
    said = {(f.file, statement(f.file, f.line)) for f in findings if f.breaks}
    ran = statements_of(truth["ran"], statement)
    total = found = confirmed = confirmed_found = 0
    misses = []
    for row in corpus:
        if not is_model_code(row["file"]):
            continue
        place = (row["file"], statement(row["file"], row["line"]))
        seen_here = "break" in sites.get(place, {"kinds": {}})["kinds"]
        hit = place in said
        total += 1
        found += hit
        confirmed += seen_here
        confirmed_found += hit and seen_here
        if not hit:
            misses.append(
                {
                    "place": f"{row['file']}:{row['line']}",
                    "ids": sorted(row.get("ids", {})),
                    "confirmed": seen_here,
                    "ran": place in ran,
                }
            )
    return {
        "sites": total,
        "found": found,
        "recall": _share(found, total),
        "confirmed": confirmed,
        "confirmed_found": confirmed_found,
        "confirmed_recall": _share(confirmed_found, confirmed),
        "misses": misses,
    }


def _in_half(truth: Mapping[str, Any], half: str) -> dict[str, Any]:
    """The part of the truth that belongs to one half: its sites and its files."""
    halves = {name: model["half"] for name, model in truth["models"].items()}
    files = {
        file
        for file, models in truth["files"].items()
        if ("tune" if any(halves.get(m) == "tune" for m in models) else "held-out") == half
    }
    return {
        "models": truth["models"],
        "sites": [site for site in truth["sites"] if site_half(site, halves) == half],
        "ran": {file: lines for file, lines in truth["ran"].items() if file in files},
        "traced": {file: lines for file, lines in truth["traced"].items() if file in files},
    }


def _numbers(
    sites: Sequence[Mapping[str, Any]],
    findings: Sequence[Finding],
    verdicts: Sequence[tuple[Finding, str]],
    statement: StatementOf,
) -> dict[str, Any]:
    return {
        "breaks": recall(sites, findings, BREAKS, statement)[0],
        "syncs": recall(sites, findings, SYNCS, statement)[0],
        "host_tensors": recall(sites, findings, HOST_TENSORS, statement)[0],
        "syncs_and_host_tensors": recall(sites, findings, SYNCS | HOST_TENSORS, statement)[0],
        "precision": precision(verdicts),
    }


def score(
    truth: Mapping[str, Any],
    findings: Sequence[Finding],
    statement: StatementOf,
    text_of: Callable[[str, int], str],
) -> dict[str, Any]:
    """All numbers, and every miss and false alarm, of default-on findings (preview apart); of the
    held-out half only the numbers. Findings in parts of statements that were never evaluated do
    not count.
    """
    findings = evaluated(findings, truth)
    default = [finding for finding in findings if not finding.preview]
    verdicts = judge(default, truth, statement)
    preview = judge([finding for finding in findings if finding.preview], truth, statement)
    halves = {}
    for half in HALVES:
        part = _in_half(truth, half)
        # A finding is right by what happened anywhere; only where it is counted is split.
        mine = [(f, verdict) for f, verdict in verdicts if f.file in part["ran"]]
        there = [finding for finding in default if finding.file in part["ran"]]
        halves[half] = {
            "models": sum(m["half"] == half for m in truth["models"].values()),
            **_numbers(part["sites"], default, mine, statement),
            **break_claims(truth, there, statement),
            "parts": _by_part(part["sites"], default, mine, statement),
        }
        if half == "tune":
            halves[half] |= _lists(part["sites"], default, mine, statement, text_of)
            halves[half] |= _claim_lists(truth, part, there, statement, text_of)
    return {
        "models": len(truth["models"]),
        "findings": len(default),
        "all": {
            **_numbers(truth["sites"], default, verdicts, statement),
            **break_claims(truth, default, statement),
        },
        "parts": _by_part(truth["sites"], default, verdicts, statement),
        "preview": precision(preview),
        "by_code": by_code(verdicts),
        "preview_by_code": by_code(preview),
        "halves": halves,
    }


def _by_part(
    sites: Sequence[Mapping[str, Any]],
    findings: Sequence[Finding],
    verdicts: Sequence[tuple[Finding, str]],
    statement: StatementOf,
) -> dict[str, Any]:
    """The numbers of each part of the measured code: models, samplers, losses, ..."""
    return {
        part: _numbers(
            [site for site in sites if part_of(site["file"]) == part],
            findings,
            [(found, verdict) for found, verdict in verdicts if part_of(found.file) == part],
            statement,
        )
        for part in PARTS
    }


def _claim_lists(
    truth: Mapping[str, Any],
    part: Mapping[str, Any],
    findings: Sequence[Finding],
    statement: StatementOf,
    text_of: Callable[[str, int], str],
) -> dict[str, Any]:
    """Claims of breaks that are wrong in one way or the other: Dynamo broke nothing there in any
    model of `truth`, or another name was given at a site of the `part`.
    """
    return {
        "claims_without_a_break": claims_without_a_break(truth, findings, statement, text_of),
        "wrong_gb_types": wrong_names(part, findings, statement)
        if any(finding.gb_type for finding in findings)
        else [],
    }


def _lists(
    sites: Sequence[Mapping[str, Any]],
    findings: Sequence[Finding],
    verdicts: Sequence[tuple[Finding, str]],
    statement: StatementOf,
    text_of: Callable[[str, int], str],
) -> dict[str, Any]:
    """Every miss and every finding that is not right, grouped by source text."""
    found = {
        f"missed_{name}": group_misses(recall(sites, findings, kinds, statement)[1], kinds)
        for name, kinds in (("breaks", BREAKS), ("syncs", SYNCS), ("host_tensors", HOST_TENSORS))
    }
    named = {"false_alarms": "wrong", "unjudged": "unjudged", "untraced": "untraced"}
    return {
        **found,
        **{name: group_alarms(verdicts, verdict, text_of) for name, verdict in named.items()},
    }


def listing(part: Mapping[str, Any]) -> str:
    """The misses and false alarms of one half as text, one line a group."""
    lines = []
    for name in ("missed_breaks", "missed_syncs", "missed_host_tensors"):
        lines.append(f"## {name.replace('_', ' ')}")
        lines += [
            f"{len(g['places'])}x {g['text'][:150]} | {'; '.join(g['what'])[:120]} | "
            f"{', '.join(g['places'][:4])}"
            for g in part[name]
        ]
    for name in ("false_alarms", "unjudged", "untraced"):
        lines.append(f"## {name.replace('_', ' ')}")
        lines += [
            f"{len(g['places'])}x {g['code']} {g['text'][:150]} | {g['message'][:100]} | "
            f"{', '.join(g['places'][:4])}"
            for g in part[name]
        ]
    return "\n".join(lines)


def table(result: Mapping[str, Any]) -> str:
    """A short text table of the numbers."""
    rows: list[tuple[str, ...]] = [("", "all", *HALVES)]
    parts = [result["all"], *(result["halves"][half] for half in HALVES)]
    for name in ("breaks", "syncs", "host_tensors", "syncs_and_host_tensors"):
        cells = [
            f"{p[name]['found']}/{p[name]['sites']} {_percent(p[name]['recall'])}" for p in parts
        ]
        rows.append((f"recall of {name.replace('_', ' ')}", *cells))
    cells = [
        f"{p['precision']['right']}/{p['precision']['right'] + p['precision']['wrong']} "
        f"{_percent(p['precision']['precision'])}"
        for p in parts
    ]
    rows.append(("precision on lines that ran", *cells))
    rows.extend(
        (f"findings {name}", *(str(p["precision"][name]) for p in parts))
        for name in ("unjudged", "untraced")
    )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
