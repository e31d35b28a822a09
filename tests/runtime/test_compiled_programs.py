"""Programs that torch.compile compiles are served, on a GPU made of CPU memory, and compute what
they compute in default mode, bit for bit.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch.autograd.graph import saved_tensors_hooks

import pygraph_rt
from pygraph_rt.region.limits import BYTES_PER_NODE
from pygraph_rt.replay import replay, weight_sets
from pygraph_rt.shared_state import forget_everything
from tests.runtime import inductor_on_software_gpu
from tests.runtime.inductor_on_software_gpu import FALLBACK, OPTIONS


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    forget_everything()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield inductor_on_software_gpu.install(monkeypatch)
    torch._dynamo.reset()


class Block(torch.nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(width)
        self.up = torch.nn.Linear(width, 2 * width, bias=False)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


def train(compile: Callable[[Any], Any], steps: int = 8) -> list[torch.Tensor]:
    """Losses of all steps, and the parameters after them."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(), Block(), Block())
    for block in model:
        compile(block)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for step in range(steps):
        x = torch.randn(4, 16, generator=torch.Generator().manual_seed(step))
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *(p.detach() for p in model.parameters())]


def ours(block: Any) -> None:
    block.compile(backend="pygraph", options=OPTIONS)


def test_training_is_served_and_equal_to_default_mode() -> None:
    expected = train(lambda block: block.compile(options=FALLBACK))
    found = train(ours)
    assert all(map(torch.equal, expected, found))
    regions = pygraph_rt.report().regions
    assert {region["state"] for region in regions} == {"serving"}
    assert sum(region["served"] for region in regions) > len(regions)


def test_equal_blocks_with_an_executable_each_compute_the_same(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "LOOK_AT", 6)
    for name, value in {"_MANY": 1, "_WATCHED": 24, "_FEWER": 1.0, "_FASTER": 1e9}.items():
        monkeypatch.setattr(weight_sets, name, value)
    expected = train(lambda block: block.compile(options=FALLBACK), 40)
    found = train(ours, 40)
    assert all(map(torch.equal, expected, found))
    regions = pygraph_rt.report().regions
    assert {region["state"] for region in regions} == {"serving"}
    # The first block's input needs no gradient: it has regions of its own, which get more than one
    # executable where memory happens to come in turns. Those of the two others have the first one,
    # and at least one for each block.
    of_one = [region["nodes"] * BYTES_PER_NODE for region in regions]
    found_times = [r["graph_bytes"] / each for r, each in zip(regions, of_one, strict=True)]
    assert len(found_times) == 4
    assert sum(each >= 3 for each in found_times) >= 2
    assert len(gpu.executables) == sum(found_times)


def test_a_kernel_at_a_stale_address_would_be_seen(gpu: Any, monkeypatch: Any) -> None:
    expected = train(lambda block: block.compile(options=FALLBACK))
    monkeypatch.setattr(gpu, "exec_set_kernel", lambda executable, node, where: 0)
    found = train(ours)
    # Nothing is patched: the comparison of the first call refuses each graph, and results stay.
    assert all(map(torch.equal, expected, found))
    assert {region["state"] for region in pygraph_rt.report().regions} == {"refused"}


