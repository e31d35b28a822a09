"""Offers a rewrite for each finding of a file, and applies those that are wanted."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pygraph_lint.findings import Edit, Finding, Fix
from pygraph_lint.fixes import (
    backend_flags,
    constant_buffer,
    factory_device,
    finite_guard,
    grouped_experts,
    guard_check,
    guard_effect,
    guard_logging,
    host_function,
    host_number,
    host_random,
    host_rows,
    host_setup,
    item_arithmetic,
    log_once,
    mask_unless_full,
    random_skip,
    scalar_fill,
    tensor_assert,
    tensor_branch,
    tensor_raise,
)
from pygraph_lint.fixes.names import FileNames
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Source, line_starts


class Rewrite(NamedTuple):
    """A rewrite and the codes of the rules it serves.

    ``propose`` fills the proposal in or raises Declined.
    """

    name: str
    codes: tuple[str, ...]
    propose: Callable[[Proposal], None]


# In order of preference, where several serve a rule.
REWRITES: tuple[Rewrite, ...] = tuple(
    Rewrite(
        module.__name__.rpartition(".")[2],
        module.CODES,
        module.propose,
    )
    for module in (
        factory_device,
        scalar_fill,
        constant_buffer,
        finite_guard,
        random_skip,
        tensor_branch,
        mask_unless_full,
        tensor_raise,
        tensor_assert,
        item_arithmetic,
        host_random,
        host_rows,
        grouped_experts,
        host_function,
        host_number,
        host_setup,
        backend_flags,
        log_once,
        guard_logging,
        guard_effect,
        guard_check,
    )
)


def fix_text(
    text: str, findings: Sequence[Finding], *, without: frozenset[str] = frozenset()
) -> tuple[Fix | None, ...]:
    """The rewrite offered for each finding, in the same order.

    None where no rewrite serves the finding's rule; a ``declined`` one where a precondition
    fails. Edits are relative to ``text``. ``without`` names preconditions to leave out: for tests
    that show each is needed.
    """
    if not any(finding.code in rewrite.codes for finding in findings for rewrite in REWRITES):
        return (None,) * len(findings)
    try:
        source = Source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (None,) * len(findings)
    names = FileNames(source)
    return tuple(_offer(source, names, finding, without) for finding in findings)


def answers(text: str, findings: Sequence[Finding]) -> tuple[tuple[Fix, ...], ...]:
    """What each rewrite of a finding's rule says about it: for counting, not for fixing.

    Raises what ``ast.parse`` raises.
    """
    source = Source(text)
    names = FileNames(source)
    return tuple(
        tuple(
            _propose(rewrite, Proposal(source, names, finding, path, frozenset()))
            for rewrite in REWRITES
            if finding.code in rewrite.codes
        )
        for finding in findings
        for path in (source.path(source.at(finding.location), source.at(finding.end_location)),)
    )


def _offer(
    source: Source, names: FileNames, finding: Finding, without: frozenset[str]
) -> Fix | None:
    """The rewrite that serves a finding best, else why there is none."""
    rewrites = [rewrite for rewrite in REWRITES if finding.code in rewrite.codes]
    if not rewrites:
        return None
    path = source.path(source.at(finding.location), source.at(finding.end_location))
    offers: list[Fix] = []
    for rewrite in rewrites:
        offer = _propose(rewrite, Proposal(source, names, finding, path, without))
        if offer.applicability == "safe":
            return offer
        offers.append(offer)
    usable = [offer for offer in offers if offer.applicability == "unsafe"]
    concerned = [offer for offer in offers if offer.reason]
    return (usable or concerned or offers)[0]


def _propose(rewrite: Rewrite, proposal: Proposal) -> Fix:
    try:
        statement = rewrite.name.startswith("guard_")
        if not statement and any(isinstance(node, ast.JoinedStr) for node in proposal.path):
            raise Declined("the code is inside an f-string")
        rewrite.propose(proposal)
    except Declined as declined:
        return Fix(
            "declined",
            proposal.message,
            str(declined),
            rewrite=rewrite.name,
            condition=declined.condition,
        )
    return proposal.fix(rewrite.name)


def apply(text: str, fixes: Sequence[Fix]) -> tuple[str, list[Fix]]:
    """The text with those fixes that do not overlap an earlier one, and which these are.

    An edit that two fixes share word for word (an import both need) is made once.
    """
    starts = line_starts(text)
    taken: dict[tuple[int, int, str], None] = {}
    applied: list[Fix] = []
    for fix in fixes:
        edits = [_absolute(starts, edit) for edit in fix.edits]
        new = [edit for edit in edits if edit not in taken]
        if not new or any(_overlap(edit, other) for edit in new for other in taken):
            continue
        taken.update(dict.fromkeys(new))
        applied.append(fix)
    for start, end, content in sorted(taken, reverse=True):
        text = text[:start] + content + text[end:]
    return text, applied


def _overlap(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    if one[:2] == other[:2]:
        return True
    return one[0] < other[1] and other[0] < one[1]


def _absolute(starts: list[int], edit: Edit) -> tuple[int, int, str]:
    start = starts[edit.location.row - 1] + edit.location.column - 1
    end = starts[edit.end_location.row - 1] + edit.end_location.column - 1
    return start, end, edit.content
