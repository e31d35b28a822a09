"""The frameworks' scripts run under the backend, in small sizes; those whose packages are missing
are skipped by name.
"""

from __future__ import annotations

import importlib.util

import pytest

from benchmarks.frameworks import base
from benchmarks.frameworks.measure import furthest, run


@pytest.mark.parametrize("name", base.names())
def test_a_framework_runs_and_begins_as_without_compilation(name: str) -> None:
    framework = base.load(name)
    for package in framework.packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    setup = base.Setup("cuda", tiny=True)
    eager, ours = base.Meter(4, 4), base.Meter(4, 4)
    run(framework, "eager", eager, setup)
    run(framework, "pygraph", ours, setup)
    assert ours.values
    assert furthest(ours.values, eager.values) <= framework.tolerance
