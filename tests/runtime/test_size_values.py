"""CPU scalars that depend on sizes alone: computed once for these sizes, and never written to."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._functorch.config
import torch.nn.functional as F
from torch import fx
from torch._guards import TracingContext, tracing
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.utils import run_and_get_code
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from pygraph_rt.capture import generated
from pygraph_rt.host_values import lowerings, ops, placement
from pygraph_rt.host_values.from_sizes import program, sizes_of
from pygraph_rt.host_values.ops import FROM_SIZES, NUMBER, TO_GPU
from pygraph_rt.host_values.placement import place

aten = torch.ops.aten
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    ops.SIZE_VALUES.forget()
    yield
    ops.SIZE_VALUES.forget()


class Builder:
    """A graph whose first two inputs are sizes, and whose third is a GPU tensor."""

    def __init__(self) -> None:
        self.graph, self.shapes = fx.Graph(), ShapeEnv()
        self.attributes: dict[str, torch.Tensor] = {}
        self.mode = FakeTensorMode(shape_env=self.shapes)
        self.height, self.width = (self.size(n) for n in (6, 9))
        self.x = self.input(torch.empty(4), GPU)

    def size(self, hint: int) -> fx.Node:
        node = self.graph.placeholder(f"size_{hint}")
        source = torch._dynamo.source.ConstantSource(f"size_{hint}")
        symbol = self.shapes.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
        node.meta["val"] = self.shapes.create_symintnode(symbol, hint=hint, source=source)
        return node

    def input(self, like: torch.Tensor, device: torch.device) -> fx.Node:
        node = self.graph.placeholder(f"input_{len(self.graph.nodes)}")
        with self.mode:
            node.meta["val"] = torch.empty(like.shape, dtype=like.dtype, device=device)
        return node

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        values, named = fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.mode:
            node.meta["val"] = target(*values, **named)
        return node

    def scalar(self, size: fx.Node, dtype: torch.dtype = torch.float32) -> fx.Node:
        return self(aten.scalar_tensor.default, size, dtype=dtype)

    def held(self, value: torch.Tensor) -> fx.Node:
        """A tensor that the graph holds, as `torch.tensor([1.0])` in a program becomes."""
        self.attributes[f"held_{len(self.attributes)}"] = value
        held = self.graph.create_node("get_attr", f"held_{len(self.attributes) - 1}")
        node = self.graph.call_function(aten.lift_fresh_copy.default, (held,))
        with self.mode:
            node.meta["val"] = torch.empty(value.shape, dtype=value.dtype)
        return node

    def placed(self, *results: fx.Node) -> tuple[placement.Placement, list[Any]]:
        self.graph.output(tuple(results))
        self.graph = fx.GraphModule(self.attributes, self.graph).graph
        found = place(self.graph)
        self.graph.lint()
        before = str(self.graph)
        place(self.graph)
        assert str(self.graph) == before
        return found, [n.target for n in self.graph.nodes if n.op == "call_function"]


def on_the_cpu(graph: fx.Graph, *args: Any) -> Any:
    """The graph's results, with the CPU in the GPU's place."""
    for node in graph.nodes:
        node.args = tuple(CPU if arg == GPU else arg for arg in node.args)
    assert graph.owning_module is not None
    return fx.Interpreter(graph.owning_module).run(*args)


def test_values_of_sizes_are_computed_once() -> None:
    b = Builder()
    ratio = b(aten.div.Tensor, b.scalar(b.height), b.scalar(b(operator.mul, b.width, 2)))
    y = b(aten.mul.Tensor, b(aten.mul.Tensor, b.x, ratio), b.scalar(b.height))
    found, targets = b.placed(y)
    assert (found.values, found.copies, found.constants) == (0, 0, 2)
    assert not found.notes
    assert targets.count(FROM_SIZES) == 1
    assert TO_GPU not in targets
    assert aten.scalar_tensor.default not in targets
    x = torch.randn(4)
    for height, width in ((3, 7), (5, 2), (3, 7), (5, 2), (4, 4)):
        (result,) = on_the_cpu(b.graph, height, width, x)
        assert torch.equal(result, x * (torch.tensor(float(height)) / (2 * width)) * height)
    ratio_3_14 = (torch.tensor(3.0) / 14).item()
    assert [t.tolist() for t in ops.kept()] == [[ratio_3_14, 3.0], [1.25, 5.0]]


def test_each_dtype_has_its_own() -> None:
    b = Builder()
    y = b(aten.mul.Tensor, b.x, b.scalar(b.height, torch.float64))
    y = b(aten.mul.Tensor, y, b.scalar(b.width, torch.int64))
    found, targets = b.placed(y)
    assert (found.constants, targets.count(FROM_SIZES)) == (2, 2)
    for _ in range(2):
        (result,) = on_the_cpu(b.graph, 3, 7, torch.ones(4))
        assert result.tolist() == [21.0] * 4
    assert {t.dtype for t in ops.kept()} == {torch.float64, torch.int64}


def mask(b: Builder, side: int = 5) -> fx.Node:
    """A causal mask, as models make it on the CPU."""
    full = b(aten.full.default, [side, side], float("-inf"), device=CPU)
    row = b(aten.arange.start_step, 0, side, 1, device=CPU)
    column = b(aten.unsqueeze.default, row, 1)
    return b(aten.where.self, b(aten.gt.Tensor, row, column), full, b(aten.full.default, [], 0.0))


def test_a_mask_that_depends_on_nothing_is_made_once() -> None:
    b = Builder()
    rows = b.input(torch.empty(5, 5), GPU)
    moved = b(torch.ops.prims.device_put.default, mask(b), GPU)
    y = b(aten.add.Tensor, rows, moved)
    found, targets = b.placed(b(aten.mul.Tensor, y, b.scalar(b.height)))
    assert (found.values, found.copies, found.constants) == (0, 0, 2)
    assert targets.count(FROM_SIZES) == 1
    assert not {TO_GPU, aten.where.self, torch.ops.prims.device_put.default} & {*targets}
    given = torch.randn(5, 5)
    expected = torch.full((5, 5), float("-inf")).triu(1)
    for height in (3, 3, 4):
        (result,) = on_the_cpu(b.graph, height, 1, torch.ones(4), given)
        assert torch.equal(result, (given + expected) * height)


def test_what_is_known_late_does_not_hold_up_what_is_known_early() -> None:
    b = Builder()
    early = b(aten.mul.Tensor, b.x, b.scalar(b.height))
    rows = b(aten.expand.default, b(aten.unsqueeze.default, early, 0), [b.width, 4])
    late = b(aten.sym_size.int, b(aten.clone.default, rows), 0)
    found, targets = b.placed(b(aten.mul.Tensor, rows, b.scalar(late)))
    assert (found.constants, found.copies) == (2, 0)
    assert targets.count(FROM_SIZES) == 2
    x = torch.randn(4)
    (result,) = on_the_cpu(b.graph, 3, 7, x)
    assert torch.equal(result, (x * 3).expand(7, 4) * 7)


def test_a_graph_without_inputs() -> None:
    graph, mode = fx.Graph(), FakeTensorMode()

    def add(target: Any, *args: Any, device: torch.device) -> fx.Node:
        node = graph.call_function(
            target, args, {"device": device} if "full" in str(target) else {}
        )
        with mode:
            node.meta["val"] = torch.empty((3,), device=device)
        return node

    on_gpu = add(aten.full.default, [3], 1.0, device=GPU)
    value = add(aten.exp.default, add(aten.full.default, [3], 2.0, device=CPU), device=CPU)
    moved = add(torch.ops.prims.device_put.default, value, GPU, device=GPU)
    graph.output((add(aten.add.Tensor, on_gpu, moved, device=GPU),))
    place(graph)
    graph.lint()


def test_what_is_returned_too_has_a_copy_of_its_own() -> None:
    b = Builder()
    rows = b.input(torch.empty(5, 5), GPU)
    value = mask(b)
    y = b(aten.add.Tensor, rows, b(torch.ops.prims.device_put.default, value, GPU))
    returned = b(torch.ops.prims.device_put.default, value, GPU)
    found, targets = b.placed(y, returned)
    assert (found.constants, found.copies) == (1, 1)
    given, expected = torch.randn(5, 5), torch.full((5, 5), float("-inf")).triu(1)
    one, two = on_the_cpu(b.graph, 3, 1, torch.ones(4), given)
    assert torch.equal(one, given + expected)
    assert torch.equal(two, expected)


def test_what_is_large_or_of_a_size_that_differs_is_not() -> None:
    for side in (200, 600):
        b = Builder()
        rows = b.input(torch.empty(side, side), GPU)
        moved = b(torch.ops.prims.device_put.default, mask(b, side), GPU)
        found, targets = b.placed(b(aten.add.Tensor, rows, moved))
        assert FROM_SIZES not in targets
        assert found.notes
    b = Builder()
    lengths = b(aten.arange.default, b.height, device=CPU)
    moved = b(torch.ops.prims.device_put.default, lengths, GPU)
    _, targets = b.placed(b(aten.sum.default, moved))
    assert FROM_SIZES not in targets


def test_what_takes_more_than_sizes_crosses_on_each_call() -> None:
    b = Builder()
    step = b.input(torch.empty(()), CPU)
    drawn = b(aten.rand.default, [], device=CPU)
    mixed = b(aten.add.Tensor, b.scalar(b.height), step)
    noisy = b(aten.add.Tensor, b.scalar(b.height), drawn)
    y = b(aten.mul.Tensor, b(aten.mul.Tensor, b.x, mixed), noisy)
    _, targets = b.placed(y)
    assert FROM_SIZES not in targets
    assert TO_GPU in targets


def test_a_size_that_depends_on_data_is_no_size() -> None:
    b = Builder()
    count = b.graph.placeholder("count")
    count.meta["val"] = b.shapes.create_unbacked_symint()
    y = b(aten.mul.Tensor, b.x, b.scalar(count))
    _, targets = b.placed(y)
    assert FROM_SIZES not in targets


def test_what_is_returned_has_memory_of_its_own() -> None:
    b = Builder()
    moved = b(torch.ops.prims.device_put.default, b.scalar(b.height), GPU)
    _, targets = b.placed(moved)
    assert FROM_SIZES not in targets


def test_what_is_computed_from_held_tensors_is_computed_once() -> None:
    """The scale of DeBERTa's attention, and a vector."""
    b = Builder()
    scale = b(aten.sqrt.default, b(aten.mul.Tensor, b.held(torch.tensor(64.0)), 3))
    steps = b(aten.exp.default, b.held(torch.tensor([1.0, float("inf"), -0.0, 3.0])))
    moved = b(torch.ops.prims.device_put.default, steps, GPU)
    found, targets = b.placed(b(aten.mul.Tensor, b(aten.div.Tensor, b.x, scale), moved))
    assert (found.values, found.copies, found.constants) == (0, 0, 2)
    assert targets.count(FROM_SIZES) == 1
    assert not {TO_GPU, aten.sqrt.default, aten.lift_fresh_copy.default} & {*targets}
    x = torch.randn(4)
    expected = (
        x / torch.sqrt(torch.tensor(64.0) * 3) * torch.tensor([1, float("inf"), -0.0, 3]).exp()
    )
    for _ in range(2):
        (result,) = on_the_cpu(b.graph, 3, 7, x)
        assert torch.equal(result, expected)


