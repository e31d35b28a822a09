"""AOTAutograd's cache under the backend: a hit restores what is known of a graph, and nothing else
is ever hit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor.output_code import CompiledFxGraph

import pygraph_rt
from pygraph_rt import backend
from pygraph_rt.host_values.crossings import Note
from pygraph_rt.host_values.placement import Placement
from pygraph_rt.inductor import autograd_cache, hook
from pygraph_rt.inductor.cuts import Cut, lines_of
from pygraph_rt.inductor.graph_info import GraphInfo, from_text, to_text, with_lines_of
from pygraph_rt.inductor.partition_info import PartitionInfo

INFO = GraphInfo(
    "graph 3/1",
    "f at m.py:7",
    Placement(1, 4, 1, 2, (Note("a text", "m.py:8", "PG105"),)),
    (Cut("split", "why", "m.py:9", "PG401"),),
    donated=frozenset({2, 1}),
    seeds=frozenset({4, 7}),
    unread=frozenset({7}),
    scalars={2: "seed", 5: "nothing"},
    forward=True,
    saved=frozenset({6}),
    inputs=9,
    dynamic=frozenset({0}),
)

needs_policy = pytest.mark.skipif(
    not autograd_cache.has_policies(), reason="torch 2.11 has no policies for CUDA graphs"
)


@pytest.fixture(params=["with a policy", "as torch 2.11"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to know of a graph that comes out of the cache, as far as this torch has them."""
    if request.param == "with a policy" and not autograd_cache.has_policies():
        pytest.skip("torch 2.11 has no policies for CUDA graphs")
    if request.param == "as torch 2.11" and autograd_cache.has_policies():
        monkeypatch.setattr(CompiledFxGraph, "post_compile", CompiledFxGraph.post_compile)
        monkeypatch.setattr(autograd_cache, "has_policies", lambda: False)
        autograd_cache.watch_loaded_graphs.cache_clear()


def test_what_is_known_of_a_graph_comes_back_from_its_text() -> None:
    assert from_text(to_text(INFO), "graph 0/0", "g at n.py:1") == INFO._replace(
        name="graph 0/0", source="g at n.py:1"
    )


def test_lines_of_another_program_are_left_out() -> None:
    here = with_lines_of(INFO, {"m.py:9"})
    assert here.cuts == INFO.cuts
    assert [note.source for note in here.placement.notes] == [""]
    other = with_lines_of(INFO, {"n.py:9", "m.py:8"})
    assert [cut.source for cut in other.cuts] == [""]
    assert other.placement == INFO.placement


def test_the_lines_of_a_traced_module() -> None:
    seen: list[frozenset[str]] = []

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.append(lines_of(gm))
        return gm

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    torch.compile(doubled, backend=backend)(torch.ones(2))
    line = doubled.__code__.co_firstlineno + 1
    assert seen == [frozenset({f"{__file__}:{line}"})]


def test_the_text_is_the_same_for_the_same_graph_of_another_name() -> None:
    assert to_text(INFO) == to_text(INFO._replace(name="graph 9/9", source="elsewhere"))


@pytest.mark.parametrize("change", [*json.loads(to_text(INFO)), "unknown"])
def test_a_damaged_text_is_refused(change: str) -> None:
    known = json.loads(to_text(INFO))
    known[change] = None
    with pytest.raises(ValueError, match="not the text of a graph"):
        from_text(json.dumps(known), "", "")
    del known[change]
    if change != "unknown":
        with pytest.raises(ValueError, match="not the text of a graph"):
            from_text(json.dumps(known), "", "")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "3", "null", '"a"', "{}"])
def test_what_is_no_text_of_a_graph_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_text(text, "", "")


def hits() -> int:
    return int(counters["aot_autograd"]["autograd_cache_hit"])


