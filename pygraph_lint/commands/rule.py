"""``pygraph-lint rule CODE`` and ``rules``: the catalogue, printed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pygraph_lint.commands.output import write
from pygraph_lint.commands.own_rules import rules_here
from pygraph_lint.errors import SettingsError
from pygraph_lint.files.suggest import nearest
from pygraph_lint.report import consequences_in_words
from pygraph_lint.rules.break_forms import SITE, name_of, rules_of
from pygraph_lint.rules.catalogue import Rule

_GB_ID = re.compile(r"GB\d{4}", re.IGNORECASE)
_FIX = {
    "none": "by hand",
    "safe": "`--fix`",
    "unsafe": "`--fix --unsafe-fixes`",
    "sometimes": "`--fix` where that is provably safe",
}


def _as_dict(rule: Rule) -> dict[str, Any]:
    return {**asdict(rule), "url": rule.url}


def rule(code: str, form: str) -> int:
    """Print the rule of a code or name, or list the rules whose codes start so; the exit code.

    Raises SettingsError if there is none.
    """
    known = rules_here()
    if _GB_ID.fullmatch(code):
        return _of_break(code.upper(), form)
    listed = [one for one in known.values() if one.code.startswith(code.upper())]
    if len(listed) > 1 or (listed and listed[0].code != code.upper()):
        return _list(listed, form)
    found = known.get(code.upper()) or next((r for r in known.values() if r.name == code), None)
    if found is None:
        names = [*known, *(one.name for one in known.values())]
        near = nearest(code.upper(), names) or nearest(code, names)
        hint = f"did you mean {near}?" if near else "`pygraph-lint rules` lists them"
        raise SettingsError(f"there is no rule {code!r}; {hint}")
    if form == "json":
        write(json.dumps(_as_dict(found), indent=2) + "\n")
        return 0
    follows = "; ".join(consequences_in_words(found.consequences)) or "nothing at run time"
    status = "on by default" if found.status == "default" else "off unless --preview"
    write(
        f"# {found.code} {found.name}\n\n"
        f"Impact: {follows}.\n"
        f"Fix: {_FIX[found.fix]}. Status: {status}. Torch {found.torch}.\n\n"
        f"{found.prose}\n"
    )
    return 0


def _of_break(gb_id: str, form: str) -> int:
    """Print which rules report a kind of graph break, by torch's id for it."""
    known = rules_here()
    codes = {code: versions for code, versions in rules_of(gb_id).items() if code in known}
    page = SITE.format(gb_id.lower())
    if form == "json":
        said = {"gb_id": gb_id, "gb_type": name_of(gb_id), "rules": codes, "url": page}
        write(json.dumps(said, indent=2) + "\n")
        return 0
    name = name_of(gb_id)
    write(f"{gb_id} {name}".rstrip() + "\n")
    for code, versions in codes.items():
        write(f"{code}  {known[code].name}  (torch {', '.join(versions)})\n")
    if not codes:
        write("no rule reports it\n")
    write(f"torch says: {page}\n")
    return 0


def rules(form: str) -> int:
    """Print all rules, one a line; the exit code."""
    return _list(list(rules_here().values()), form)


def _list(listed: Sequence[Rule], form: str) -> int:
    if form == "json":
        write(json.dumps([_as_dict(one) for one in listed], indent=2) + "\n")
        return 0
    width = max(len(one.name) for one in listed)
    for one in listed:
        marks = "fix" if one.fix != "none" else ""
        marks += " preview" if one.status == "preview" else ""
        follows = "; ".join(consequences_in_words(one.consequences))
        write(f"{one.code}  {one.name:{width}}  {marks.strip():7}  {follows}".rstrip() + "\n")
    return 0