@pytest.mark.parametrize("dtype", sorted(ops.DTYPES, key=str), ids=str)
def test_held_tensors_of_every_dtype(dtype: torch.dtype) -> None:
    b = Builder()
    held = torch.tensor([3, 0, 1], dtype=torch.float64).div(3 if dtype.is_floating_point else 1)
    held = held.to(dtype)
    value = b(aten.flip.default, b.held(held), [0])
    _, targets = b.placed(b(torch.ops.prims.device_put.default, value, GPU), b.x)
    assert TO_GPU in targets  # because it is returned
    (made,) = ops.SIZE_VALUES().compute(program([value])[0].source, ())
    assert made.dtype == dtype
    assert torch.equal(made, held.flip(0))


def test_what_is_complex_or_holds_nothing_is_not_computed_once() -> None:
    b = Builder()
    complex_ = b(aten.full.default, [2], 1.0, dtype=torch.complex64, device=CPU)
    assert sizes_of(b(aten.abs.default, complex_)) is None
    assert sizes_of(b(aten.neg.default, b.held(torch.zeros(0, 3)))) is None


def test_held_tensors_that_are_large_or_not_known_are_not_computed_from() -> None:
    b = Builder()
    large = b(aten.neg.default, b.held(torch.zeros(300)))
    elsewhere = b(aten.neg.default, b.held(torch.zeros(3, device="meta")))
    with b.mode:
        fake = torch.zeros(3)
    unknown = b(aten.neg.default, b.held(fake))
    b.graph = fx.GraphModule(b.attributes, b.graph).graph
    assert [sizes_of(node) for node in (large, elsewhere, unknown)] == [None] * 3