def test_every_graph_of_an_encoder_with_dynamic_lengths_has_a_row_and_a_reason() -> None:
    """What is not served says why: an empty report would leave the program at default speed."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    run = torch.compile(model, backend="pygraph", options=OPTIONS, dynamic=True)
    before = counters["stats"]["unique_graphs"]
    with torch.no_grad():
        for length in (5, 8, 5, 12, 8, 20, 5, 5, 8, 8):
            x = torch.randn(2, length, 16)
            torch.testing.assert_close(run(x), model(x))
    regions = pygraph_rt.report().regions
    # torch 2.11 compiles nothing of it.
    assert bool(regions) == (counters["stats"]["unique_graphs"] > before)
    for region in regions:
        assert region["served"] or region["reason"] or region["misses"], region


def test_graphs_go_with_the_compiled_code_that_they_are_of(gpu: Any) -> None:
    """When Dynamo drops what it compiled, which default mode frees then, too."""
    from torch._dynamo.eval_frame import reset_code
    from torch._inductor.output_code import CompiledFxGraph

    def compiled() -> list[Any]:
        return [found for found in gc.get_objects() if type(found) is CompiledFxGraph]

    for backend, options in (("inductor", FALLBACK), ("pygraph", OPTIONS)):
        earlier = compiled()  # held, so that what is new is another object
        model = torch.nn.Sequential(Block(), Block())

        def step(x: torch.Tensor, model: torch.nn.Module = model) -> torch.Tensor:
            found: torch.Tensor = model(x)
            return found

        run = torch.compile(step, backend=backend, options=options)
        for _ in range(6):
            run(torch.randn(4, 16))
        assert bool(gpu.executables) == (backend == "pygraph")
        new = [found for found in compiled() if all(found is not e for e in earlier)]
        (made,) = map(weakref.ref, new)
        del new
        reset_code(step.__code__)
        del model, run, step
        gc.collect()
        assert made() is None
        assert gpu.executables == {}


def with_saved_tensors_laid_out_otherwise(options: dict[str, Any]) -> tuple[list[Any], Any]:
    """Gradients of a function whose saved tensors come back with other strides in later steps; what
    is raised stands for one. And the function, so that it stays alive.
    """
    torch._dynamo.reset()

    @torch.compile(**options)
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).sin() @ x

    def turned(saved: torch.Tensor) -> torch.Tensor:
        return saved.t().contiguous().t()

    found: list[Any] = []
    for step in range(8):
        generator = torch.Generator().manual_seed(step)
        x, w = (torch.randn(8, 8, generator=generator).requires_grad_() for _ in range(2))
        hooks = saved_tensors_hooks(lambda t: t, turned) if step >= 5 else contextlib.nullcontext()
        with hooks:
            y = function(x, w)
            try:
                y.backward(torch.ones(8, 8))
                found.append(x.grad)
            except AssertionError as error:
                found.append(str(error).splitlines()[0])
    return found, function


def test_saved_tensors_that_are_laid_out_otherwise_raise_as_without_graphs() -> None:
    expected, _ = with_saved_tensors_laid_out_otherwise({"options": FALLBACK})
    assert isinstance(expected[-1], str)
    found, function = with_saved_tensors_laid_out_otherwise(
        {"backend": "pygraph", "options": OPTIONS}
    )
    assert [region["served"] > 0 for region in pygraph_rt.report().regions] == [True, True]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    del function


def gradients_of_a_slice(compile: dict[str, Any]) -> list[Any]:
    """Gradients, or what was raised, where a slice with gaps is saved and comes back without."""
    torch._dynamo.reset()
    function = torch.compile(lambda x: (x * x).sum(), **compile)
    found: list[Any] = []
    for step in range(10):
        generator = torch.Generator().manual_seed(step)
        base = torch.randn(8, 24, generator=generator).requires_grad_()
        back = torch.Tensor.contiguous
        hooks = saved_tensors_hooks(lambda t: t, back) if step >= 6 else contextlib.nullcontext()
        with hooks:
            y = function(base[:, 8:16])
            try:
                y.backward()
                found.append(base.grad)
            except AssertionError:
                found.append("raised")
    return found


def test_compiled_code_does_not_read_behind_the_end_of_what_was_saved() -> None:
    expected = gradients_of_a_slice({"options": {"graph_partition": False}})
    found = gradients_of_a_slice({"backend": "pygraph", "options": OPTIONS})
    assert all(map(torch.equal, found[:6], expected[:6]))
    assert found[6:] == expected[6:] == ["raised"] * 4


@pytest.fixture(params=["count", "count.named"])
def counted(request: pytest.FixtureRequest) -> Iterator[tuple[Any, list[int]]]:
    """An operator that is registered with an ordered effect, and what it appends to."""
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    seen: list[int] = []
    library = torch.library.Library("pygraph_test_effects", "DEF")
    library.define(f"{request.param}(Tensor x) -> Tensor")

    def count(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(seen))
        return x + 1

    library.impl(request.param, count, "CompositeExplicitAutograd")
    _, _, overload = request.param.partition(".")
    operator = getattr(torch.ops.pygraph_test_effects.count, overload or "default")
    torch.library.register_fake(
        f"pygraph_test_effects::{request.param}", torch.empty_like, lib=library
    )
    handle = _register_effectful_op(operator, _EffectType.ORDERED)
    yield operator, seen
    handle.destroy()
    library._destroy()
    del torch.ops.pygraph_test_effects


def calls_of(function: Callable[[torch.Tensor], torch.Tensor], seen: list[int]) -> set[int]:
    """How often a function has an effect, call by call, under graphs; results are compared."""
    run = torch.compile(function, backend="pygraph", options=OPTIONS)
    counts = set()
    for call in range(1, 9):
        x = torch.full((4,), float(call))
        before = len(seen)
        with torch.no_grad():
            found = run(x)
        counts.add(len(seen) - before)
        with torch.no_grad():
            assert torch.equal(found, function(x))
    return counts


def test_an_operator_with_an_effect_has_it_on_each_call(counted: tuple[Any, list[int]]) -> None:
    operator, seen = counted
    assert calls_of(lambda x: operator((x * 2).sin()).cos() + operator(x.exp()), seen) == {2}
    regions = pygraph_rt.report().regions
    assert sum(region["served"] for region in regions)
    named = {cut["why"] for region in regions for cut in region["cuts"]}
    assert f"{operator.name()} has an effect, which it has to have on each call" in named


def test_an_effect_in_a_nested_region_keeps_the_graph_out(counted: tuple[Any, list[int]]) -> None:
    operator, seen = counted

    @torch.compiler.nested_compile_region
    def inner(x: torch.Tensor) -> torch.Tensor:
        return operator(x.sin()).cos()

    assert calls_of(lambda x: inner(inner(x * 2)) + 1, seen) == {2}
    (region,) = pygraph_rt.report().regions
    assert "no nested region can be cut" in region["reason"]


def test_a_gradient_that_comes_as_a_conjugate_is_not_read_as_if_it_were_none() -> None:
    """Its sizes and strides are the same, and its memory holds other numbers."""

    def gradients(options: dict[str, Any]) -> tuple[list[torch.Tensor], Any]:
        torch._dynamo.reset()
        run = torch.compile(lambda x: torch.fft.fft(x) * 1, **options)
        found = []
        for step in range(9):
            generator = torch.Generator().manual_seed(step)
            x, a = (torch.randn(8, generator=generator) for _ in range(2))
            x.requires_grad_()
            z = run(x)
            ((z * a) if step < 5 else (z.conj() + a)).abs().sum().backward()
            found.append(x.grad)
        return found, run

    expected, _ = gradients({"options": FALLBACK})
    found, run = gradients({"backend": "pygraph", "options": OPTIONS})
    assert all(map(torch.equal, found, expected))
    assert any(region["served"] for region in pygraph_rt.report().regions)
    del run
