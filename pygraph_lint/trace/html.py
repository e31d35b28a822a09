"""The join as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from pygraph_lint.report import shown_path
from pygraph_lint.rules.catalogue import Rule
from pygraph_lint.trace.as_json import document
from pygraph_lint.trace.join import Joined

_MARK = "/*DATA*/null"


def render(joined: Joined, rules: Mapping[str, Rule]) -> str:
    """The whole page."""
    page = resources.files("pygraph_lint.trace").joinpath("page.html").read_text("utf-8")
    data = json.dumps(_data(joined, rules), separators=(",", ":"))
    # Inside a script element nothing may look like the end of it, or like a comment.
    return page.replace(_MARK, data.replace("<", "\\u003c"), 1)


def _data(joined: Joined, rules: Mapping[str, Rule]) -> dict[str, Any]:
    made = document(joined, rules)
    used = {place.file for place in joined.places} | {one.file for one in joined.judged}
    codes = [joined.sources.codes[file] for file in sorted(used)]
    made["sources"] = {
        str(code.path): {"name": shown_path(str(code.path)), "lines": code.lines} for code in codes
    }
    # id in its trace, trace, kind, and the times it happened: start and duration in seconds.
    made["timeline"] = [
        [event.name, trace.label, event.kind, [list(one) for one in event.times]]
        for trace in joined.traces
        for event in trace.events
    ]
    return made