def test_a_number_that_is_returned_takes_no_code() -> None:
    b = Builder()
    root = b(aten.sqrt.default, b(aten.mul.Tensor, b.held(torch.tensor(64.0)), 3))
    span = b.held(torch.tensor(512))
    full = b(aten.full.default, [], True, dtype=torch.bool, device=CPU)
    y = b(aten.mul.Tensor, b.x, root)
    found, targets = b.placed(y, root, span, full, span)
    assert targets.count(NUMBER) == 3
    assert not {aten.sqrt.default, aten.lift_fresh_copy.default, aten.full.default} & {*targets}
    expected = [torch.sqrt(torch.tensor(64.0) * 3), torch.tensor(512), torch.tensor(True)]
    for _ in range(2):
        _, *results = on_the_cpu(b.graph, 3, 7, torch.randn(4))
        assert [r.item() for r in results] == [e.item() for e in (*expected, expected[1])]
        assert [r.dtype for r in results] == [e.dtype for e in (*expected, expected[1])]
        for result in results:
            result.zero_()


def test_what_is_returned_and_no_number_is_computed() -> None:
    b = Builder()
    one = b.held(torch.tensor(1.0))
    returned = [
        b(aten.mul.Tensor, one, b.held(torch.tensor(float("nan")))),
        b(aten.mul.Tensor, b.held(torch.tensor([1.0])), 2),
        b(aten.mul.Tensor, b.held(torch.tensor(2.0)), b.scalar(b.height)),
        b(aten.mul.Tensor, b.held(torch.tensor(1.0)), b(aten.rand.default, [], device=CPU)),
        b(aten.remainder.Tensor, b.held(torch.tensor(3)), b.held(torch.tensor(0))),
        b(aten.mul.Tensor, b.held(torch.tensor(1j)), 2),
    ]
    _, targets = b.placed(b(aten.mul.Tensor, b.x, 2), *returned)
    assert NUMBER not in targets
    b = Builder()
    base = b(aten.mul.Tensor, b.held(torch.tensor(2.0)), 3)
    _, targets = b.placed(b.x, base, b(aten.view.default, base, [1]))
    assert NUMBER not in targets  # they share memory


