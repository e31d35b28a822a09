"""GPU tests: `make test-gpu PYTHON=...`. They need torch with CUDA and pytest, nothing else of the
project's tools.
"""

from __future__ import annotations

import os
import tempfile

# Kernels are tuned once and remembered in a folder. Where other processes tune in it at the same
# time, two compilations of one model may differ, so each process of pytest-xdist has its own,
# whatever the process that started it has set. Before torch is imported.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = (
    "PYTEST_XDIST_WORKER" not in os.environ and os.environ.get("TORCHINDUCTOR_CACHE_DIR")
) or tempfile.mkdtemp(prefix=f"pygraph-gpu-tests-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-")

import pytest
import torch

import pygraph_rt


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here `gpu`, and skip it by name where there is no GPU."""
    skip = pytest.mark.skip(reason="needs a CUDA GPU")
    for item in items:
        if "tests/gpu" not in str(item.path).replace("\\", "/"):
            continue
        item.add_marker(pytest.mark.gpu)
        if not torch.cuda.is_available():
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def fresh_state() -> object:
    """Each test compiles from scratch, under the same seed."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    # Dynamo forgets a backend when it is reset: what a test compiled after that is still there.
    pygraph_rt.pygraph.reset()
