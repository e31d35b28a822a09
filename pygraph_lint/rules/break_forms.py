"""What a finding does on a torch version: recorded runs of Dynamo on the rule pages' bad examples.

A rule page says what its kind of code does as a whole; some forms of it do less, or have another
reason. ``break_forms.json`` has, for each form of a finding, what was seen on each torch
(``benchmarks/break_forms.py`` writes it), ``break_forms_alike.json`` says of forms without an
example what they do.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Any

from pygraph_lint.analysis.domain.events import Event

# torch's page about a kind of graph break.
SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"
# What is called, where the subject says that: no expression of the user.
_CALLEE = re.compile(r"(torch|numpy|c?math)\.[\w.]+(\(\))?|\.?\w+\(\)")
_SKIPPED = "PG503 call warnings.warn"  # a call that Dynamo skips, and breaks at


@dataclass(frozen=True, slots=True)
class Form:
    """What was seen: ``compile`` is ``break`` or ``ok``, ``fullgraph`` is ``error`` or ``ok``;
    ``gb_id`` and ``gb_type`` are torch's names of the break, empty where there is none.
    """

    compile: str
    fullgraph: str
    gb_id: str
    gb_type: str


@dataclass(frozen=True, slots=True)
class _Table:
    versions: tuple[str, ...]
    gb_types: dict[str, str]
    forms: dict[str, dict[str, list[str]]]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Forms that no example has: ``same_as`` has the form that does the same, ``alone`` what those
    do that break like no example (``tests/rules/break_spellings.txt``). ``numpy`` has what happens
    to numpy's functions where torch traces them, and by "" where it does not.
    """

    same_as: dict[str, str]
    alone: dict[str, Form]
    numpy: dict[str, Form]


def keys(code: str, event: Event) -> tuple[str, ...]:
    """The forms that an event has, the most exact first: with what the analysis says of it, or with
    what is called, then without.
    """
    kind = f"{code} {event.kind}"
    form = event.note("form")
    if form is not None and f"{kind} {form}" not in _alike().same_as:
        return f"{kind} {form}", kind
    if event.kind in ("call", "method") or _CALLEE.fullmatch(event.subject):
        return f"{kind} {event.subject}", kind
    return (kind,)


def form_of(code: str, event: Event, torch: str | None) -> Form | None:
    """What was seen of a form on a torch version (None: the newest recorded); None where the form
    was never run.
    """
    known = _alike()
    kind = f"{code} {event.kind}"
    for key in (f"{kind} {event.note('form') or event.subject}", kind):
        if key in known.alone:
            return known.alone[key]
    if code == "PG507" and event.subject.startswith("numpy."):
        holder, _, name = event.subject.removeprefix("numpy.").rpartition(".")
        return known.numpy.get(f".{name}" if holder else name, known.numpy[""])
    table = _table()
    for key in (_same_as(code, event), *keys(code, event)):
        recorded = table.forms.get(key)
        if recorded is not None:
            form = _form(table, _at(recorded, table.versions, torch))
            # The product of a shape is no tensor, and no graph can hold it.
            product = event.subject == "numpy.prod"
            return replace(form, fullgraph="error") if product else form
    return _of_all_forms(table, code, torch)


def _same_as(code: str, event: Event) -> str:
    """The form that does the same as one that no example has; empty for others."""
    kind, form = f"{code} {event.kind}", event.note("form")
    for said in (f"{kind} {form}", f"{kind} {event.subject}", kind if form is None else ""):
        found = _alike().same_as.get(said)
        if found is not None:
            return found
    written_in_python = event.kind == "call" and "." in event.subject
    return _SKIPPED if code == "PG507" and written_in_python else ""


def _form(table: _Table, outcome: list[str]) -> Form:
    return Form(outcome[0], outcome[2], outcome[1], table.gb_types.get(outcome[1], ""))


def _of_all_forms(table: _Table, code: str, torch: str | None) -> Form | None:
    """What all recorded forms of a rule do, where they do the same."""
    seen = {
        tuple(_at(recorded, table.versions, torch))
        for key, recorded in table.forms.items()
        if key.startswith(f"{code} ")
    }
    return _form(table, list(seen.pop())) if len(seen) == 1 else None


def rules_of(gb_id: str) -> dict[str, list[str]]:
    """The codes of the rules with a form that breaks so, each with the versions where it does."""
    table = _table()
    found: dict[str, list[str]] = {}
    for key, recorded in table.forms.items():
        for version in table.versions:
            if _at(recorded, table.versions, version)[1] == gb_id:
                versions = found.setdefault(key.partition(" ")[0], [])
                if version not in versions:
                    versions.append(version)
    return {code: sorted(versions) for code, versions in sorted(found.items())}


def name_of(gb_id: str) -> str:
    """torch's name of a kind of break; empty for one that no example has."""
    return _table().gb_types.get(gb_id, "")


def _at(recorded: dict[str, list[str]], versions: tuple[str, ...], torch: str | None) -> list[str]:
    """The outcome on a version, or on the nearest one that was recorded."""
    wanted = versions[-1] if torch is None else torch
    outcomes = {version_numbers(version): outcome for version, outcome in recorded.items()}
    below = [number for number in outcomes if number <= version_numbers(wanted)]
    return outcomes[max(below) if below else min(outcomes)]


def version_numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, to be compared."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _read(name: str) -> Any:
    return json.loads(resources.files("pygraph_lint.rules").joinpath(name).read_text("utf-8"))


@lru_cache(maxsize=1)
def _table() -> _Table:
    data = _read("break_forms.json")
    return _Table(tuple(data["versions"]), data["gb_types"], data["forms"])


@lru_cache(maxsize=1)
def _alike() -> _Alike:
    data = _read("break_forms_alike.json")
    same_as = {form: other for other, forms in data["same_as"].items() for form in forms}
    alone = {form: Form(*outcome) for form, outcome in data["alone"].items()}
    return _Alike(same_as, alone, {name: Form(*each) for name, each in data["numpy"].items()})