def test_a_number_that_cpu_code_uses_too_is_computed_for_that() -> None:
    b = Builder()
    step = b.input(torch.empty(()), CPU)
    number = b(aten.mul.Tensor, b.held(torch.tensor(2.0)), 3)
    _, targets = b.placed(b(aten.mul.Tensor, b.x, 2), number, b(aten.add.Tensor, step, number))
    assert NUMBER in targets
    assert aten.mul.Tensor in targets
    _, six, seven = on_the_cpu(b.graph, 3, 7, torch.ones(4), torch.tensor(1.0))
    assert (six.item(), seven.item()) == (6.0, 7.0)


def test_the_source_of_a_program_says_what_it_does() -> None:
    held = []
    for value in (2.0, 2.0, 3.0):
        b = Builder()
        root = b(aten.neg.default, b.held(torch.tensor(value)))
        b.graph = fx.GraphModule(b.attributes, b.graph).graph
        held.append(program([root])[0])
    assert held[0] == held[1] != held[2]

    def source(divisor: float) -> str:
        b = Builder()
        root = b(aten.div.Tensor, b.scalar(b.height), divisor)
        assert sizes_of(root) == [b.height]
        found, sizes = program([root])
        assert sizes == [b.height]
        return found.source

    assert source(2.0) == source(2.0)
    assert source(2.0) != source(2.0000000000000004)


