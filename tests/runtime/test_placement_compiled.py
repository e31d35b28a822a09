"""What Inductor makes of the operators of placement, with a CPU in the GPU's place, and how a
compiled graph's regions learn what was placed.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext, tracing
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.utils import run_and_get_code
from torch._subclasses.fake_tensor import FakeTensorMode

from pygraph_rt.host_values import lowerings
from pygraph_rt.host_values.crossings import Note
from pygraph_rt.host_values.ops import NUMBER, STAY, TO_GPU
from pygraph_rt.host_values.placement import Placement, place
from pygraph_rt.inductor import hook
from pygraph_rt.inductor.graph_info import GraphInfo
from pygraph_rt.inductor.partition_info import PartitionInfo
from pygraph_rt.reports.render import details

CPU = torch.device("cpu")


def compile_graph(graph: fx.Graph, inputs: list[torch.Tensor]) -> tuple[Any, str]:
    """A graph's compiled form, and its generated code."""
    lowerings.register_lowerings()
    module, mode = fx.GraphModule({}, graph), FakeTensorMode()
    fakes = [mode.from_tensor(t) for t in inputs]
    for node, fake in zip(graph.nodes, fakes, strict=False):
        node.meta["val"] = fake
    with tracing(TracingContext(mode)), torch.no_grad():
        result, code = run_and_get_code(lambda: compile_fx_inner(module, fakes))
    return result, "\n".join(code)


