"""The trace of lengths is the same everywhere, and steps are judged beside default mode's for the
same length.
"""

from __future__ import annotations

from benchmarks.shapes.measure import Step, judge, trace


def test_the_trace_is_fixed() -> None:
    lengths = trace(1000, 1)
    assert (min(lengths), max(lengths)) == (64, 2035)
    assert lengths[:4] == trace(4, 1)
    assert 300 < len(set(lengths)) < 700
    assert all(length % 64 == 0 for length in trace(1000, 64))
    assert len(set(trace(1000, 64))) < 32


def steps(*spent: float) -> list[Step]:
    return [Step(ms, 0.0) for ms in spent]


def test_a_step_is_judged_by_its_length() -> None:
    lengths = [64, 128] * 150
    taken = {"default": steps(*[1.0, 4.0] * 150), "other": steps(*[2.0, 4.0] * 150)}
    found = judge(taken, lengths)
    assert found["default"]["late_ratio_worst"] == 1
    assert found["other"]["all_beside_default"] == 1.2
    assert found["other"]["late_ratio_worst"] == 2
    assert found["other"]["late_steps_above_1.5"] == 50


def test_a_length_of_one_step_is_judged_by_those_near_it() -> None:
    lengths = list(range(64, 74))
    usual = steps(*[1.0] * 5, 9.0, *[1.0] * 4)  # one step of default mode was slow
    found = judge({"default": usual, "other": steps(*[1.0] * 10)}, lengths)
    assert found["default"]["late_ratio_worst"] == 9
    assert found["other"]["late_ratio_worst"] == 1


def test_it_is_said_what_slow_steps_did() -> None:
    slow = [Step(9.0, 0.0, True, False), Step(9.0, 0.0, False, True)]
    found = judge({"default": steps(*[1.0] * 8), "other": [*steps(*[1.0] * 6), *slow]}, [64] * 8)
    assert found["other"]["late_steps_above_1.5"] == 2
    assert found["other"]["of_these_compile"] == 1
    assert found["other"]["of_these_allocate_device_memory"] == 1
    assert found["other"]["steps_that_compile_s"] == 0.01