def test_compiled_code_holds_all_of_a_program() -> None:
    """A process that takes it out of a cache has never seen the graph."""
    b = Builder()
    found, _ = program([b(aten.div.Tensor, b.scalar(b.height), math.inf), b.scalar(b.height)])
    ops.SIZE_VALUES.forget()
    assert FROM_SIZES([3], *found, CPU).tolist() == [0.0, 3.0]


def test_inductor_can_write_a_program_into_a_comment() -> None:
    """In front of each GPU kernel stand the nodes it comes from, a line each."""
    b = Builder()
    _, targets = b.placed(b(aten.mul.Tensor, b.x, b.scalar(b.height)))
    assert FROM_SIZES in targets
    assert not [node for node in b.graph.nodes if "\n" in (node.format_node() or "")]


def test_an_operator_of_the_programs_own_may_give_something_else_each_time() -> None:
    with torch.library._scoped_library("pygraph_test", "DEF") as library:
        library.define("count(int n, *, Device? device=None) -> Tensor")
        give = lambda n, device=None: torch.tensor(1.0 * n, device=device)  # noqa: E731
        library.impl("count", give, "CompositeExplicitAutograd")
        b = Builder()
        root = b(torch.ops.pygraph_test.count.default, 3)
        assert sizes_of(root) is None
        _, targets = b.placed(b(aten.mul.Tensor, b.x, root), root)
        assert TO_GPU in targets
        assert not {FROM_SIZES, NUMBER} & {*targets}
    with torch.library._scoped_library("aten", "IMPL") as library:
        b = Builder()
        root = b(aten.digamma.default, b.scalar(b.height))
        assert sizes_of(root) == [b.height]
        library.impl("digamma", lambda x: x, "CPU")
        assert sizes_of(root) is None


def test_no_name_of_a_graph_is_one_that_its_source_needs() -> None:
    b = Builder()
    half = b(operator.truediv, b.height, 4)
    root_of = b(math.sqrt, half)
    root_of.name = "math_floor"
    found, _ = program([b.scalar(b(math.floor, root_of))])
    assert ops.SIZE_VALUES().compute(found.source, [36])[0].item() == 3


def test_a_function_that_no_source_names_is_no_arithmetic() -> None:
    b = Builder()
    doubled = b(lambda size: 2 * size, b.height)
    assert sizes_of(b.scalar(doubled)) is None
    for known in (operator.neg, math.trunc, torch.sym_int, abs, int):
        found, _ = program([b.scalar(b(known, b.height))])
        (made,) = ops.SIZE_VALUES().compute(found.source, [3])
        assert abs(made.item()) == 3


def divided(divisor: float) -> ops.Program:
    b = Builder()
    return program([b(aten.div.Tensor, b.scalar(b.height), divisor)])[0]


def test_the_same_sizes_are_the_same_memory() -> None:
    found = divided(4.0)
    alone = FROM_SIZES([8], *found, CPU)
    assert alone.tolist() == [2.0]
    assert not ops.kept()
    with torch.inference_mode():
        first = FROM_SIZES([8], *found, CPU)
    again, other = FROM_SIZES([8], *found, CPU), FROM_SIZES([12], *found, CPU)
    assert first.data_ptr() == again.data_ptr() != alone.data_ptr()
    assert (first.tolist(), other.tolist()) == ([2.0], [3.0])
    assert not first.is_inference()
    (again * torch.ones(1, requires_grad=True)).sum().backward()


def test_no_more_bytes_are_kept_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_MOST_BYTES", 150)
    for side in (5, 6):
        b = Builder()
        found, _ = program([mask(b, side)])
        for _ in range(2):
            made = FROM_SIZES([], *found, CPU)
            expected = torch.full((side, side), float("-inf")).triu(1)
            assert torch.equal(made.view(side, side), expected)
    assert [t.numel() for t in ops.kept()] == [25]


