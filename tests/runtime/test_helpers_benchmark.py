"""The benchmark of the compiled helpers: which processes have them, and what the rows say."""

from __future__ import annotations

import os
from typing import Any

import pytest

from benchmarks.runtime import helpers


def test_processes_take_turns_and_parts_of_default_mode_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def run(arguments: list[str], *rest: Any) -> dict[str, Any]:
        asked.append(os.environ["PYGRAPH_RT_NATIVE"])
        ours = {"1": 3.0, "0": 4.0}[asked[-1]] * len(asked)
        periods = {"default": 5.0 * len(asked), "pygraph": ours}
        return {"period_ms": {mode: {"median": ms} for mode, ms in periods.items()}}

    monkeypatch.setattr(helpers, "run", run)
    (row,) = helpers.rows(["a step"], 3, [], "", 1)
    assert asked == ["1", "0"] * 3
    assert (row["with_helpers"], row["without"]) == (0.6, 0.8)


def test_a_row_with_a_failed_process_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "run", lambda *given: {"error": "exit status 1"})
    (row,) = helpers.rows(["a step"], 3, [], "", 1)
    assert row["rounds"][0]["without"] == {"error": "exit status 1"}
    assert "with_helpers" not in row
