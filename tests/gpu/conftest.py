"""GPU tests: `make test-gpu PYTHON=...`. They need torch with CUDA and pytest, nothing else of the
project's tools. With `PYGRAPH_GPU_RESULTS=FILE` what came of each test is added to that file, with
commit, GPU and torch. `--shard 1/4` runs a quarter of them, by the times that the file says;
`--resume` leaves out what has passed on this commit, GPU and torch.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

# What is compiled is remembered in a folder. Each process of pytest-xdist has its own, whatever the
# process that started it has set, so that tests do not depend on their neighbours. Before torch is
# imported.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = (
    "PYTEST_XDIST_WORKER" not in os.environ and os.environ.get("TORCHINDUCTOR_CACHE_DIR")
) or tempfile.mkdtemp(prefix=f"pygraph-gpu-tests-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-")

import pytest
import torch

import pygraph_rt
from benchmarks import slices
from pygraph_rt.backend import _graph_maker
from pygraph_rt.cuda.native import memory
from pygraph_rt.reports.report import REGIONS
from tests.gpu.support import ReadyHelper

# Some kernels give other last bits with other block sizes, and which one is faster is measured: two
# compilations of one model may differ. Nothing is tuned.
torch._inductor.config.deterministic = True
torch._inductor.config.triton.autotune_pointwise = False


RESULTS = os.environ.get("PYGRAPH_GPU_RESULTS")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Slices: see above."""
    group = parser.getgroup("pygraph")
    group.addoption(
        "--shard", type=slices.parse, default=slices.Slice(), help="I/N: only that part"
    )
    group.addoption("--resume", action="store_true", help="only what has not passed yet")


def _known() -> dict[str, Any]:
    path = Path(RESULTS) if RESULTS else None
    return json.loads(path.read_text())["tests"] if path and path.exists() else {}


def _in_this_slice(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    known = _known()
    names = [item.nodeid for item in items]
    cost = {name: known[name].get("seconds", 1.0) for name in names if name in known}
    chosen = set(config.getoption("--shard").of(names, cost or None))
    if config.getoption("--resume"):
        passed = {name for name, row in known.items() if row["outcome"] == "passed"}
        chosen -= {name for name in passed if slices.is_current(known[name])}
    return [item for item in items if item.nodeid in chosen]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark everything here `gpu`, and skip it by name where there is no GPU."""
    mine = [item for item in items if "tests/gpu" in str(item.path).replace("\\", "/")]
    left = {item.nodeid for item in mine} - {item.nodeid for item in _in_this_slice(config, mine)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
    items[:] = [item for item in items if item.nodeid not in left]
    skip = pytest.mark.skip(reason="needs a CUDA GPU")
    for item in items:
        if "tests/gpu" not in str(item.path).replace("\\", "/"):
            continue
        item.add_marker(pytest.mark.gpu)
        if not torch.cuda.is_available():
            item.add_marker(skip)


_outcomes: dict[str, dict[str, Any]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test's outcome: that of its body, or of what went wrong around it."""
    if "tests/gpu/" in report.nodeid and (report.when == "call" or not report.passed):
        _outcomes[report.nodeid] = {
            "outcome": report.outcome,
            "seconds": round(report.duration, 2),
            **({"error": _last_line(report)} if report.failed else {}),
            **slices.stamp(),
        }


def _last_line(report: pytest.TestReport) -> str:
    """What went wrong, on one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).strip().splitlines()[0][:300]


def pytest_sessionfinish() -> None:
    """Add the outcomes to the file that was asked for; with pytest-xdist, in its main process."""
    if RESULTS is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    path = Path(RESULTS)
    tests = {**_known(), **_outcomes}
    counts: dict[str, int] = {}
    for test in tests.values():
        counts[test["outcome"]] = counts.get(test["outcome"], 0) + 1
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    machine = {"python": platform.python_version(), "torch": torch.__version__, "gpu": gpu}
    written = {"environment": machine, "counts": counts, "tests": dict(sorted(tests.items()))}
    path.write_text(json.dumps(written, indent=1) + "\n")


@pytest.fixture(autouse=True, scope="session")
def ready_helper(request: pytest.FixtureRequest) -> Iterator[None]:
    """The helper that takes memory is there from the start, not built by each process meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        if torch.cuda.is_available() and memory.cxx():
            ready = ReadyHelper(request.getfixturevalue("memory_module"))
            platform = _graph_maker().platform
            built = replace(platform.native, memory=ready)
            patch.setitem(vars(platform), "native", built)
        yield


@pytest.fixture(autouse=True)
def fresh_state() -> object:
    """Each test compiles from scratch, under the same seed."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    # Dynamo forgets a backend when it is reset: what a test compiled after that is still there.
    pygraph_rt.pygraph.reset()
    REGIONS.forget()
