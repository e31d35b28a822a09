"""What the adapter expects of Inductor, and what it makes of the compiled graphs of torch 2.11 to
2.15.
"""

from __future__ import annotations

import inspect
import operator
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pygraph_rt.cuda import global_flags
from pygraph_rt.inductor import hook, torch_support, uncompiled_graph
from pygraph_rt.inductor.cuts import Cut
from pygraph_rt.inductor.graph_info import GraphInfo
from pygraph_rt.inductor.hook import wrap_partitions
from pygraph_rt.inductor.partition_info import PartitionInfo
from pygraph_rt.inductor.runner_inlining import NAMES
from pygraph_rt.reports.report import Region

INFO = GraphInfo("graph 0/0", "f at m.py:1")


class Runner:
    """The generated module's runner, as it has been since 2.9."""

    def __init__(self, partitions: list[Any]) -> None:
        self.partitions = partitions

    def recursively_apply_fns(self, fns: list[Any]) -> None:
        self.partitions = [fn(c) for fn, c in zip(fns, self.partitions, strict=True)]


def compiled(version: tuple[int, int], partitions: list[list[int | None]]) -> Any:
    """A compiled graph with the fields of a torch version; output mappings became lists of lists in
    2.14.
    """
    runner = Runner([f"partition {i}" for i in range(len(partitions))])
    outputs: list[Any] = [[0]] if version >= (2, 14) else [0]
    graph = SimpleNamespace(
        recursively_apply_fns=runner.recursively_apply_fns,
        compiled_fn_runner=runner,
        partition_maps=[
            SimpleNamespace(
                id=i, input_index_mapping=m, output_index_mapping=outputs, constant_names=[]
            )
            for i, m in enumerate(partitions)
        ],
        device_types={"cuda"},
        device_idxs={1},
        mutated_input_idxs={2},
    )
    if version >= (2, 13):
        graph._defers_input_alignment = True
    return graph


def wrapped(
    graph: Any, inputs: list[Any] | None = None, info: GraphInfo | None = None
) -> list[tuple[Any, PartitionInfo]]:
    seen: list[tuple[Any, PartitionInfo]] = []

    def wrap(function: Any, info: PartitionInfo) -> Any:
        seen.append((function, info))
        return lambda args: ("wrapped", function)

    given = inputs or [torch.ones(1)]
    known = info or INFO
    known = known._replace(inputs=len(given), dynamic=uncompiled_graph.dynamic_inputs(given))
    wrap_partitions(graph, known, wrap)
    return seen


@pytest.mark.parametrize("version", [(2, 11), (2, 12), (2, 13), (2, 14), (2, 15)])
def test_every_partition_is_wrapped_with_what_it_may_write_to(version: tuple[int, int]) -> None:
    graph = compiled(version, [[0, 1, 2], [None, 2, 0]])
    (first, a), (second, b) = wrapped(graph)
    assert (first, second) == ("partition 0", "partition 1")
    assert (a.signature.written, b.signature.written) == (frozenset({2}), frozenset({0, 1}))
    assert (a.signature.device, a.signature.dynamic) == (1, False)
    assert a.region.name == "graph 0/0 partition 1 of 2"
    assert graph.compiled_fn_runner.partitions[0]([]) == ("wrapped", "partition 0")


def refused(graph: Any, info: GraphInfo = INFO) -> tuple[Region, str]:
    """What is reported of a graph without region; its call goes on as before."""
    seen: list[tuple[Region, str]] = []

    def refuse(function: Any, region: Region, reason: str) -> Any:
        seen.append((region, reason))
        return ("counted", function)

    def wrap(function: Any, info: PartitionInfo) -> Any:
        raise AssertionError("it has no partition")

    graph.current_callable = "the call"
    wrap_partitions(graph, info, wrap, refuse)
    assert graph.current_callable == ("counted", "the call")
    (found,) = seen
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"partition_maps": None}, "cpp_wrapper"),
        ({"partition_maps": []}, "keeps all of its operations out"),
        ({"recursively_apply_fns": None}, "how to reach its partitions"),
        ({"device_types": {"cpu"}}, "no work on a GPU"),
        ({"device_idxs": {0, 1}}, "on GPUs 0 and 1"),
        ({"device_idxs": set()}, "no known one"),
    ],
)
def test_a_compiled_graph_without_region_has_a_row_and_a_reason(
    change: dict[str, Any], words: str
) -> None:
    graph = compiled((2, 13), [[0]])
    for name, value in change.items():
        setattr(graph, name, value)
    region, reason = refused(graph)
    assert (region.name, region.source) == ("graph 0/0", "f at m.py:1")
    assert words in reason


