"""What all tests share: nothing a test does may touch the user's own caches."""

from __future__ import annotations

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
def memory_module(request: pytest.FixtureRequest) -> Any:
    """The compiled helper that takes memory, kept from one run of the tests to the next: to compile
    torch's headers takes half a minute.
    """
    from pygraph_rt.cuda.native import memory

    if not memory.cxx():
        pytest.skip("no C++ compiler")
    folder = request.config.cache.mkdir("memory_helper")
    with memory.alone(folder):
        built = memory.build(folder)
    assert built is not None, "the helper cannot be built"
    return memory.load_file(built)
