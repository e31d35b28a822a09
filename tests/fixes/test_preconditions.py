"""Every precondition of every rewrite is needed: without it, a case goes wrong.

A case is declined, or offered as unsafe, because of one precondition. With that one left out the
rewrite is offered, or called safe, and, where the case can be run, before and after differ.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pygraph_lint.fixes
from pygraph_lint.analysis.domain.region import Region, RegionKind
from tests.fixes import (
    counterexamples,
    counterexamples_capture,
    counterexamples_forms,
    counterexamples_more,
    counterexamples_numbers,
    counterexamples_placement,
    counterexamples_reads,
)
from tests.fixes.counterexamples import Case
from tests.fixes.equivalence import assert_same, module_of, run
from tests.fixes.support import marked, offer

CASES = [
    *counterexamples.CASES,
    *counterexamples_more.CASES,
    *counterexamples_capture.CASES,
    *counterexamples_numbers.CASES,
    *counterexamples_placement.CASES,
    *counterexamples_forms.CASES,
    *counterexamples_reads.CASES,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rewrite}-{case.precondition}")
def test_precondition_is_needed(case: Case) -> None:
    region = Region("f", ("f",), RegionKind.CAPTURED) if case.captured else None
    fix, _ = offer(case.source, case.code, case.kind, region=region, **case.notes)
    without = frozenset({case.precondition})
    loose, changed = offer(case.source, case.code, case.kind, without, region=region, **case.notes)
    assert fix is not None
    assert loose is not None
    assert loose != fix
    assert fix.applicability != "safe" or loose.message != fix.message
    if case.arguments is None:
        return
    assert loose.edits
    before = module_of(marked(case.source)[0]).forward
    after = module_of(changed).forward
    with pytest.raises(AssertionError):
        assert_same(run(before, case.arguments()), run(after, case.arguments()))


def test_every_precondition_has_a_case() -> None:
    folder = Path(pygraph_lint.fixes.__file__).parent
    declared = {
        (path.stem, name)
        for path in folder.rglob("*.py")
        for name in re.findall(
            r"\.(?:need|safe_if|require|safe_only_if)\(\s*\"([\w-]+)\"", path.read_text("utf-8")
        )
    }
    assert declared == {(case.rewrite, case.precondition) for case in CASES}
