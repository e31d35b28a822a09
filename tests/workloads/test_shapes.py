"""The trace of lengths is the same everywhere, and steps are judged beside default mode's for the
same length.
"""

from __future__ import annotations

from benchmarks.shapes.measure import judge, trace


def test_the_trace_is_fixed() -> None:
    lengths = trace(1000, 1)
    assert (min(lengths), max(lengths)) == (64, 2035)
    assert lengths[:4] == trace(4, 1)
    assert 300 < len(set(lengths)) < 700
    assert all(length % 64 == 0 for length in trace(1000, 64))
    assert len(set(trace(1000, 64))) < 32


def test_a_step_is_judged_by_its_length() -> None:
    lengths = [64, 128] * 150
    spent = {"default": [1.0, 4.0] * 150, "other": [2.0, 4.0] * 150}
    found = judge(spent, lengths)
    assert found["default"]["late_ratio_worst"] == 1
    assert found["other"]["all_beside_default"] == 1.2
    assert found["other"]["late_ratio_worst"] == 2
    assert found["other"]["late_steps_above_1.5"] == 50
