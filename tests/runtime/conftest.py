"""What tests of the runtime ask for: both ways of taking memory, partitions on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pygraph_rt.inductor import hook
from tests.runtime import software_gpu


@pytest.fixture(params=["memory in Python", "memory in compiled code"])
def way_of_taking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that uses it runs through both ways of taking memory."""
    if request.param == "memory in compiled code":
        module = request.getfixturevalue("memory_module")
        ready = SimpleNamespace(open=False, ask=lambda work: module)
        monkeypatch.setattr(software_gpu, "MEMORY_HELPER", ready)


@pytest.fixture
def partitions_on_the_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Empty caches of graphs, and an Inductor that makes partitions of code for the CPU, too."""
    from torch._inductor.scheduler import Scheduler

    signature = hook._signature

    def on_gpu_0(compiled: Any, *rest: Any) -> Any:
        known = SimpleNamespace(
            partition_maps=compiled.partition_maps,
            mutated_input_idxs=compiled.mutated_input_idxs,
            device_idxs={0},
        )
        return signature(known, *rest)

    monkeypatch.setattr(Scheduler, "should_partition", lambda *args, **kwargs: None)
    monkeypatch.setattr(hook, "why_no_region", lambda compiled, graph: None)
    monkeypatch.setattr(hook, "_signature", on_gpu_0)
    # What the compiler of C++ made stays: it depends on its text alone.
    with torch.compiler.config.patch(cache_key_tag=str(tmp_path)):  # type: ignore[attr-defined]
        yield
    torch._dynamo.reset()
