"""What findings claim about graph breaks: is there one, and is it called by its right name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.lint_truth.findings import Finding, StatementOf, statements_of
from benchmarks.lint_truth.gb_types import gb_types_of
from benchmarks.lint_truth.truth import is_model_code

#: Dynamo stopped at the statement, or could not say; neither speaks against a claim of a break.
NOT_AGAINST = frozenset({"break", "dynamo_error", "break_below", "dynamo_error_below"})

Place = tuple[str, int]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def break_claims(
    truth: Mapping[str, Any], findings: Sequence[Finding], statement: StatementOf
) -> dict[str, Any]:
    """Claims of a break where torch has none, and how many Gb_types are right.

    A claim counts where Dynamo traced the statement; a statement counts once. The Gb_type of a
    matched site is right if any finding there names one that Dynamo gave; `gb_types` is None where
    no finding has the field.
    """
    claimed: dict[Place, set[str]] = {}
    for finding in findings:
        if finding.breaks and is_model_code(finding.file):
            place = (finding.file, statement(finding.file, finding.line))
            claimed.setdefault(place, set()).update(filter(None, [finding.gb_type]))
    sites = {(site["file"], site["line"]): site for site in truth["sites"]}
    broken = {place for place, site in sites.items() if "break" in site["kinds"]}
    open_to_doubt = {place for place, site in sites.items() if NOT_AGAINST & set(site["kinds"])}
    traced = statements_of(truth["traced"], statement)
    wrong = [place for place in claimed if place in traced and place not in open_to_doubt]
    matched = [place for place in claimed if place in broken]
    return {
        "break_claims": {
            "claims": len(wrong) + len(matched),
            "without_a_break": len(wrong),
            "share": _share(len(wrong), len(wrong) + len(matched)),
        },
        "gb_types": _named_rightly(matched, claimed, sites) if any(claimed.values()) else None,
    }


def _named_rightly(
    matched: Sequence[Place],
    claimed: Mapping[Place, set[str]],
    sites: Mapping[Place, Mapping[str, Any]],
) -> dict[str, Any]:
    right = sum(bool(claimed[place] & set(gb_types_of(sites[place]))) for place in matched)
    named = sum(bool(claimed[place]) for place in matched)
    return {
        "matched": len(matched),
        "named": named,
        "right": right,
        "share": _share(right, len(matched)),
    }