def test_of_what_is_computed_twice_at_once_one_is_kept() -> None:
    values, key = ops.SIZE_VALUES(), ("", (1,), CPU)
    first = values.keep(key, torch.zeros(8))
    assert values.keep(key, torch.ones(8)) is first
    assert values.has_room(torch.empty((ops._MOST_BYTES - 32) // 4))
    assert not values.has_room(torch.empty(ops._MOST_BYTES // 4))


def test_no_more_are_kept_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_MOST_KEPT", 2)
    found = divided(5.0)
    for size in (5, 5, 10, 10, 15, 15, 5, 20, 20):
        assert FROM_SIZES([size], *found, CPU).tolist() == [size / 5]
    assert sorted(t.item() for t in ops.kept()) == [1.0, 2.0]


def test_sizes_that_never_come_again_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_MOST_KEPT", 16)
    found = divided(6.0)
    for size in range(100):
        assert FROM_SIZES([size], *found, CPU).item() == pytest.approx(size / 6)
    assert not ops.kept()
    assert len(ops.SIZE_VALUES()._seen) <= 16


def test_what_depends_on_no_size_is_kept_at_once() -> None:
    b = Builder()
    root = b(aten.div.Tensor, b.scalar(b.height), 1.0)
    root.args[0].args = (7,)
    found, sizes = program([root])
    assert not sizes
    first, second = (FROM_SIZES([], *found, CPU) for _ in range(2))
    assert first.item() == 7.0
    assert first.data_ptr() == second.data_ptr()


def test_a_graph_may_hold_their_addresses() -> None:
    found = divided(4.0)
    _, kept = (FROM_SIZES([8], *found, CPU) for _ in range(2))
    (known,) = generated.constants_of(lambda args: args)
    assert known.data_ptr() == kept.data_ptr()


def test_generated_code_writes_nothing_over_them() -> None:
    """Memory of an intermediate result of the same size would serve for the next one."""
    lowerings.register_lowerings()
    found = divided(3.0)
    graph = fx.Graph()
    flat = graph.call_function(FROM_SIZES, ([6], *found, CPU))
    root = graph.call_function(aten.exp.default, (flat,))
    sorted_ = graph.call_function(aten.cumsum.default, (root, 0))
    index = graph.call_function(aten.full.default, ([1], 0), {"dtype": torch.int64, "device": CPU})
    written = graph.call_function(aten.index_put.default, (flat, [index], root))
    view = graph.call_function(aten.view.default, (flat, [1, 1]))
    graph.output((graph.call_function(aten.sin.default, (sorted_,)), written, view, flat))
    mode = FakeTensorMode()
    with tracing(TracingContext(mode)), torch.no_grad():
        compiled, code = run_and_get_code(lambda: compile_fx_inner(fx.GraphModule({}, graph), []))
    two = torch.tensor([2.0])
    for _ in range(3):
        results = compiled([])
        for result, expected in zip(results, (two.exp().sin(), two.exp(), two, two), strict=True):
            torch.testing.assert_close(result.reshape(1), expected)
        for result in results:
            result.fill_(7.0)  # the caller's own
    assert "from_sizes" in "".join(code)
    assert [t.tolist() for t in ops.kept()] == [[2.0]]


def test_an_interpolation_of_any_size() -> None:
    """From torch's decomposition to generated code, with the CPU in the GPU's place."""
    lowerings.register_lowerings()
    seen = []

    def inner(graph: Any, inputs: Any, **kwargs: Any) -> Any:
        crossings = [
            placement.Crossing(user, node, node, CPU, False)
            for node in graph.graph.nodes
            if sizes_of(node)
            for user in node.users
            if user.meta["val"].dim()
        ]
        rewriter = placement._Rewriter(graph.graph)
        rewriter.compute_once(crossings)
        for crossing in crossings:
            rewriter.connect(crossing)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        seen.append({node.target for node in graph.graph.nodes})
        return compile_fx_inner(graph, inputs, **kwargs)

    def double(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="nearest") + 1

    torch._dynamo.reset()
    fast = torch.compile(
        double, backend=lambda gm, inputs: compile_fx(gm, inputs, inner_compile=inner), dynamic=True
    )
    with torch.no_grad(), torch._functorch.config.patch(enable_autograd_cache=False):
        for side in (8, 12, 16, 8, 12, 16, 8):
            x = torch.randn(1, 3, side, side + 4)
            assert torch.equal(fast(x), double(x))
    (targets,) = seen
    assert FROM_SIZES in targets
    assert aten.scalar_tensor.default not in targets
    assert len(ops.kept()) == 3
