"""The compiled helper that takes memory, built once for a run of the tests."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from pygraph_rt import taking
from pygraph_rt.native import memory
from tests.runtime import software_gpu


@pytest.fixture(scope="session")
def memory_module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The helper's module."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers
    folder /= "memory_helper"
    with memory.alone(folder):
        built = memory.build(folder)
    if built is None:
        pytest.skip("no C++ compiler")
    return memory.load_file(built)


@pytest.fixture(params=["memory in Python", "memory in compiled code"])
def way_of_taking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that uses it runs through both ways of taking memory."""
    if request.param == "memory in compiled code":
        module = request.getfixturevalue("memory_module")
        monkeypatch.setattr(taking, "MANY", 0)
        ready = SimpleNamespace(open=False, ask=lambda: module)
        monkeypatch.setattr(software_gpu, "MEMORY_HELPER", ready)
