"""Offers a rewrite for each finding of a file, and applies those that are wanted."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pygraph_lint.findings import Edit, Finding, Fix
from pygraph_lint.fixes import (
    always_layer,
    always_run,
    attribute_buffer,
    autocast_cache,
    backend_flags,
    builtin_math,
    caller_sizes,
    constant_buffer,
    elements_list,
    factory_device,
    factory_gradient,
    finite_guard,
    generator_registered,
    given_number,
    grouped_experts,
    grouped_slices,
    grouped_split,
    guard_check,
    guard_effect,
    guard_logging,
    host_bounds,
    host_divisor,
    host_function,
    host_list,
    host_maximum,
    host_number,
    host_positions,
    host_product,
    host_random,
    host_rows,
    host_setup,
    item_arithmetic,
    item_branch,
    kept_answer,
    kept_list,
    kept_output,
    last_masked,
    log_once,
    mask_copy,
    mask_unless_full,
    mask_write,
    masked_call,
    masked_reduction,
    number_argument,
    number_buffer,
    number_result,
    one_read,
    optimizer_capturable,
    plain_property,
    random_skip,
    row_list,
    scalar_fill,
    scalar_tensor,
    setup_once,
    state_branch,
    stream_order,
    tensor_assert,
    tensor_branch,
    tensor_chain,
    tensor_raise,
    tensor_step,
    unique_count,
)
from pygraph_lint.fixes.names import FileNames
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Source, line_starts


class Rewrite(NamedTuple):
    """A rewrite and the codes of the rules it serves.

    ``propose`` fills the proposal in or raises Declined. One that goes ``first`` is offered beside
    a safe one that follows: it removes the break in more cases.
    """

    name: str
    codes: tuple[str, ...]
    propose: Callable[[Proposal], None]
    first: bool = False


# In order of preference, where several serve a rule.
REWRITES: tuple[Rewrite, ...] = tuple(
    Rewrite(
        module.__name__.rpartition(".")[2],
        module.CODES,
        module.propose,
        first=module in (always_run, always_layer),
    )
    for module in (
        factory_device,
        number_result,
        number_buffer,
        scalar_tensor,
        scalar_fill,
        attribute_buffer,
        constant_buffer,
        finite_guard,
        always_run,
        always_layer,
        random_skip,
        state_branch,
        tensor_branch,
        tensor_chain,
        mask_unless_full,
        tensor_raise,
        tensor_assert,
        item_arithmetic,
        item_branch,
        tensor_step,
        elements_list,
        builtin_math,
        mask_write,
        masked_call,
        mask_copy,
        masked_reduction,
        last_masked,
        unique_count,
        host_random,
        kept_list,
        host_rows,
        host_maximum,
        host_bounds,
        host_positions,
        number_argument,
        grouped_slices,
        grouped_split,
        grouped_experts,
        one_read,
        caller_sizes,
        row_list,
        host_list,
        host_product,
        given_number,
        host_function,
        host_divisor,
        host_number,
        host_setup,
        setup_once,
        plain_property,
        kept_answer,
        optimizer_capturable,
        autocast_cache,
        kept_output,
        generator_registered,
        stream_order,
        backend_flags,
        log_once,
        guard_logging,
        guard_effect,
        factory_gradient,
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


def _offer(
    source: Source, names: FileNames, finding: Finding, without: frozenset[str]
) -> Fix | None:
    """The rewrite that serves a finding best, else why there is none."""
    rewrites = [rewrite for rewrite in REWRITES if finding.code in rewrite.codes]
    if not rewrites:
        return None
    path = source.path(source.at(finding.location), source.at(finding.end_location))
    offers: list[Fix] = []
    bolder: Fix | None = None
    for rewrite in rewrites:
        offer = _propose(rewrite, Proposal(source, names, finding, path, without))
        if offer.applicability == "safe":
            return replace(offer, bolder=bolder)
        if rewrite.first and offer.edits:
            bolder = bolder or offer
        elif not rewrite.first:
            offers.append(offer)
    if bolder is not None:
        return bolder
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
        return Fix("declined", proposal.message, str(declined))
    return proposal.fix()


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
