"""The causes of breaks that a truth has only as breaks in a loop, from a second measurement.

Dynamo reports a break in a loop, or under a context manager, for the place of another break. A
recorder that does not read the message of such a report loses the other break's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.lint_truth.findings import StatementOf
from benchmarks.lint_truth.gb_types import FOLLOWS, gb_types_of
from benchmarks.lint_truth.truth import break_kind, detail_of


def without_cause(truth: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sites whose breaks all follow from others that are not named."""
    return [
        site
        for site in truth["sites"]
        if "break" in site["kinds"] and set(gb_types_of(site)) <= FOLLOWS
    ]


def runs_without_cause(truth: Mapping[str, Any]) -> list[str]:
    """One run ("model:mode") for each of these sites, each once."""
    return sorted({site["kinds"]["break"]["in"][0] for site in without_cause(truth)})


def add_causes(
    truth: Mapping[str, Any], records: Iterable[Mapping[str, Any]], statement: StatementOf
) -> int:
    """Name the causes that `records` of the stage `trace` show; returns how many sites got one.

    A break counts where `truth` has the same break without its cause, at the same statement and in
    the same run. Nothing else of `truth` changes.
    """
    sites = {(site["file"], site["line"]): site for site in truth["sites"]}
    named: set[tuple[str, int]] = set()
    for record in records:
        run = f"{record.get('model')}:{record.get('mode')}"
        seen = record.get("result", {}) if record.get("stage") == "trace" else {}
        for found in seen.get("breaks", ()):
            place = found["file"], statement(found["file"], found["line"])
            if place in sites and _name(sites[place], found, run):
                named.add(place)
    return len(named)


def _name(site: dict[str, Any], found: Mapping[str, Any], run: str) -> bool:
    """Put the break `found` in the place of the same one without a cause; whether it was there."""
    broken = site["kinds"].get("break", {"what": [], "in": []})
    follows, _, cause = found["kind"].partition(": ")
    bare = detail_of({**found, "kind": follows})
    if not (cause and follows in FOLLOWS and break_kind(found["kind"]) == "break"):
        return False
    if bare not in broken["what"] or run not in broken["in"]:
        return False
    broken["what"] = sorted({*broken["what"], detail_of(found)} - {bare})
    return True
