"""What a file's analysis held is freed without the garbage collector, which does not run meanwhile:
whole projects would be kept in memory.
"""

from __future__ import annotations

import gc

from tests.analysis.programs import project

SOURCE = """
import torch

def solve(func, x, steps):
    y = func(x)
    total = y.sum()
    for _ in range(steps):
        y = func(y)
        if y.norm() > 1:
            return y
    return total
"""


def cycles() -> int:
    """Objects in cycles that are left after some analyses; other tests may leave some meanwhile."""
    project(m=SOURCE)
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            project(m=SOURCE)
        return gc.collect()
    finally:
        gc.enable()


def test_the_analysis_of_a_file_leaves_no_cycles() -> None:
    assert min(cycles() for _ in range(3)) < 20
