"""Offers a rewrite for each finding of a file, and applies those that are wanted."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from types import ModuleType
from typing import Any

from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.findings import Edit, Finding, Fix
from pygraph_lint.fixes import rewrites
from pygraph_lint.fixes.engine.changes import Change, wrapped
from pygraph_lint.fixes.engine.names import forget
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site, propose
from pygraph_lint.fixes.engine.source import Source, line_starts
from pygraph_lint.fixes.engine.trees import File


def _found() -> Iterator[Rewrite]:
    """The rewrites: a class each, in a file of its name."""
    for item in pkgutil.walk_packages(rewrites.__path__, f"{rewrites.__name__}."):
        module = importlib.import_module(item.name)
        yield from (each() for each in vars(module).values() if _is_rewrite(each, module))


def _is_rewrite(each: Any, module: ModuleType) -> bool:
    return (
        isinstance(each, type) and issubclass(each, Rewrite) and each.__module__ == module.__name__
    )


# Where several serve a rule: the first one that is safe, else the first that is unsafe.
REWRITES: tuple[Rewrite, ...] = tuple(sorted(_found(), key=lambda each: (each.order, each.name)))
_OF_RULES: Mapping[str, Sequence[Rewrite]] = {
    code: [each for each in REWRITES if code in each.codes]
    for code in {code for each in REWRITES for code in each.codes}
}
EARLY = frozenset(each.name for each in REWRITES if each.early)


def _serving(finding: Finding) -> Sequence[Rewrite]:
    """The rewrites that serve a finding's rule."""
    return _OF_RULES.get(finding.code, ())


def fix_text(
    text: str, findings: Sequence[Finding], *, without: frozenset[str] = frozenset()
) -> tuple[Fix | None, ...]:
    """The rewrite offered for each finding, in the same order.

    None where no rewrite serves the finding's rule; a ``declined`` one where a precondition
    fails. Edits are relative to ``text``. ``without`` names preconditions to leave out: for tests
    that show each is needed.
    """
    if not any(map(_serving, findings)):
        return (None,) * len(findings)
    try:
        source = Source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (None,) * len(findings)
    place = _Places(source, findings, without)
    try:
        return tuple(_offer(place, finding) for finding in findings)
    except RecursionError:
        return (None,) * len(findings)
    finally:
        forget()


def answers(text: str, findings: Sequence[Finding]) -> tuple[tuple[Fix, ...], ...]:
    """What each rewrite of a finding's rule says about it: for counting, not for fixing.

    Raises what ``ast.parse`` raises.
    """
    places = _Places(Source(text), findings, frozenset())
    return tuple(
        tuple(places.answer(rewrite, finding) for rewrite in _serving(finding))
        for finding in findings
    )


class _Places:
    """The places of a file's findings."""

    def __init__(
        self, source: Source, findings: Sequence[Finding], without: frozenset[str]
    ) -> None:
        self._file = File(source, FileQueries(source.tree, findings[0].view, source.text))
        self._findings = findings
        self._without = without
        self._answers: dict[tuple[str, int], Fix] = {}

    @cached_property
    def _believing(self) -> File:
        return self._file.believing()

    def of(self, finding: Finding, believing: bool = False) -> Site:
        """A new site, in which nothing is changed yet, and of which nothing was asked."""
        file = self._believing if believing else self._file
        file.queries.believed.clear()
        source = file.source
        path = source.path(source.at(finding.location), source.at(finding.end_location))
        return Site(file, finding, path, self._without, self._findings)

    def answer(self, rewrite: Rewrite, finding: Finding) -> Fix:
        """What a rewrite says about a finding. One that leaves code out of compiled code is only
        told of the findings that no other one removes.
        """
        key = rewrite.name, id(finding)
        if key not in self._answers:
            places = self._remaining if rewrite.trusting else self
            self._answers[key] = _propose(rewrite, places, finding)
        return self._answers[key]

    @cached_property
    def _remaining(self) -> _Places:
        """The same places, with those findings only that no rewrite removes where they stand."""
        left = copy(self)
        left._findings = [
            finding
            for finding in self._findings
            if not any(
                offer.applicability in ("safe", "unsafe") and not offer.remains
                for rewrite in _serving(finding)
                if not rewrite.trusting
                for offer in [self.answer(rewrite, finding)]
            )
        ]
        return left