def step(backend: Any) -> list[torch.Tensor]:
    """One step of training in a fresh program: the loss, the gradients."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 4)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(layer(x)).sin().sum()

    found = torch.compile(loss, backend=backend)(torch.ones(2, 4))
    found.backward()
    assert layer.weight.grad is not None
    assert layer.bias.grad is not None
    return [found.detach(), layer.weight.grad, layer.bias.grad]


class Ours:
    """The backend without graphs: what it compiled stands in for each region."""

    def __init__(self, placing: bool = True) -> None:
        self.placing = placing
        self.seen: list[PartitionInfo] = []
        self.calls = 0

    def __call__(self, gm: Any, inputs: Any) -> Any:
        return hook.compile_graphed(gm, inputs, {}, self.wrap, self.placing)

    def wrap(self, function: Any, info: PartitionInfo) -> Callable[..., Any]:
        self.seen.append(info)

        def call(args: list[Any]) -> Any:
            self.calls += 1
            return function(args)

        return call

    def signatures(self) -> list[Any]:
        """That of the forward, that of the backward."""
        found = [info.signature for info in self.seen]
        return sorted(found, key=lambda signature: signature.gradients)


@pytest.mark.usefixtures("partitions_on_the_cpu", "way")
def test_a_hit_is_wrapped_as_the_graph_was_that_is_in_the_cache() -> None:
    first, second = Ours(), Ours()
    before, expected = hits(), step(first)
    assert hits() == before
    results = step(second)
    assert hits() == before + 1
    assert all(map(torch.equal, results, expected))
    assert second.calls == first.calls == 2
    assert second.signatures() == first.signatures()
    places = [[(i.region.name, i.region.source) for i in used.seen] for used in (first, second)]
    assert sorted(places[0]) == sorted(places[1])
    assert {name.split()[2] for name, _ in places[0]} == {"forward", "backward"}


@pytest.mark.usefixtures("partitions_on_the_cpu", "way")
def test_nobody_is_given_what_was_compiled_for_another_mode_or_option() -> None:
    ours = {placing: Ours(placing) for placing in (True, False)}
    backends = {
        "default": lambda gm, inputs: torch._inductor.compile(gm, inputs),
        "reduce-overhead": lambda gm, inputs: torch._inductor.compile(
            gm, inputs, options={"triton.cudagraphs": True, "graph_partition": True}
        ),
        "ours": ours[True],
        "ours with another option": ours[False],
    }
    expected: list[torch.Tensor] | None = None
    for turn in range(2):
        for name, compile_with in backends.items():
            before, calls = hits(), {each: used.calls for each, used in ours.items()}
            results = step(compile_with)
            expected = expected or results
            assert all(map(torch.equal, results, expected)), name
            assert hits() == before + turn, name
            for each, used in ours.items():
                mine = compile_with is used
                assert used.calls == calls[each] + 2 * mine, name


@pytest.mark.usefixtures("partitions_on_the_cpu", "way")
def test_a_graph_whose_text_is_damaged_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Ours(), Ours()
    expected, before = step(first), hits()
    monkeypatch.setattr(hook, "from_text", lambda text, *rest: from_text("{}", *rest))
    assert all(map(torch.equal, step(second), expected))
    assert (hits(), second.calls) == (before, 2)


def added_to_key() -> Any:
    with autograd_cache.cached(lambda graph, text: None, "") as settings:
        return settings["unsafe_marked_cacheable_functions"]


def test_code_for_other_dtypes_has_another_key() -> None:
    """torch 2.11 leaves them out: it gave what was compiled for float32 to a program in float64."""
    usual = added_to_key()
    try:
        torch.set_default_dtype(torch.float64)
        assert added_to_key() != usual
    finally:
        torch.set_default_dtype(torch.float32)
    found = []
    for dtype in (torch.bfloat16, torch.float16):  # of the CPU: without a GPU there is no other
        with torch.autocast("cpu", dtype):
            found.append(added_to_key())
    assert all(each not in (usual, *found[:i]) for i, each in enumerate(found))
    assert added_to_key() == usual


@needs_policy
def test_a_policy_of_the_program_stays_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config
    from torch._inductor.cudagraph_utils import CUDAGraphPolicy

    monkeypatch.setattr(backend, "why_without_graphs", lambda: None)
    policy = CUDAGraphPolicy()
    with config.patch(cudagraph_policy=policy), torch.no_grad():
        assert "cudagraph_policy is set" in str(autograd_cache.why_not_ours())
        torch._dynamo.reset()
        run = torch.compile(lambda x: x + 1, backend="pygraph")
        assert run(torch.ones(2)).tolist() == [2.0, 2.0]
        assert config.cudagraph_policy is policy
        assert "cudagraph_policy is set" in str(pygraph_rt.report())
    assert autograd_cache.why_not_ours() is None


def test_what_kernels_were_tuned_to_is_looked_up_where_default_mode_keeps_it() -> None:
    from torch._inductor.runtime.autotune_cache import AutotuneCache

    before = AutotuneCache._prepare_key("kernel.py")
    with autograd_cache.cached(lambda compiled, known: None, ""):
        assert AutotuneCache._prepare_key("kernel.py") == before
