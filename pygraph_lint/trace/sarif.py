"""The join as SARIF: the linter's own report, with what became of each finding, and the misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pygraph_lint.findings import Finding, Location
from pygraph_lint.report import Report, sarif
from pygraph_lint.rules.catalogue import Rule
from pygraph_lint.trace.advice import advice
from pygraph_lint.trace.join import CONFIRMED, Joined, Place


def render(joined: Joined, rules: Mapping[str, Rule]) -> str:
    """The whole report."""
    found = [
        replace(
            one.finding,
            message=f"[{one.status}] {one.finding.message}{f' ({one.why})' if one.why else ''}",
        )
        for one in joined.judged
    ]
    found += [_as_finding(p, joined, rules) for p in joined.places if p.status != CONFIRMED]
    found.sort(key=lambda finding: finding.sort_key)
    return sarif.render(Report(found, rules, lambda path: ""))


def _as_finding(place: Place, joined: Joined, rules: Mapping[str, Rule]) -> Finding:
    code = joined.sources.codes[place.file]
    first, last = place.lines
    end = len(code.lines[last - 1]) + 1 if last <= len(code.lines) else 1
    event = place.first
    why = event.gb_type or event.reason or place.kind
    text = f"[{place.status}] {place.kind}, {place.count} times: {why}. {advice(place, rules)}"
    name = event.gb_id or place.kind.replace(" ", "-")
    return Finding(
        name, name, text.strip(), str(code.path), Location(first, 1), Location(last, end)
    )
