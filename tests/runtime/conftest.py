"""Both ways of taking memory for the tests that ask for them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.runtime import software_gpu


@pytest.fixture(params=["memory in Python", "memory in compiled code"])
def way_of_taking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that uses it runs through both ways of taking memory."""
    if request.param == "memory in compiled code":
        module = request.getfixturevalue("memory_module")
        ready = SimpleNamespace(open=False, ask=lambda work: module)
        monkeypatch.setattr(software_gpu, "MEMORY_HELPER", ready)
