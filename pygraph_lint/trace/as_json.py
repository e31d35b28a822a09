"""The join as JSON, described in docs/how-to/trace.md; ``version`` rises when a key goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pygraph_lint import __version__
from pygraph_lint.report import Report
from pygraph_lint.report.json import as_dict
from pygraph_lint.rules.catalogue import Rule
from pygraph_lint.trace import fix_order
from pygraph_lint.trace.advice import advice, diff
from pygraph_lint.trace.join import MISSED, PREDICTED, Joined, Place
from pygraph_lint.trace.text import in_order

VERSION = 1


def document(joined: Joined, rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The whole join as plain data."""
    report = Report([], rules, lambda path: "")
    codes = joined.sources.codes
    return {
        "version": VERSION,
        "tool": {"name": "pygraph-lint", "version": __version__},
        "traces": [
            {"file": str(t.path), "label": t.label, "graphs": len(t.regions), **t.run}
            for t in joined.traces
        ],
        "places": [_place(place, joined, rules) for place in in_order(joined)],
        "elsewhere": [_place(place, joined, rules) for place in joined.elsewhere],
        "findings": [
            {
                "status": one.status,
                "why": one.why or None,
                "diff": diff(one.finding, codes[one.file]) or None,
                **as_dict(one.finding, report),
            }
            for one in joined.judged
        ],
        "fix_order": [
            {
                "file": _path(step.place.file, joined),
                "line": step.place.lines[0],
                "graphs": step.graphs,
                "known": step.known,
                "uncovers": list(step.uncovers),
                "text": str(step),
            }
            for step in fix_order.order(joined)
        ],
        "totals": {"all": joined.totals(), **{kind: joined.totals(kind) for kind in PREDICTED}},
        "changed": joined.sources.changed,
        "missing": joined.sources.missing,
    }


def render(joined: Joined, rules: Mapping[str, Rule]) -> str:
    """The whole report."""
    return json.dumps(document(joined, rules), indent=2) + "\n"


def _path(file: str, joined: Joined) -> str:
    code = joined.sources.codes.get(file)
    return str(code.path) if code else file


def _place(place: Place, joined: Joined, rules: Mapping[str, Rule]) -> dict[str, Any]:
    event = place.first
    return {
        "file": _path(place.file, joined),
        "line": place.lines[0],
        "end_line": place.lines[1],
        "kind": place.kind,
        "status": place.status,
        "count": place.count,
        "seconds": place.seconds,
        "gb_id": event.gb_id or None,
        "gb_type": event.gb_type or None,
        "reason": event.reason,
        "advice": advice(place, rules) or None,
        "codes": sorted({finding.code for finding in place.findings}),
        "hides": list(place.hides),
        "differs": place.differs or None,
        "events": [{"trace": label, "id": event.name} for label, event in place.events],
    }


def misses(joined: Joined) -> str:
    """What the linter missed, without source, names or paths: fit to be sent to its authors."""
    rows = [
        {
            "kind": place.kind,
            "gb_id": place.first.gb_id or None,
            "gb_type": place.first.gb_type or None,
            "torch": joined.traces[0].run.get("torch"),
            "depth": len(place.first.stack),
            "frame_skipped": place.first.frame_skipped,
            "count": place.count,
        }
        for place in joined.places
        if place.status == MISSED
    ]
    made = {"version": VERSION, "tool": __version__, "misses": rows, "totals": joined.totals()}
    return json.dumps(made, indent=2) + "\n"
