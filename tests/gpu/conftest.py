"""GPU tests: `make test-gpu PYTHON=...`. They need torch with CUDA and pytest, nothing else of the
project's tools.
"""

from __future__ import annotations

import os
import tempfile

# What is compiled is remembered in a folder. Each process of pytest-xdist has its own, whatever the
# process that started it has set, so that tests do not depend on their neighbours. Before torch is
# imported.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = (
    "PYTEST_XDIST_WORKER" not in os.environ and os.environ.get("TORCHINDUCTOR_CACHE_DIR")
) or tempfile.mkdtemp(prefix=f"pygraph-gpu-tests-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-")

import pytest
import torch

import pygraph_rt

# Some kernels give other last bits with other block sizes, and torch tunes kernels again when
# compiled code comes out of its cache: two compilations of one model may differ. Nothing is tuned.
torch._inductor.config.deterministic = True
torch._inductor.config.triton.autotune_pointwise = False


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