def test_what_splits_a_graph_without_partitions_is_its_reason() -> None:
    graph = compiled((2, 13), [])
    cut = Cut("split", "aten::nonzero makes a tensor", "m.py:3", "PG401")
    region, reason = refused(graph, INFO._replace(cuts=(cut, cut)))
    assert reason.count("aten::nonzero makes a tensor") == 1
    assert region.cuts[0]["source"] == "m.py:3"


@pytest.mark.parametrize(
    ("name", "value"),
    [("cudagraph_min_partition_size", 9), ("cudagraph_skip_dynamic_graphs", True)],
)
def test_a_setting_that_keeps_all_partitions_out_is_named(name: str, value: Any) -> None:
    from torch._inductor import config

    if not hasattr(config.triton, name):
        pytest.skip("this torch does not have it")
    with config.patch({f"triton.{name}": value}):
        _, reason = refused(compiled((2, 13), []))
    assert f"triton.{name}={value}" in reason


def test_something_else_than_a_compiled_graph_is_left_as_it_is() -> None:
    assert wrapped(lambda args: args) == []


def test_the_installed_torch_has_what_the_adapter_uses() -> None:
    import torch._functorch.config
    import torch._inductor
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.utils import BoxedBool, GraphPartitionMap

    assert {"inner_compile", "config_patches"} <= set(inspect.signature(compile_fx).parameters)
    assert "kwargs" in inspect.signature(compile_fx_inner).parameters
    fields = set(CompiledFxGraph.__dataclass_fields__)
    assert {
        "recursively_apply_fns",
        "partition_maps",
        "device_types",
        "device_idxs",
        "mutated_input_idxs",
    } <= fields
    assert "input_index_mapping" in GraphPartitionMap.__dataclass_fields__
    assert not BoxedBool(False)
    assert isinstance(torch._functorch.config.enable_autograd_cache, bool)
    assert {"triton.cudagraphs", "graph_partition"} <= set(config.get_config_copy())
    assert "triton.cudagraphs" in torch._inductor.list_mode_options("reduce-overhead")
    source = inspect.getsource(torch._inductor.codegen.wrapper)
    assert "empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda" in source
    assert hasattr(torch._C._dynamo.guards, "_reinterpret_tensor")
    assert hasattr(torch._C, "_construct_storage_from_data_pointer")
    assert {"keep_graph"} <= set(inspect.signature(torch.cuda.CUDAGraph.__new__).parameters)


def test_the_inner_compile_is_reached_on_every_compile_without_graphs_of_inductors_own() -> None:
    seen: list[Any] = []

    def wrap(function: Any, info: PartitionInfo) -> Any:
        raise AssertionError("a CPU graph has no partition to wrap")

    original = hook.wrap_partitions

    def spy(graph: Any, *rest: Any) -> None:
        seen.append(graph)
        original(graph, *rest)

    def backend(gm: Any, inputs: Any) -> Any:
        return hook.compile_graphed(gm, inputs, {}, wrap)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(hook, "wrap_partitions", spy)
        for _ in range(2):
            torch._dynamo.reset()
            run = torch.compile(lambda x: torch.relu(x) + 1, backend=backend)
            assert torch.equal(run(torch.zeros(3)), torch.ones(3))
    assert len(seen) == 2
    assert not any(g.fx_kwargs["cudagraphs"] for g in seen)