def test_values_are_joined_in_memory_of_the_graphs_own() -> None:
    graph = fx.Graph()
    scalar, vector, row = (graph.placeholder(name) for name in ("scalar", "vector", "row"))
    joined = graph.call_function(TO_GPU, ([scalar, vector, row], CPU))
    graph.output((joined,))
    inputs = [torch.tensor(2.0), torch.arange(3.0), torch.arange(6.0).reshape(2, 3).t()]
    compiled, code = compile_graph(graph, inputs)
    (result,) = compiled(list(inputs))
    assert result.tolist() == [2.0, 0.0, 1.0, 2.0, 0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    assert ".copy_(" in code
    assert "empty_strided_cpu_pinned(" not in code


def test_no_code_is_generated_for_values_that_are_given() -> None:
    """Before it generates any for the CPU, Inductor compiles programs that try it out."""
    graph = fx.Graph()
    one, two, vector = (graph.placeholder(name) for name in ("one", "two", "vector"))
    part = graph.call_function(torch.ops.aten.slice.Tensor, (vector, 0, 1, 3))
    joined = graph.call_function(TO_GPU, ([one, two, part], CPU))
    graph.output((joined, graph.call_function(TO_GPU, ([vector], CPU))))
    inputs = [torch.tensor(2.0), torch.tensor(3.0), torch.arange(4.0)]
    compiled, code = compile_graph(graph, inputs)
    first, second = compiled(list(inputs))
    assert (first.tolist(), second.tolist()) == ([2.0, 3.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0])
    assert "cpp_fused" not in code
    doubled = fx.Graph()
    value = doubled.call_function(torch.ops.aten.mul.Tensor, (doubled.placeholder("value"), 2))
    doubled.output((doubled.call_function(TO_GPU, ([value], CPU)),))
    compiled, code = compile_graph(doubled, [torch.tensor(2.0)])
    assert compiled([torch.tensor(2.0)])[0].tolist() == [4.0]
    assert "cpp_fused" in code


def test_a_number_is_made_anew_without_generated_code() -> None:
    numbers = [
        torch.tensor(512),
        torch.tensor(-(1 << 62)),
        torch.tensor(True),
        torch.tensor(0.1),
        torch.tensor(0.1, dtype=torch.float64),
        torch.tensor(1 / 3, dtype=torch.bfloat16),
        torch.tensor(-0.0),
        torch.tensor(200, dtype=torch.uint8),
    ]
    graph = fx.Graph()
    x = graph.placeholder("x")
    made = [graph.call_function(NUMBER, (value.item(), value.dtype)) for value in numbers]
    graph.output((x, *(graph.call_function(STAY, (node,)) for node in made)))
    compiled, code = compile_graph(graph, [torch.ones(2)])
    assert "cpp_fused" not in code
    for _ in range(2):
        _, *results = compiled([torch.ones(2)])
        for result, expected in zip(results, numbers, strict=True):
            assert result.dtype == expected.dtype
            assert result.device == CPU
            assert result.shape == ()
            assert torch.equal(result, expected)
            assert math.copysign(1, result) == math.copysign(1, expected)
            result.zero_()  # is the caller's own


def test_a_value_alone_is_not_read_from_the_callers_memory() -> None:
    graph = fx.Graph()
    vector = graph.placeholder("vector")
    graph.output((graph.call_function(TO_GPU, ([vector], CPU)),))
    compiled, code = compile_graph(graph, [torch.arange(3.0)])
    (copy,) = [line.strip() for line in code.splitlines() if ".copy_(" in line]
    source = copy.split("(")[1].split(",")[0]
    assert source.startswith("buf")
    assert copy.endswith(", True)")
    assert compiled([torch.arange(3.0)])[0].tolist() == [0.0, 1.0, 2.0]


def test_a_scalar_that_is_written_to_is_read_before() -> None:
    graph = fx.Graph()
    step = graph.placeholder("step")
    before = graph.call_function(TO_GPU, ([step], CPU))
    after = graph.call_function(torch.ops.aten.add.Tensor, (graph.call_function(STAY, (step,)), 1))
    graph.call_function(torch.ops.aten.copy_.default, (step, after))
    graph.output((before, after))
    compiled, _ = compile_graph(graph, [torch.tensor(4.0)])
    value = torch.tensor(4.0)
    first, second = compiled([value])
    assert (first.tolist(), second.item(), value.item()) == ([4.0], 5.0, 5.0)


def test_every_dtype_that_may_cross_does() -> None:
    from pygraph_rt.host_values.ops import DTYPES

    dtypes = sorted(DTYPES, key=str)
    graph = fx.Graph()
    nodes = [graph.placeholder(f"value_{i}") for i in range(2 * len(dtypes))]
    pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
    graph.output(tuple(graph.call_function(TO_GPU, (pair, CPU)) for pair in pairs))
    inputs = [t for d in dtypes for t in (torch.ones((), dtype=d), torch.zeros(2, dtype=d))]
    compiled, _ = compile_graph(graph, inputs)
    results = compiled(list(inputs))
    assert [r.dtype for r in results] == dtypes
    assert all(r.tolist() == [1, 0, 0] for r in results)


def test_a_region_says_what_was_copied_and_what_was_left() -> None:
    seen: list[Any] = []
    graph = SimpleNamespace(
        recursively_apply_fns=lambda fns: [fn("partition") for fn in fns],
        partition_maps=[SimpleNamespace(input_index_mapping=[0], output_index_mapping=[])],
        device_types={"cuda"},
        device_idxs={0},
        mutated_input_idxs=set(),
    )
    note = Note("`aten.dot` reads a CPU tensor of shape (4,)", "f at m.py:3", "PG106")
    placement = Placement(values=2, nbytes=8, copies=1, notes=(note,))

    def wrap(function: Any, info: PartitionInfo) -> Any:
        seen.append(info)
        return function

    hook.wrap_partitions(graph, GraphInfo("g", "", placement=placement), wrap)
    region = seen[0].region
    assert (region.host_values, region.host_bytes) == (2, 8)
    assert region.host_notes == [
        "`aten.dot` reads a CPU tensor of shape (4,) (f at m.py:3); see PG106"
    ]
    said = details(asdict(region))
    assert "CPU values copied to the GPU ahead of a call: 2 (8 B)" in said
    assert f"{note}." in said


def test_what_runs_ahead_of_the_gpu_is_not_said_to_split() -> None:
    graph, mode = fx.Graph(), FakeTensorMode()
    aten, gpu = torch.ops.aten, torch.device("cuda", 0)
    with mode:
        on_gpu, on_cpu = torch.empty(4, device=gpu), torch.empty(())

    def add(target: Any, value: torch.Tensor, *args: Any) -> fx.Node:
        node = graph.call_function(target, args)
        node.meta["val"] = value
        return node

    x, s = graph.placeholder("x"), graph.placeholder("s")
    x.meta["val"], s.meta["val"] = on_gpu, on_cpu
    early = add(aten.exp.default, on_cpu, s)
    y = add(aten.mul.Tensor, on_gpu, x, early)
    back = add(torch.ops.prims.device_put.default, on_cpu, add(aten.amax.default, on_gpu, y), CPU)
    graph.output((add(aten.add.Tensor, on_cpu, back, early), y))
    place(graph)
    assert [cut.why.split()[0] for cut in hook._cuts(graph)] == [
        "prims::device_put",
        "aten::add",
    ]
