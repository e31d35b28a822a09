"""Memory of training steps: graphs in parts, what they need at most, and what many steps leave."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import pygraph_rt
from pygraph_rt.backend import _graph_maker
from pygraph_rt.memory import slabs, split
from pygraph_rt.replay import launcher
from tests.gpu.support import (
    DEVICE,
    assert_same,
    ordinary_path,
    peaks_of,
    poison_free_memory,
    regions,
    shared_memory,
)
from tests.gpu.test_training import compare, compiled, plain_step, repeatable  # noqa: F401
from tests.gpu.training_models import CASES, Case, Transformer, tokens

MIB = 1 << 20


@pytest.mark.parametrize("name", CASES)
def test_in_as_many_parts_as_there_can_be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_LEAST", 1)
    monkeypatch.setattr(split, "_WORTH", 1 << 60)
    found = compare(CASES[name], steps=12, poison=True)
    assert any(r["launches"] > 1 for r in found), found


def wide() -> nn.Sequential:
    """24 layers with 16 MiB of parameters and of activations each."""
    layers = [nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(24)]
    return nn.Sequential(*layers).to(DEVICE)


def peak(graphs: str) -> tuple[int, int]:
    """The most memory that a training step takes, in bytes, and the launches of its backward."""
    torch._dynamo.reset()
    gc.collect()
    before = torch.cuda.memory_allocated()
    module = wide()
    model = compiled(module, graphs)
    batch = torch.randn(2048, 2048, device=DEVICE)

    def step() -> None:
        model(batch).square().mean().backward()
        for parameter in module.parameters():
            parameter.grad = None

    allocated, _ = peaks_of(step)
    launches = [r["launches"] for r in regions("serving") if "backward" in r["name"]]
    return allocated - before, max(launches, default=0)


def test_a_backward_needs_about_what_it_does_without_graphs() -> None:
    """Launched as a whole it would need 1.4 times as much."""
    plain, _ = peak("never")
    most, launches = peak("always")
    assert launches > 1
    assert most <= 1.15 * plain, (most // MIB, plain // MIB)


class Handles:
    """Counts what the driver was asked for and has not been given back."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.alive = {"executables": 0, "graphs": 0, "mappings": 0}
        environment = _graph_maker()
        environment.disposal.drain()  # what earlier tests left
        self._driver = environment.driver
        self._patch = patch
        for kind, make, free in (
            ("executables", "instantiate", "destroy_exec"),
            ("graphs", "clone_graph", "destroy_graph"),
            ("mappings", "create_memory", "release_memory"),
        ):
            self._count(make, kind, 1)
            self._count(free, kind, -1)

    def _count(self, name: str, kind: str, change: int) -> None:
        original: Callable[..., Any] = getattr(self._driver, name)

        def counted(*args: Any) -> Any:
            result = original(*args)
            self.alive[kind] += change
            return result

        self._patch.setattr(self._driver, name, counted)


def test_two_hundred_steps_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = Handles(monkeypatch)
    module = Transformer().to(DEVICE)
    model = compiled(module, "always")
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def count() -> dict[str, int]:
        gc.collect()
        torch.cuda.synchronize()
        return {
            **handles.alive,
            "allocated": torch.cuda.memory_allocated(),
            "reserved": torch.cuda.memory_reserved(),
            "objects": len(gc.get_objects()),
        }

    batch = tokens()
    for _ in range(20):
        plain_step(model, optimizer, batch)
    before = count()
    for _ in range(200):
        plain_step(model, optimizer, batch)
    after = count()
    assert sum(r["graphs"] for r in regions()) == 2
    assert before["executables"] >= 2
    assert after["objects"] <= before.pop("objects") + 20
    assert all(after[name] <= before[name] for name in before), (before, after)


