"""What findings claim about graph breaks: is there one, and is it called by its right name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.lint_truth.findings import Finding, StatementOf, statements_of
from benchmarks.lint_truth.gb_types import gb_types_of
from benchmarks.lint_truth.truth import is_model_code

#: Dynamo stopped at the statement, or could not say; neither speaks against a claim of a break.
NOT_AGAINST = frozenset({"break", "dynamo_error", "break_below", "dynamo_error_below"})

#: Breaks that Dynamo finds when it ends a graph, so never in a frame that it gave up on before.
AT_THE_END = frozenset({"requires_grad_() intermediate leaked as output", "Reconstruction failure"})

Place = tuple[str, int]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


@dataclass(frozen=True)
class _Claims:
    """Statements at which a break is claimed, with the Gb_types named there."""

    named: dict[Place, set[str]]
    wrong: list[Place]
    matched: list[Place]


def _claims(
    truth: Mapping[str, Any],
    findings: Sequence[Finding],
    statement: StatementOf,
    counted: Callable[[str], bool] = is_model_code,
) -> _Claims:
    named: dict[Place, set[str]] = {}
    for finding in findings:
        if finding.breaks and counted(finding.file):
            place = (finding.file, statement(finding.file, finding.line))
            named.setdefault(place, set()).update(filter(None, [finding.gb_type]))
    kinds = {(site["file"], site["line"]): set(site["kinds"]) for site in truth["sites"]}
    hidden = hidden_claims(truth, named)
    # Dynamo's lines include those of a jump behind a statement that did not run.
    traced = statements_of(truth["traced"], statement) & statements_of(truth["ran"], statement)
    return _Claims(
        named,
        [
            place
            for place in named
            if place in traced - hidden and not NOT_AGAINST & kinds.get(place, set())
        ],
        [place for place in named if "break" in kinds.get(place, ())],
    )


def hidden_claims(truth: Mapping[str, Any], named: Mapping[Place, set[str]]) -> set[Place]:
    """Claims in frames that Dynamo gave up on for another break, which hid this one.

    Such a frame runs uncompiled. Where a value of the device was read in it and no break was seen
    there (the second turn of a loop), Dynamo had already stopped; and it never came to the end of
    the graph, where some breaks are found.
    """
    given_up: dict[str, list[tuple[int, int]]] = {}
    for frame in truth.get("skipped_frames", ()):
        given_up.setdefault(frame["file"], []).append((frame["line"], frame.get("end", 0)))
    read = {(site["file"], site["line"]) for site in truth["sites"] if "sync" in site["kinds"]}
    return {
        (file, line)
        for (file, line), names in named.items()
        if any(first <= line <= last for first, last in given_up.get(file, ()))
        and ((file, line) in read or names <= AT_THE_END)
    }


def break_claims(
    truth: Mapping[str, Any],
    findings: Sequence[Finding],
    statement: StatementOf,
    counted: Callable[[str], bool] = is_model_code,
) -> dict[str, Any]:
    """Claims of a break where torch has none, and how many Gb_types are right.

    A claim in a `counted` file counts where the statement ran and Dynamo traced it; a statement
    counts once.
    The Gb_type of a matched site is right if any finding there names one that Dynamo gave;
    `gb_types` is None where no finding has the field.
    """
    claims = _claims(truth, findings, statement, counted)
    wrong, matched = len(claims.wrong), len(claims.matched)
    return {
        "break_claims": {
            "claims": wrong + matched,
            "without_a_break": wrong,
            "share": _share(wrong, wrong + matched),
        },
        "gb_types": _named_rightly(claims, truth) if any(claims.named.values()) else None,
    }


def _named_rightly(claims: _Claims, truth: Mapping[str, Any]) -> dict[str, Any]:
    sites = {(site["file"], site["line"]): site for site in truth["sites"]}
    right = sum(bool(claims.named[p] & set(gb_types_of(sites[p]))) for p in claims.matched)
    return {
        "matched": len(claims.matched),
        "named": sum(bool(claims.named[place]) for place in claims.matched),
        "right": right,
        "share": _share(right, len(claims.matched)),
    }


def claims_without_a_break(
    truth: Mapping[str, Any],
    findings: Sequence[Finding],
    statement: StatementOf,
    text_of: Callable[[str, int], str],
) -> list[dict[str, Any]]:
    """Each statement of `truth` that is said to break and does not, and what happens there."""
    kinds = {(site["file"], site["line"]): sorted(site["kinds"]) for site in truth["sites"]}
    return [
        {
            "place": f"{file}:{line}",
            "text": text_of(file, line),
            "happens": kinds.get((file, line), []),
        }
        for file, line in sorted(_claims(truth, findings, statement).wrong)
    ]


def wrong_names(
    truth: Mapping[str, Any], findings: Sequence[Finding], statement: StatementOf
) -> list[dict[str, Any]]:
    """Each matched site whose finding names another Gb_type than Dynamo, or none."""
    claims = _claims(truth, findings, statement)
    sites = {(site["file"], site["line"]): site for site in truth["sites"]}
    return [
        {
            "place": f"{file}:{line}",
            "text": sites[file, line]["text"],
            "gb_types": gb_types_of(sites[file, line]),
            "named": sorted(claims.named[file, line]),
        }
        for file, line in sorted(claims.matched)
        if not claims.named[file, line] & set(gb_types_of(sites[file, line]))
    ]
