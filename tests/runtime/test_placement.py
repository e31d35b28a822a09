"""The placement pass on graphs over fake GPU tensors: what crosses, what stays, what is left alone,
and that results are the same bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import fx
from torch._inductor.fx_passes.post_grad import ConstructorMoverPass
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from pygraph_rt.host_values.crossings import LARGEST
from pygraph_rt.host_values.ops import STAY, TO_GPU
from pygraph_rt.host_values.placement import Placement, place

aten, prims = torch.ops.aten, torch.ops.prims
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


class Builder:
    """A graph with metadata, as Inductor is given it."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.mode = FakeTensorMode()

    def input(
        self, *shape: int, device: torch.device = CPU, dtype: torch.dtype = torch.float32
    ) -> fx.Node:
        node = self.graph.placeholder(f"input_{len(self.graph.nodes)}")
        with self.mode:
            node.meta["val"] = torch.empty(shape, device=device, dtype=dtype)
        return node

    def __call__(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        values, named = fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.mode:
            node.meta["val"] = target(*values, **named)
        line = sys._getframe(1).f_lineno
        node.meta["stack_trace"] = f'File "model.py", line {line}, in forward'
        return node

    def attribute(self) -> fx.Node:
        """What `torch.tensor([1.0, 2.0])` becomes."""
        table = self.graph.get_attr("table")
        table.meta["val"] = self.mode.from_tensor(torch.tensor([1.0, 2.0]))
        return self(aten.lift_fresh_copy.default, table)

    def done(self, *results: fx.Node) -> fx.GraphModule:
        self.graph.output(tuple(results))
        return fx.GraphModule({"table": torch.tensor([1.0, 2.0])}, self.graph)


class OnTheCpu(fx.Interpreter):
    """Runs a graph with the GPU's part on the CPU."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        args = tuple(CPU if isinstance(a, torch.device) else a for a in args)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": CPU}
        if target is prims.device_put.default:
            return args[0].clone()
        return super().call_function(target, args, kwargs)


def run(module: fx.GraphModule, inputs: list[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
    """Results, and the inputs afterwards."""
    inputs = [t.clone() for t in inputs]
    return OnTheCpu(module).run(*inputs), inputs


def made_up_inputs(graph: fx.Graph) -> list[torch.Tensor]:
    torch.manual_seed(3)
    found = []
    for node in graph.nodes:
        if node.op == "placeholder":
            value = node.meta["val"]
            made = torch.randn(value.shape, dtype=torch.float64) * 3
            found.append(made.abs().to(value.dtype) if not value.is_floating_point() else made)
            found[-1] = found[-1].to(value.dtype)
    return found


def devices(results: Any) -> list[Any]:
    return [node.meta["val"].device for node in results]


def text(graph: fx.Graph) -> str:
    return str(graph)


def raw_reads(graph: fx.Graph) -> list[fx.Node]:
    """GPU operators that read a CPU tensor."""
    return [
        node
        for node in graph.nodes
        if node.op == "call_function"
        and node.target is not TO_GPU
        and node.meta["val"].device.type == "cuda"
        and any(n.meta["val"].device.type == "cpu" for n in node.all_input_nodes)
    ]


def check(builder: Builder, *results: fx.Node) -> Placement:
    """Place, and compare everything with the graph as it was."""
    module = builder.done(*results)
    inputs = made_up_inputs(module.graph)
    before = run(module, inputs)
    (output,) = (n for n in module.graph.nodes if n.op == "output")
    where = devices(output.args[0])
    found = place(module.graph)
    module.graph.lint()
    module.recompile()
    assert devices(output.args[0]) == where
    propagate(module)
    after = run(module, inputs)
    for one, two in zip([*before[0], *before[1]], [*after[0], *after[1]], strict=True):
        assert torch.equal(one, two)
        assert one.dtype == two.dtype
    assert_settled(module.graph)
    return found


def propagate(module: fx.GraphModule) -> None:
    """What Inductor does first with a graph: compute all metadata anew, and find it as it was."""
    values = [n.meta["val"] for n in module.graph.nodes if n.op == "placeholder"]
    before = {n: n.meta["val"] for n in module.graph.nodes if "val" in n.meta}
    FakeTensorProp(module, mode=values[0].fake_mode).propagate_dont_convert_inputs(*values)
    for node, value in before.items():
        found = node.meta["val"]
        assert (found.shape, found.dtype, found.device) == (value.shape, value.dtype, value.device)


def assert_settled(graph: fx.Graph) -> None:
    """A second run and Inductor's own pass find nothing to do."""
    before = text(graph)
    place(graph)
    assert text(graph) == before
    graph.eliminate_dead_code()
    before = text(graph)
    ConstructorMoverPass("cuda", allow_inputs=True, allow_outputs=True)(graph)
    # It copies scalars that nobody reads, too.
    graph.eliminate_dead_code()
    assert text(graph) == before


def targets(graph: fx.Graph) -> list[Any]:
    return [node.target for node in graph.nodes if node.op == "call_function"]


def test_python_floats_cross_as_they_are() -> None:
    """With dynamic shapes they are inputs, doubles, which torch rounds where they are used."""
    b = Builder()
    x = b.input(8, device=GPU)
    epsilon, scale = b.input(dtype=torch.float64), b.input(dtype=torch.float64)
    rounded = b(prims.convert_element_type.default, epsilon, torch.float32)
    y = b(aten.add.Tensor, x, rounded)
    y = b(aten.mul.Tensor, y, b(prims.convert_element_type.default, scale, torch.float32))
    found = check(b, y)
    assert (found.values, found.copies, found.nbytes) == (2, 1, 16)
    nodes = b.graph.find_nodes(op="call_function", target=prims.convert_element_type.default)
    assert {str(node.meta["val"].device) for node in nodes} == {"cuda:0"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_other_conversions_stay_on_the_cpu(dtype: torch.dtype) -> None:
    b = Builder()
    x, value = b.input(8, device=GPU), b.input(dtype=torch.float64)
    check(b, b(aten.add.Tensor, x, b(prims.convert_element_type.default, value, dtype)))
    (node,) = b.graph.find_nodes(op="call_function", target=prims.convert_element_type.default)
    assert node.meta["val"].device.type == "cpu"


def test_elements_of_one_vector_cross_as_the_vector() -> None:
    b = Builder()
    x, vector = b.input(8, device=GPU), b.input(4)
    y = b(aten.mul.Tensor, x, b(aten.select.int, vector, 0, 2))
    y = b(aten.add.Tensor, y, b(aten.select.int, vector, 0, 3))
    found = check(b, y)
    assert (found.values, found.copies, found.nbytes) == (1, 1, 16)
    assert not raw_reads(b.graph)


def test_one_element_of_a_large_vector_crosses_alone() -> None:
    b = Builder()
    x, vector = b.input(8, device=GPU), b.input(1 << 20)
    found = check(b, b(aten.mul.Tensor, x, b(aten.select.int, vector, 0, 2)))
    assert (found.values, found.nbytes) == (1, 4)
    assert not raw_reads(b.graph)


def test_several_values_cross_in_one_copy_a_dtype() -> None:
    b = Builder()
    x, s, t = b.input(8, device=GPU), b.input(), b.input()
    n = b.input(dtype=torch.int64)
    y = b(aten.add.Tensor, b(aten.mul.Tensor, x, s), t)
    found = check(b, b(aten.mul.Tensor, y, n))
    assert (found.values, found.copies, found.nbytes) == (3, 2, 16)


def test_arithmetic_stays_on_the_cpu() -> None:
    b = Builder()
    x, s, vector = b.input(8, device=GPU), b.input(), b.input(4)
    scale = b(aten.mul.Tensor, b(aten.add.Tensor, s, b(aten.select.int, vector, 0, 1)), 0.1)
    found = check(b, b(aten.mul.Tensor, x, scale))
    assert (found.values, found.nbytes) == (1, 4)
    (crossing,) = (n for n in b.graph.nodes if n.target is TO_GPU)
    assert crossing.args == ([scale], GPU)


def test_a_late_value_does_not_keep_the_others_from_crossing_first() -> None:
    b = Builder()
    x, s, t = b.input(8, device=GPU), b.input(), b.input()
    y = b(aten.mul.Tensor, x, s)
    y = b(aten.add.Tensor, y, b(aten.exp.default, t))
    found = check(b, y)
    assert (found.values, found.copies) == (2, 1)


def test_a_mutated_scalar_is_counted_on_the_cpu() -> None:
    b = Builder()
    step, x = b.input(), b.input(8, device=GPU)
    new = b(aten.add.Tensor, step, 1)
    y = b(aten.div.Tensor, x, new)
    written = b(aten.copy_.default, step, new)
    found = check(b, y)
    assert found.values == 1
    assert written.args == (step, new)
    assert not found.notes


def test_a_value_with_users_on_both_sides_stays_and_crosses() -> None:
    b = Builder()
    x, vector = b.input(4, device=GPU), b.input(4)
    y = b(aten.mul.Tensor, x, b(aten.select.int, vector, 0, 0))
    found = check(b, y, b(aten.cumsum.default, vector, 0), vector)
    assert found.values == 1


def test_returned_cpu_values_stay_on_the_cpu() -> None:
    b = Builder()
    x, s = b.input(4, device=GPU), b.input()
    ones = b(aten.full.default, [4], 1.0, device=CPU)
    found = check(b, b(aten.neg.default, x), b(aten.add.Tensor, s, 1), ones, s)
    assert found == Placement()
    assert targets(b.graph).count(STAY) == 2
    assert not set(ones.users) - {n for n in b.graph.nodes if n.target is STAY}


def test_constants_are_made_on_the_gpu() -> None:
    b = Builder()
    x = b.input(4, device=GPU)
    half = b(aten.full.default, [], 0.5, device=CPU, pin_memory=False)
    found = check(b, b(aten.mul.Tensor, x, half))
    assert (found.values, found.copies, found.constants) == (0, 0, 1)
    assert half.graph is b.graph
    assert half not in b.graph.nodes


def test_a_tensor_of_the_module_is_copied_when_compiling() -> None:
    b = Builder()
    x = b.input(4, device=GPU)
    table = b.attribute()
    y = b(aten.mul.Tensor, x, b(aten.select.int, table, 0, 1))
    found = check(b, b(aten.add.Tensor, y, b(aten.select.int, table, 0, 0)))
    assert (found.values, found.constants) == (0, 1)
    (put,) = (n for n in b.graph.nodes if n.target is prims.device_put.default)
    assert put.args == (table, GPU)
    assert raw_reads(b.graph) == [put]


def test_a_copy_to_the_gpu_does_not_wait() -> None:
    b = Builder()
    x, bias = b.input(4, device=GPU), b.input(4)
    copied = b(prims.device_put.default, bias, GPU)
    found = check(b, b(aten.add.Tensor, x, copied))
    assert (found.values, found.nbytes) == (1, 16)
    assert prims.device_put.default not in targets(b.graph)


def test_returned_copies_share_no_memory() -> None:
    b = Builder()
    x, first, second = b.input(4, device=GPU), b.input(4), b.input(4)
    results = [b(prims.device_put.default, t, GPU) for t in (first, second, second)]
    found = check(b, b(aten.add.Tensor, x, results[0]), *results)
    assert found.copies == 3
    module = fx.GraphModule({}, b.graph)
    (_, *copies), inputs = run(module, made_up_inputs(b.graph))
    storages = {t.untyped_storage().data_ptr() for t in [*copies, *inputs]}
    assert len(storages) == 6
    assert all(t.untyped_storage().nbytes() == 16 for t in copies)


def test_returned_copies_of_a_constant_share_no_memory() -> None:
    b = Builder()
    x = b.input(4, device=GPU)
    ones = b(aten.full.default, [4], 1.0, device=CPU)
    results = [b(prims.device_put.default, ones, GPU) for _ in range(2)]
    found = check(b, b(aten.neg.default, x), *results)
    assert (found.copies, found.constants) == (0, 2)
    (_, one, two), _ = run(fx.GraphModule({}, b.graph), made_up_inputs(b.graph))
    assert one.data_ptr() != two.data_ptr()


def test_an_index_crosses_and_a_mask_does_not() -> None:
    b = Builder()
    x, rows = b.input(8, 2, device=GPU), b.input(3, dtype=torch.int64)
    found = check(b, b(aten.index.Tensor, x, [rows]))
    assert (found.values, found.nbytes) == (1, 24)
    b = Builder()
    x, mask = b.input(8, device=GPU), b.input(8, dtype=torch.bool)
    y = b(aten.index_put.default, x, [mask], x)
    b.done(y)
    found = place(b.graph)
    assert raw_reads(b.graph) == [y]
    assert "mask on the CPU" in found.notes[0].text


def test_a_large_copy_is_left_and_named() -> None:
    b = Builder()
    x, big = b.input(8, device=GPU), b.input(LARGEST // 4 + 1)
    copied = b(prims.device_put.default, big, GPU)
    b.done(x, copied)
    found = place(b.graph)
    assert (found.values, copied in b.graph.nodes) == (0, True)
    (note,) = found.notes
    assert f"({LARGEST // 4 + 1},)" in str(note)
    assert "forward at model.py:" in str(note)
    assert "PG106" in str(note)


def test_a_value_that_depends_on_the_gpu_crosses_where_it_is_made() -> None:
    b = Builder()
    x, s = b.input(8, device=GPU), b.input()
    top = b(prims.device_put.default, b(aten.amax.default, x), CPU)
    limit = b(aten.add.Tensor, top, s)
    y = b(aten.mul.Tensor, b(aten.mul.Tensor, x, limit), s)
    found = check(b, y, limit)
    assert (found.values, found.copies) == (2, 2)
    assert not raw_reads(b.graph)


def test_random_numbers_of_the_cpu_keep_their_order() -> None:
    b = Builder()
    x = b.input(4, device=GPU)
    first = b(aten.rand.default, [], device=CPU)
    second = b(aten.rand.default, [], device=CPU)
    b.done(b(aten.mul.Tensor, x, second), b(aten.add.Tensor, first, 1))
    place(b.graph)
    order = [n for n in b.graph.nodes if n.target is aten.rand.default]
    assert order == [first, second]
    assert not raw_reads(b.graph)
    assert_settled(b.graph)


def test_a_graph_that_writes_to_a_cpu_tensor_midway_is_left_alone() -> None:
    b = Builder()
    x, s = b.input(4, device=GPU), b.input()
    b(aten.copy_.default, s, b(aten.add.Tensor, s, 1))
    b.done(b(aten.mul.Tensor, x, s))
    before = text(b.graph)
    found = place(b.graph)
    assert text(b.graph) == before
    assert "in place" in found.notes[0].text


@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_graph_of_one_device_is_left_alone(device: torch.device) -> None:
    b = Builder()
    x = b.input(4, device=device)
    b.done(b(aten.mul.Tensor, x, x))
    before = text(b.graph)
    assert place(b.graph) == Placement()
    assert text(b.graph) == before


def test_an_unknown_operator_keeps_its_cpu_argument() -> None:
    b = Builder()
    x, weights = b.input(4, device=GPU), b.input(4)
    node = b.graph.call_function(aten.dot.default, (x, weights))
    node.meta["val"] = b(aten.sum.default, x).meta["val"]
    b.done(node)
    found = place(b.graph)
    assert raw_reads(b.graph) == [node]
    assert "aten.dot" in found.notes[0].text
    assert found.notes[0].rule == "PG105"


def test_strided_values_cross_in_order() -> None:
    b = Builder()
    x, matrix = b.input(4, 6, device=GPU), b.input(6, 4)
    turned = b(aten.permute.default, matrix, [1, 0])
    rows = b(aten.reshape.default, turned, [24])
    y = b(aten.copy.default, x, b(aten.view.default, rows, [4, 6]))
    z = b(aten.mul.Tensor, x, b(aten.select.int, rows, 0, 7))
    found = check(b, y, z)
    assert found.values == 1


UNARY = [aten.neg.default, aten.exp.default, aten.abs.default]
BINARY = [aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Builder, list[fx.Node]]:
    """CPU and GPU values mixed at random, some returned, some CPU inputs written to."""
    b = Builder()
    host = [b.input() for _ in range(draw(st.integers(1, 3)))]
    vectors = [b.input(5) for _ in range(draw(st.integers(1, 2)))]
    inputs = [*host, *vectors]
    device = [b.input(5, device=GPU)]
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.integers(0, 7))
        if kind == 0:
            vector = draw(st.sampled_from(vectors))
            host.append(b(aten.select.int, vector, 0, draw(st.integers(0, 4))))
        elif kind == 1:
            host.append(b(draw(st.sampled_from(UNARY)), draw(st.sampled_from(host))))
        elif kind == 2:
            one, two = draw(st.sampled_from(host)), draw(st.sampled_from(host))
            host.append(b(draw(st.sampled_from(BINARY)), one, two))
        elif kind == 3:
            host.append(b(aten.full.default, [], draw(st.integers(-3, 3)) / 2, device=CPU))
        elif kind == 4:
            total = b(aten.amax.default, draw(st.sampled_from(device)))
            host.append(b(prims.device_put.default, total, CPU))
        elif kind == 5:
            device.append(b(prims.device_put.default, draw(st.sampled_from(vectors)), GPU))
        elif kind == 6:
            vectors.append(b(aten.neg.default, draw(st.sampled_from(vectors))))
        else:
            one, two = draw(st.sampled_from(device)), draw(st.sampled_from(host))
            device.append(b(draw(st.sampled_from(BINARY)), one, two))
    results = draw(st.lists(st.sampled_from([*host, *device, *vectors]), min_size=1, max_size=5))
    results.append(device[-1])
    written: list[fx.Node] = []
    for target in draw(st.lists(st.sampled_from(inputs), unique=True, max_size=2)):
        source = draw(st.sampled_from(vectors if target.meta["val"].dim() else host))
        if source not in written:
            b(aten.copy_.default, target, source)
            written.append(target)
    return b, results


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_any_graph_gives_the_same_bits_where_it_gave_them(made: Any) -> None:
    builder, results = made
    found = check(builder, *results)
    assert not raw_reads(builder.graph)
    assert not found.notes
