"""Dynamo's kinds of graph breaks: names, ids, and how often each was seen on which statement."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any

#: What torch's own explanations say, for the kinds seen here, in fewer words.
EXPLANATIONS = Path(__file__).with_name("gb_explanations.json")

#: Reports that stand for another break on the same lines; the cause follows the colon.
_CAUSE = re.compile(r"^(?:graph break in loop|Graph break under GenericContextWrappingVariable): ")
FOLLOWS = frozenset({"graph break in loop", "Graph break under GenericContextWrappingVariable"})
_PLACE = re.compile(r" \(in [^()]*\)$")


@cache
def ids() -> dict[str, str]:
    """Gb_type -> id ("GB0170"), from the installed torch's own registry; the lowest of several.

    Empty without torch.
    """
    spec = util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return {}
    path = Path(spec.submodule_search_locations[0]) / "_dynamo" / "graph_break_registry.json"
    if not path.is_file():
        return {}
    found: dict[str, str] = {}
    for number, versions in sorted(json.loads(path.read_text()).items()):
        for version in versions:
            found.setdefault(version["Gb_type"], number)
    return found


def gb_type_of(what: str) -> str:
    """The Gb_type in a recorded break's description: the cause, without the place."""
    return _CAUSE.sub("", _PLACE.sub("", what))


def gb_types_of(site: Mapping[str, Any]) -> list[str]:
    """The Gb_types seen at a site; those that only follow from others if there is no other."""
    found = {gb_type_of(text) for text in site["kinds"].get("break", {}).get("what", ())}
    return sorted(found - FOLLOWS or found)


def named(site: Mapping[str, Any], known: Mapping[str, str]) -> list[dict[str, str]]:
    """The site's Gb_types with their ids ("" where the registry has none)."""
    return [{"gb_type": kind, "gb_id": known.get(kind, "")} for kind in gb_types_of(site)]


def name_breaks(sites: Iterable[dict[str, Any]]) -> None:
    """Write `named` beside each site at which the graph breaks."""
    known = ids()
    for site in sites:
        if "break" in site["kinds"]:
            site["gb"] = named(site, known)


_KEYWORD = re.compile(r"^(if|elif|for|while|with|return|assert|raise|del|yield|async|def|class)\b")
_ASSIGNED = re.compile(r"^[\w.\[\](), *:'\"\-]+?\s*(?:[-+*/|&@%^]|//|<<|>>)?=[^=]")


def statement_kind(text: str) -> str:
    """What kind of statement a site's text is: "if", "for", "assignment", "call", ..."""
    keyword = _KEYWORD.match(text)
    if keyword:
        return "if" if keyword[1] == "elif" else keyword[1]
    try:
        node = ast.parse(text).body[0]
    except (SyntaxError, IndexError):
        return "assignment" if _ASSIGNED.match(text) else "other"
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        return "assignment"
    if isinstance(node, ast.Expr):
        return "call" if isinstance(node.value, ast.Call) else "expression"
    return "other"


def by_event(
    sites: Iterable[Mapping[str, Any]],
    known: Mapping[str, str],
    explanations: Mapping[str, str],
) -> dict[str, Any]:
    """Gb_type -> id, number of sites, explanation, sites by kind of statement; most seen first."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for site in sites:
        for kind in gb_types_of(site):
            counts[kind][statement_kind(site["text"])] += 1
    ordered = sorted(counts, key=lambda kind: (-counts[kind].total(), kind))
    return {
        kind: {
            "gb_id": known.get(kind, ""),
            "sites": counts[kind].total(),
            "explanation": explanations.get(kind, ""),
            "statements": dict(counts[kind].most_common()),
        }
        for kind in ordered
    }