def places_that_serve_again(replay: Any) -> list[int]:
    """Where what a forward saved in such memory was in its last call."""
    (part,) = replay._launcher.sub_graphs
    way = getattr(part.memory, "_python", part.memory)
    blocks = [memory.slab.reuse for memory in way.shared for _ in memory.slab.blocks]
    found = replay._launcher.addresses[way.first + len(way.memory) :][: len(blocks)]
    return [place for place, again in zip(found, blocks, strict=True) if again]


def allocate_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocate in Python, whatever helper there is."""
    monkeypatch.setattr(launcher, "compiled", lambda allocator, native, empty: allocator)


@pytest.mark.parametrize("way", ["compiled code", "Python"])
def test_small_results_share_memory_that_serves_again(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "Python":
        allocate_in_python(monkeypatch)
    module = Transformer().to(DEVICE)
    model = compiled(module, "always")
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    for _ in range(6):
        plain_step(model, optimizer, tokens())
    forward, backward = sorted(
        (p for p in pygraph_rt.pygraph.partitions() if p.replay),
        key=lambda p: not p._signature.forward,
    )
    places = places_that_serve_again(forward.replay)
    assert places
    assert shared_memory(backward.replay)
    first = model(*tokens())
    assert places_that_serve_again(forward.replay) == places
    second = model(*tokens())  # the first one's backward has not run
    assert not {*places_that_serve_again(forward.replay)} & {*places}
    first.sum().backward()
    gradients = [p.grad for p in module.parameters()]
    small = [g.untyped_storage().data_ptr() for g in gradients if g.nbytes <= 4 << 10]
    assert len(set(small)) < len(small)
    kept = [g.clone() for g in gradients]
    module.zero_grad()
    second.sum().backward()
    for gradient, copy in zip(gradients, kept, strict=True):
        assert torch.equal(gradient, copy)


def deep() -> nn.Module:
    """Saves 40 tensors of 64 KiB, or more."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(40)))


def test_neighbours_share_memory_until_the_backward_has_done_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slabs, "_PIECES", 8)
    case = Case(deep, lambda: (torch.randn(256, 64, device=DEVICE),))
    compare(case, steps=8, poison=True)
    module = deep().to(DEVICE)
    model = compiled(module, "always")
    batches = [case.batch() for _ in range(4)]
    for _ in range(4):
        model(*batches[0]).square().mean().backward()
    (forward,) = (p for p in pygraph_rt.pygraph.partitions() if p._signature.forward and p.replay)
    shared = [m.slab for m in shared_memory(forward.replay) if m.slab.saved and not m.slab.reuse]
    assert sum(len(slab.storages) for slab in shared) > 20
    losses = [model(*batch).square().mean() for batch in batches]  # all of them wait
    poison_free_memory()
    actual = [torch.autograd.grad(loss, [*module.parameters()]) for loss in reversed(losses)]
    with ordinary_path():
        losses = [model(*batch).square().mean() for batch in batches]
        expected = [torch.autograd.grad(loss, [*module.parameters()]) for loss in reversed(losses)]
    assert_same(actual, expected)


def test_of_six_shapes_in_turn_one_keeps_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate_in_python(monkeypatch)  # what is kept is only seen in Python
    module = Transformer().to(DEVICE)
    model = compiled(module, "always", dynamic=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    batches = [(tokens()[0][:, :length].contiguous(),) for length in range(24, 65, 8)]
    for _ in range(6):
        for batch in batches:
            plain_step(model, optimizer, batch)
            for partition in pygraph_rt.pygraph.partitions():
                replays = [v.replay for v in partition._variants if v.replay is not None]
                keeping = [
                    r for r in replays if any(m._storage is not None for m in shared_memory(r))
                ]
                assert keeping in ([], [partition._serving.latest])
    forwards = [p for p in pygraph_rt.pygraph.partitions() if p._signature.forward]
    assert any(len([v for v in p._variants if v.replay is not None]) > 4 for p in forwards)
    latest = [p._serving.latest for p in forwards if p._serving.latest is not None]
    assert any(m._storage is not None for replay in latest for m in shared_memory(replay))