@pytest.mark.parametrize("placing", [True, False])
def test_cpu_values_are_left_where_they_are_when_told_so(
    placing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed: list[Any] = []
    original = hook._place

    def spy(graph: Any) -> Any:
        placed.append(graph)
        return original(graph)

    def backend(gm: Any, inputs: Any) -> Any:
        return hook.compile_graphed(gm, inputs, {}, lambda function, info: function, placing)

    monkeypatch.setattr(hook, "_place", spy)
    torch._dynamo.reset()
    # A graph that comes out of the cache is not placed again.
    with torch.no_grad(), torch._functorch.config.patch(enable_autograd_cache=False):
        run = torch.compile(lambda x: torch.relu(x) + 2, backend=backend)
        assert torch.equal(run(torch.zeros(3)), torch.full((3,), 2.0))
    assert len(placed) == placing


def test_a_backward_may_write_to_what_it_was_given() -> None:
    info = GraphInfo("graph 0/0", "", donated=frozenset({1}), backward=True)
    graph = compiled((2, 13), [[0, 1, 2, 3], [None, 3, 1]])
    (_, a), (_, b) = wrapped(graph, info=info)
    assert (a.signature.written, b.signature.written) == (frozenset({1, 2}), frozenset({0, 2}))
    assert (a.signature.released, b.signature.released) == (frozenset({1}), frozenset({0, 2}))


def test_forward_and_backward_of_training_are_reached_and_told_apart() -> None:
    seen: list[GraphInfo] = []

    def backend(gm: Any, inputs: Any) -> Any:
        return hook.compile_graphed(gm, inputs, {}, lambda function, info: function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hook, "wrap_partitions", lambda g, info, *rest: seen.append(info))
        weight = torch.ones(3, 3, requires_grad=True)
        run = torch.compile(lambda x: ((x @ weight).relu() @ weight).sum(), backend=backend)
        run(torch.ones(3, 3)).backward()
        assert weight.grad is not None
    forward, backward = seen
    assert forward.title.endswith(" forward")
    assert backward.title.endswith(" backward")
    assert not forward.donated
    assert backward.donated


@pytest.mark.parametrize("subclass", [False, True])
def test_gradients_that_become_parts_of_a_subclass_share_no_memory(subclass: bool) -> None:
    """A subclass of two tensors, say, asks that both begin at the same place in their memory."""
    from torch.testing._internal.two_tensor import TwoTensor

    seen: list[GraphInfo] = []

    def backend(gm: Any, inputs: Any) -> Any:
        return hook.compile_graphed(gm, inputs, {}, lambda function, info: function)

    weight: Any = torch.ones(3, 3)
    weight = (TwoTensor(weight, weight * 2) if subclass else weight).requires_grad_()
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hook, "wrap_partitions", lambda g, info, *rest: seen.append(info))
        run = torch.compile(lambda x: (x @ weight).relu() @ weight, backend=backend)
        run(torch.ones(3, 3)).sum().backward()
    assert [(info.backward, info.parts) for info in seen] == [(False, subclass), (True, subclass)]
    info = GraphInfo("graph 0/0", "", backward=True, parts=subclass)
    ((_, found),) = wrapped(compiled((2, 13), [[0]]), info=info)
    assert found.signature.gradients is not subclass


def attention_graph(rate: float) -> torch.fx.Graph:
    """A forward that returns attention's results, and its seed and offset for the backward."""
    graph = torch.fx.Graph()
    q = graph.placeholder("primals_1")
    made = graph.call_function(
        torch.ops.aten._scaled_dot_product_efficient_attention.default, (q, q, q, None, True, rate)
    )
    parts = [graph.call_function(operator.getitem, (made, i)) for i in range(4)]
    graph.output((parts[0], q, parts[3], parts[2]))
    return graph


@pytest.mark.parametrize(("rate", "roles"), [(0.1, ("offset", "seed")), (0.0, ("nothing",) * 2)])
def test_a_forwards_seed_and_offset_are_known_as_such(rate: float, roles: tuple[str, str]) -> None:
    found = uncompiled_graph._scalars(SimpleNamespace(graph=attention_graph(rate)))
    assert found == {2: roles[0], 3: roles[1]}
    for outputs in ([3, None, 0], [[0, 3], [], [1]]):
        assert hook._results(outputs, found) == {0: roles[1]}


