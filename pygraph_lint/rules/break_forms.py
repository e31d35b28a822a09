"""What a finding does on a torch version: recorded runs of Dynamo on the rule pages' bad examples.

A rule page says what its kind of code does as a whole; some forms of it do less, or have another
reason. ``break_forms.json`` has, for each form of a finding, what was seen on each torch
(``benchmarks/break_forms.py`` writes it).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources

from pygraph_lint.analysis.events import Event

# torch's page about a kind of graph break.
SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"
# What is called, where the subject says that: no expression of the user.
_CALLEE = re.compile(r"(torch|numpy|math)\.[\w.]+(\(\))?|\.?\w+\(\)")
# Forms that no example has, and the form that does the same: an operator reads a value, or a
# function is called that Dynamo skips.
_READ_BY_OPERATOR = "PG407 shape.from-value torch.arange"
_READ_BY_FUNCTION = "PG207 sync.equal torch.equal()"
_SKIPPED = "PG503 call warnings.warn"
_TRACED = "PG104 host.data-tensor torch.tensor"
_NO_TENSOR = "PG520 host.numpy-number numpy.prod"
_SAME_AS = {
    "PG301 branch.not": _READ_BY_OPERATOR,
    "PG507 effect.untraced-call pow": "PG507 call open",
    "PG510 call torch.autograd.Variable": _SKIPPED,
    "PG510 call torch.autograd.graph.get_gradient_edge": _SKIPPED,
    "PG520 host.numpy-number branch": "PG301 branch.if",
    "PG520 host.numpy-number loop": "PG305 branch.loop",
    "PG520 host.numpy-number read": _READ_BY_OPERATOR,
    "PG407 shape.from-value": _READ_BY_OPERATOR,
    "PG407 shape.from-value bound": "PG208 sync.index-write",
    "PG407 shape.split": _READ_BY_OPERATOR,
    "PG202 sync.number operator": _READ_BY_OPERATOR,
    "PG202 sync.number gathered": _TRACED,
    "PG202 sync.number multiplied": _TRACED,
    "PG202 sync.number fill": "PG208 sync.index-write",
    "PG203 sync.tolist int": _READ_BY_OPERATOR,
    "PG206 sync.builtin all()": "PG206 sync.builtin any()",
    "PG208 sync.index-write place": _READ_BY_OPERATOR,
    "PG209 sync.format str": "PG501 call print",
    "PG209 sync.format percent": _NO_TENSOR,
    "PG308 branch.membership branch": "PG301 branch.if",
    "PG308 branch.membership container": "PG208 sync.index-write",
    "PG408 call torch.corrcoef": _READ_BY_FUNCTION,
    "PG408 call torch.cov": _READ_BY_FUNCTION,
    "PG408 call torch.nn.functional.gaussian_nll_loss": _READ_BY_FUNCTION,
    "PG408 sync.validated": "PG408 call torch.linalg.inv",
    "PG408 method .corrcoef": _READ_BY_FUNCTION,
    "PG408 method .cov": _READ_BY_FUNCTION,
    "PG502 effect.log loguru": _SKIPPED,
    "PG504 effect.numpy-random array": _TRACED,
}


@dataclass(frozen=True, slots=True)
class Form:
    """What was seen: ``compile`` is ``break`` or ``ok``, ``fullgraph`` is ``error`` or ``ok``;
    ``gb_id`` and ``gb_type`` are torch's names of the break, empty where there is none.
    """

    compile: str
    fullgraph: str
    gb_id: str
    gb_type: str


def _broken(gb_id: str, gb_type: str) -> Form:
    return Form("break", "error", gb_id, gb_type)


_WITH_GRAD = _broken("GB0225", "Attempted to use tensor creation function with requires_grad=True")
# Forms that no example has, and that break like no example (`tests/rules/break_spellings.txt`).
_ALONE = {
    "PG507 effect.untraced-call class": _broken("GB8977", "Invalid call to __build_class__"),
    "PG507 effect.untraced-call copy": _broken("GB4198", "Attempted to copy.deepcopy a tensor"),
    "PG507 effect.untraced-call generic": _broken("GB0147", "Unsupported function call"),
    "PG507 effect.untraced-call key": _broken("GB0193", "invalid call to builtin op handler"),
    "PG507 effect.untraced-call object": _broken(
        "GB0055", "Failed to convert args/kwargs to proxy"
    ),
    "PG507 effect.untraced-call type": _broken(
        "GB7489", "Unsupported argument type in tensor method call"
    ),
    "PG511 effect.parameter-made module": _broken("GB0119", "Uninitialized nn.Module"),
    "PG508 effect.requires-grad made": _WITH_GRAD,
    "PG104 host.data-tensor grad": _WITH_GRAD,
    "PG520 host.numpy-number array": _broken(
        "GB0087", "NotImplementedError/UnsupportedFakeTensorException when running FX node"
    ),
}
_NUMPY = _broken("GB0294", "attempted to trace numpy function unsupported by PyTorch")
_LONG_AS_VALUES_SAY = Form("break", "ok", "GB0036", "Dynamic shape operator")
_NO_TENSOR_MADE = _broken("GB0208", "torch.* op returned non-Tensor")
_VALUE_DECIDES = _broken("GB0033", "Data dependent operator")
# What torch traces of numpy's functions, and where it then stops.
_TRACED_NUMPY = {
    **dict.fromkeys(
        ("argwhere", "bincount", "flatnonzero", "nonzero", "unique"), _LONG_AS_VALUES_SAY
    ),
    **dict.fromkeys(("iscomplexobj", "isscalar", "ndim", "size"), _NO_TENSOR_MADE),
    **dict.fromkeys(("corrcoef", "cov"), _VALUE_DECIDES),
}


@dataclass(frozen=True, slots=True)
class _Table:
    versions: tuple[str, ...]
    gb_types: dict[str, str]
    forms: dict[str, dict[str, list[str]]]


def keys(code: str, event: Event) -> tuple[str, ...]:
    """The forms that an event has, the most exact first: with what the analysis says of it, or with
    what is called, then without.
    """
    kind = f"{code} {event.kind}"
    form = event.note("form")
    if form is not None and f"{kind} {form}" not in _SAME_AS:
        return f"{kind} {form}", kind
    if event.kind in ("call", "method") or _CALLEE.fullmatch(event.subject):
        return f"{kind} {event.subject}", kind
    return (kind,)


def form_of(code: str, event: Event, torch: str | None) -> Form | None:
    """What was seen of a form on a torch version (None: the newest recorded); None where the form
    was never run.
    """
    alone = _ALONE.get(f"{code} {event.kind} {event.note('form')}")
    if alone is not None:
        return alone
    if code == "PG507" and event.subject.startswith("numpy."):
        return _TRACED_NUMPY.get(event.subject.removeprefix("numpy."), _NUMPY)
    table = _table()
    for key in (_alike(code, event), *keys(code, event)):
        recorded = table.forms.get(key)
        if recorded is not None:
            form = _form(table, _at(recorded, table.versions, torch))
            # The product of a shape is no tensor, and no graph can hold it.
            product = event.subject == "numpy.prod"
            return replace(form, fullgraph="error") if product else form
    return _of_all_forms(table, code, torch)


def _alike(code: str, event: Event) -> str:
    """The form that does the same as one that no example has; empty for others."""
    kind, form = f"{code} {event.kind}", event.note("form")
    for said in (f"{kind} {form}", f"{kind} {event.subject}", kind if form is None else ""):
        found = _SAME_AS.get(said)
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


@lru_cache(maxsize=1)
def _table() -> _Table:
    text = resources.files("pygraph_lint.rules").joinpath("break_forms.json").read_text("utf-8")
    data = json.loads(text)
    return _Table(tuple(data["versions"]), data["gb_types"], data["forms"])
