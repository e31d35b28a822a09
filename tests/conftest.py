"""What all tests share: nothing a test does may touch the user's own caches."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_configure() -> None:
    """Let tests send Ctrl-C also where a shell has started them in the background, which ignores
    it and hands that on to what the tests start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Point the linter's cache at a fresh folder for each test."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYGRAPH_LINT_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def memory_module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The compiled helper that takes memory, built once for a run of the tests."""
    from pygraph_rt.cuda.native import memory

    if not memory.cxx():
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers
    folder /= "memory_helper"
    with memory.alone(folder):
        built = memory.build(folder)
    assert built is not None, "the helper cannot be built"
    return memory.load_file(built)
