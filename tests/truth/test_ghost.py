"""The pretended device: moves with positional flags, as `Module.to` makes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.lint_truth import ghost, packages

CODE = """\
import torch
from torch._vmap_internals import _vmap

def to_host(x):
    return x.to("cpu", None, False)

def to_host_without_waiting(x):
    return x.to("cpu", x.dtype, True)

def module_to_host(layer):
    return layer.to("cpu").weight

def event_on_device(x):
    event = torch.cuda.Event(enable_timing=False)
    event.record(torch.cuda.current_stream(x.device))
    return event.query()

def wrapped_reads(x):
    return _vmap(lambda row: row * x.sum().item())(x)

def decompositions(x):
    torch.linalg.qr(x)
    torch.linalg.svd(x)
    torch.linalg.eigvalsh(x)
    return torch.linalg.inv(x)

def same_device_copy(x):
    return x.to(x.device, None, False, True)
"""


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """The functions of CODE, in a package that is measured."""
    folder = tmp_path / "ghost_measured"
    folder.mkdir()
    (folder / "__init__.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    packages.measure(["ghost_measured"])
    import ghost_measured

    yield ghost_measured
    packages.measure(packages.PACKAGES)


def kinds(events: set[ghost.Event]) -> list[tuple[str, int]]:
    return sorted((event.kind, event.line) for event in events)


def test_positional_flags_of_to(measured: object) -> None:
    x = torch.ones(3)
    made = []

    def all_three() -> None:
        made.append(measured.to_host(x))
        made.append(measured.to_host_without_waiting(x))
        made.append(measured.same_device_copy(x))

    events = ghost.observe(all_three, [x])
    assert kinds(events) == [("d2h", 5), ("d2h_async", 8)]
    assert all(value.dtype == torch.float32 for value in made)
    assert made[2].data_ptr() != x.data_ptr()


def test_a_module_moved_as_a_whole_keeps_its_dtype(measured: object) -> None:
    layer = torch.nn.Linear(2, 2)
    events = ghost.observe(lambda: measured.module_to_host(layer), list(layer.parameters()))
    assert kinds(events) == [("d2h", 11)]
    assert layer.weight.dtype == torch.float32


def test_events_and_streams_of_the_device(measured: object) -> None:
    x = torch.ones(2)
    answers = []
    assert ghost.observe(lambda: answers.append(measured.event_on_device(x)), [x]) == set()
    assert answers == [True]


def test_tensors_that_hide_their_memory(measured: object) -> None:
    x = torch.ones(2, 2)
    events = ghost.observe(lambda: measured.wrapped_reads(x), [x])
    assert kinds(events) == [("sync", 19)]


def test_decompositions_that_check_for_errors(measured: object) -> None:
    x = torch.eye(3)
    events = ghost.observe(lambda: measured.decompositions(x), [x])
    assert kinds(events) == [("sync", 23), ("sync", 24), ("sync", 25)]
