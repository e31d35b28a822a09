"""What Dynamo says of a break in a loop: the loop's own report, and the break that caused it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.lint_truth import dynamo_breaks  # noqa: E402


def _in_a_loop(x: Any) -> Any:
    for _ in range(2):
        if x.sum() > 0:
            x = x + 1
    return x


def test_the_cause_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        dynamo_breaks, "relative_name", lambda file: file if file == __file__ else None
    )
    seen = dynamo_breaks.observe(_in_a_loop, 1, x=torch.ones(3))
    kinds = {found.kind for found in seen.breaks}
    assert kinds == {"graph break in loop: Data-dependent branching"}