@pytest.mark.parametrize("rate", [None, 0.0, 0.1])
@pytest.mark.parametrize(
    ("name", "count", "seed"),
    [
        ("_scaled_dot_product_cudnn_attention", 9, 6),
        ("_cudnn_attention_forward", 9, 6),
        ("_scaled_dot_product_flash_attention", 9, 6),
        ("_flash_attention_forward", 5, 2),
    ],
)
def test_what_an_attention_on_the_gpu_leaves_unfilled_is_known(
    name: str, count: int, seed: int, rate: float | None
) -> None:
    """The seed and offset of one without dropout, and what a flash attention returns but never
    uses; the positions are those of this torch's schema.
    """
    operator_ = getattr(torch.ops.aten, name).default
    arguments, returns = operator_._schema.arguments, operator_._schema.returns
    assert len(returns) == count
    assert returns[seed].name in ("philox_seed", "rng_state")
    assert returns[seed + 1].name in ("philox_offset", "unused")
    graph = torch.fx.Graph()
    q = graph.placeholder("primals_1")
    (place,) = [i for i, a in enumerate(arguments) if a.name == "dropout_p"]
    given = (q,) * place + (() if rate is None else (rate,))
    made = graph.call_function(operator_, given)
    graph.output(tuple(graph.call_function(operator.getitem, (made, i)) for i in range(count)))
    unused = {seed + 1} if "flash" in name else set()
    expected = unused if rate else {seed, seed + 1}
    assert uncompiled_graph._scalars(SimpleNamespace(graph=graph)) == dict.fromkeys(
        expected, "nothing"
    )


def test_a_backwards_seed_and_offset_are_known_as_such() -> None:
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(f"p{i}") for i in range(10)]
    for node in inputs:
        node.meta["val"] = torch.zeros(())
    target = torch.ops.aten._scaled_dot_product_efficient_attention_backward.default
    made = graph.call_function(target, (*inputs[:8], 0.1, [True] * 4))
    graph.output((made, inputs[8]))
    inputs[0].meta["val"] = torch.zeros(2, 2)
    seeds = [i for i, node in enumerate(inputs) if uncompiled_graph._is_seed(node)]
    assert seeds == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    "name", ["_scaled_dot_product_efficient_attention_backward", "_efficient_attention_backward"]
)
@pytest.mark.parametrize("by_name", [False, True])
def test_an_attention_that_drops_nothing_reads_no_seed(name: str, by_name: bool) -> None:
    operator_ = getattr(torch.ops.aten, name).default
    places = [argument.name for argument in operator_._schema.arguments]
    rate = places.index("dropout_p")
    for value, unread in ((0.0, {0, 1}), (0.1, set())):
        graph = torch.fx.Graph()
        seed, offset = graph.placeholder("p0"), graph.placeholder("p1")
        given = [None] * len(places)
        given[places.index("philox_seed")], given[places.index("philox_offset")] = seed, offset
        given[rate] = value
        named = dict(zip(places[rate:], given[rate:], strict=True))
        arguments = (given[:rate], named) if by_name else (given, {})
        graph.output(graph.call_function(operator_, tuple(arguments[0]), arguments[1]))
        for node in (seed, offset):
            node.meta["val"] = torch.zeros(())
        known = uncompiled_graph.describe(
            SimpleNamespace(graph=graph), [], {"is_backward": True}, GraphInfo("graph 0/0", "")
        )
        assert (known.seeds, known.unread) == ({0, 1}, unread)


def test_a_size_known_only_at_run_time_makes_a_graph_dynamic() -> None:
    from torch._dynamo.source import ConstantSource
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    environment = ShapeEnv()
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
    mode = FakeTensorMode(shape_env=environment)
    symbolic = mode.from_tensor(torch.ones(5), symbolic_context=context, source=ConstantSource("x"))
    ((_, fixed),) = wrapped(compiled((2, 13), [[0]]), [torch.ones(5)])
    assert not fixed.signature.dynamic
    (_, dynamic), (_, later) = wrapped(
        compiled((2, 13), [[1, 0], [1, None]]), [symbolic, torch.ones(5)]
    )
    assert (dynamic.signature.dynamic, later.signature.dynamic) == (True, True)


@pytest.mark.parametrize("version", ["2.10.1", "2.16.0a0+git", "3.0"])
def test_an_unknown_torch_is_named(version: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "__version__", version)
        reason = torch_support.why_plain()
    assert reason is not None
    assert version in reason


def test_every_name_that_a_runners_call_may_use_is_known() -> None:
    """Torch 2.13 writes `copy_if_misaligned` into generated code, 2.12 `copy_misaligned`; a name
    that is unknown switches off, unseen, what is faster.
    """
    source = inspect.getsource(torch._inductor.codegen.wrapper)
    imported = set(re.findall(r"_dynamo\.guards import (\w+)", source))
    used = re.findall(r"^(\w+) = torch\._C\._dynamo\.guards\._\w+$", source, re.MULTILINE)
    assert "copy_if_misaligned" in NAMES
    assert imported <= NAMES
    assert imported | {name for name in used if "cuda" in name} <= global_flags._PLUMBING
