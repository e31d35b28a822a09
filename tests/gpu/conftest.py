"""GPU tests: `make test-gpu PYTHON=...`. They need torch with CUDA and pytest, nothing else of the project's tools."""

from __future__ import annotations

import pytest
import torch


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