def _offer(places: _Places, finding: Finding) -> Fix | None:
    """The rewrite that serves a finding best, else why there is none."""
    rewrites = _serving(finding)
    if not rewrites:
        return None
    offers: list[Fix] = []
    for rewrite in rewrites:
        offer = places.answer(rewrite, finding)
        if offer.applicability == "safe":
            return offer
        offers.append(offer)
    usable = [offer for offer in offers if offer.applicability == "unsafe"]
    concerned = [offer for offer in offers if offer.reason]
    near = [offer for offer in offers if offer.condition]
    return (usable or concerned or near or offers)[0]


def _propose(rewrite: Rewrite, places: _Places, finding: Finding) -> Fix:
    """What a rewrite offers. Where proof is missing of what the finding rests on, too: the same on
    trust, as an unsafe one.
    """
    site = places.of(finding)
    offer = _asked(rewrite, site)
    if offer.applicability != "declined" or not site.ask.believed:
        return offer
    site = places.of(finding, believing=True)
    second = _asked(rewrite, site)
    if second.applicability == "declined":
        return offer
    names = ", ".join(f"`{name}`" for name in sorted(site.ask.believed))
    if names and not rewrite.trusting:
        site.doubts.append(f"{names} must be a tensor, as the finding takes it to be")
    return site.fix(rewrite.name)


def _asked(rewrite: Rewrite, site: Site) -> Fix:
    try:
        if not rewrite.in_strings and any(isinstance(node, ast.JoinedStr) for node in site.path):
            raise Declined("the code is inside an f-string")
        propose(rewrite, site)
    except Declined as declined:
        return Fix(
            "declined",
            site.message,
            str(declined),
            rewrite=rewrite.name,
            condition=declined.condition,
        )
    return site.fix(rewrite.name)


def apply(text: str, fixes: Sequence[Fix]) -> tuple[str, list[Fix]]:
    """The text with those fixes that do not overlap an earlier one, and which these are.

    An edit that two fixes share word for word (an import both need) is made once. Of two fixes that
    add functions of one name the second is left out: asked again, it takes another name. A line
    that only several of them make too long is broken.
    """
    starts = line_starts(text)
    taken: dict[tuple[int, int, str], None] = {}
    defined: set[str] = set()
    applied: list[Fix] = []
    for fix in fixes:
        edits = [_absolute(starts, edit) for edit in fix.edits]
        new = [edit for edit in edits if edit not in taken]
        names = {name for *_, content in new for name in _DEFINED.findall(content)}
        overlap = any(_overlap(edit, other) for edit in new for other in taken)
        if not new or overlap or not names.isdisjoint(defined):
            continue
        taken.update(dict.fromkeys(new))
        defined |= names
        applied.append(fix)
    changes = [Change(*edit) for edit in sorted(taken)]
    rows = {bisect(starts, change.start) for change in changes}
    if len(applied) > 1 and len(rows) < len(changes):
        changes = wrapped(Source(text), changes)
    for start, end, content, _ in reversed(changes):
        text = text[:start] + content + text[end:]
    return text, applied


_DEFINED = re.compile(r"^def (\w+)\(", re.MULTILINE)


def _overlap(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    if one[:2] == other[:2]:
        return True
    return one[0] < other[1] and other[0] < one[1]


def _absolute(starts: list[int], edit: Edit) -> tuple[int, int, str]:
    start = starts[edit.location.row - 1] + edit.location.column - 1
    end = starts[edit.end_location.row - 1] + edit.end_location.column - 1
    return start, end, edit.content
