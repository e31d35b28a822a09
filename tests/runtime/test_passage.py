"""Regions of a whole graph: what a runner's `call` does around its partition, and doing it once."""

from __future__ import annotations

import gc
import types
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pygraph_rt.errors import GraphRequired
from pygraph_rt.inductor import torch_support
from pygraph_rt.inductor.graph_info import GraphInfo
from pygraph_rt.inductor.hook import wrap_partitions
from pygraph_rt.inductor.partition_info import PartitionInfo, Signature
from pygraph_rt.inductor.runner_inlining import (
    ALIGN,
    Inlined,
    Returned,
    RunnerCall,
    calls_it,
    graph_call,
    read_runner,
    replace_call,
)
from pygraph_rt.options import Options
from pygraph_rt.region.region import Partition
from pygraph_rt.region.states import Event
from pygraph_rt.reports.report import Region
from tests.runtime.software_gpu import COUNT, SoftwareGpu, install

# As torch 2.11 and 2.15 write it.
CALL = """
class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def recursively_apply_fns(self, fns):
        new_callables = []
        for fn, c in zip(fns, self.partitions):
            new_callables.append(fn(c))
        self.partitions = new_callables

    def call(self, args):
        {body}
"""
PLAIN = """x_1, w_1, b_1 = args
        args.clear()
        partition0_args = [b_1, x_1]
        del b_1
        (buf1, buf2, x_1) = self.partitions[0](partition0_args)
        del partition0_args
        return (reinterpret_tensor(buf1, (2, 32), (1, 2), 4), buf2, None, x_1, 3, )"""
RETURNED = (
    Returned("result", 0, ((2, 32), (1, 2), 4)),
    Returned("result", 1),
    Returned("value"),
    Returned("result", 2),
    Returned("value", value=3),
)


def runner(body: str, *partitions: Any, **names: Any) -> Any:
    """A generated module's runner, whose module has the given names."""
    module = types.ModuleType("generated")
    module.__dict__.update(names)
    exec(CALL.format(body=body), module.__dict__)
    return module.__dict__["Runner"](list(partitions))


def test_what_is_passed_on_is_read() -> None:
    assert read_runner(runner(PLAIN).call, 3, 3) == RunnerCall((2, 0), RETURNED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("args.clear()", "buf0 = empty_strided_cpu((3,), (1,), torch.float32)"),  # work of its own
        ("args.clear()", "s0 = w_1 + 1"),  # a number is computed
        ("(2, 32)", "(w_1, 32)"),  # a shape that is not known
        ("buf2, None", "w_1, None"),  # an input that the partition does not see
        ("buf2, None", "[buf2], None"),  # nothing known
        ("[b_1, x_1]", "[b_1, 7]"),
        ("[b_1, x_1]", "[b_1, reinterpret_tensor(x_1, (1,), (1,), 0)]"),
        ("del partition0_args", "self.partitions[0](partition0_args)"),  # called twice
        ("x_1, w_1, b_1 = args", "x_1, w_1 = args"),  # another number of inputs
        ("(buf1, buf2, x_1) =", "(buf1, buf2) ="),  # another number of results
        ("self.partitions[0]", "self.partitions[1]"),
    ],
)
def test_a_call_that_does_more_is_left_as_it_is(old: str, new: str) -> None:
    assert old in PLAIN
    assert read_runner(runner(PLAIN.replace(old, new)).call, 3, 3) is None


def test_reading_runs_nothing_of_the_module() -> None:
    def fail(*args: Any) -> Any:
        raise AssertionError("the module's own function was called")

    made = runner(PLAIN, fail, reinterpret_tensor=fail)
    assert read_runner(made.call, 3, 3) is not None
    assert read_runner(runner("return launch()", fail, launch=fail).call, 3, 3) is None
    assert read_runner(None, 3, 3) is None
    assert read_runner(len, 3, 3) is None


def reinterpret(base: torch.Tensor, size: Any, stride: Any, offset: int) -> torch.Tensor:
    return torch.as_strided(base, size, stride, base.storage_offset() + offset)


def test_one_function_returns_what_the_call_returned() -> None:
    def partition_0(args: list[Any]) -> tuple[Any, ...]:
        b, x = args
        args.clear()
        return torch.arange(100.0) + b, x * 2, x

    made = runner(PLAIN, partition_0, reinterpret_tensor=reinterpret)
    passage = read_runner(made.call, 3, 3)
    assert passage is not None
    inlined = Inlined(partition_0, passage, reinterpret)
    whole = graph_call(inlined, Region(""), passage, made.call)
    inputs = [torch.ones(3), torch.zeros(1), torch.tensor(5.0)]
    given = list(inputs)
    found, expected = whole(given), made.call(list(inputs))
    assert given == []
    assert len(found) == len(expected) == 5
    assert found[3] is expected[3] is inputs[0]
    assert (found[2], found[4]) == (expected[2], expected[4])
    for a, b in ((found[0], expected[0]), (found[1], expected[1])):
        assert torch.equal(a, b)
        assert (a.shape, a.stride(), a.storage_offset()) == (
            b.shape,
            b.stride(),
            b.storage_offset(),
        )


def test_an_argument_that_is_returned_as_a_view() -> None:
    runner_call = RunnerCall(
        (0,), (Returned("argument", 0, ((2,), (1,), 1)), Returned("argument", 0))
    )
    x = torch.arange(3.0)

    def empties(args: list[Any]) -> tuple[Any, ...]:
        args.clear()
        return ()

    view, same = Inlined(empties, runner_call, reinterpret)([x])
    assert view.tolist() == [1.0, 2.0]
    assert same is x


def test_a_call_is_found_as_it_is_and_behind_a_closure() -> None:
    made = runner(PLAIN)

    def behind(model: Any) -> Any:
        def run(args: list[Any]) -> Any:
            return model(args)

        return run

    def new(args: list[Any]) -> Any:
        return "new", args

    assert calls_it(made.call, made.call)
    assert replace_call(made.call, made.call, new) is new
    outer = behind(made.call)
    assert calls_it(outer, made.call)
    assert replace_call(outer, made.call, new) is outer
    assert outer([1]) == ("new", [1])
    assert not calls_it(behind(new), made.call)
    assert not calls_it(len, made.call)


def compiled(made: Any, outputs: list[Any], **changes: Any) -> Any:
    maps = [SimpleNamespace(input_index_mapping=[2, 0], output_index_mapping=outputs)]
    graph = SimpleNamespace(
        recursively_apply_fns=made.recursively_apply_fns,
        current_callable=made.call,
        partition_maps=maps,
        device_types={"cuda"},
        device_idxs={0},
        mutated_input_idxs={0},
    )
    vars(graph).update(changes)
    return graph


def wrapped(graph: Any, scalars: dict[int, Any] | None = None) -> list[tuple[Any, PartitionInfo]]:
    seen: list[tuple[Any, PartitionInfo]] = []

    def wrap(function: Any, info: PartitionInfo) -> Any:
        seen.append((function, info))
        return lambda args: ("region", function, args)

    info = GraphInfo("graph 0/0", "f at m.py:1", scalars=scalars or {}, inputs=3)
    wrap_partitions(graph, info, wrap)
    return seen


def test_a_graph_of_one_partition_is_one_region() -> None:
    made = runner(PLAIN, lambda args: args)
    graph = compiled(made, [[0], [1], [3]])
    ((function, info),) = wrapped(graph, {1: "seed"})
    assert isinstance(function, Inlined)
    assert info.signature.written == frozenset({1})  # the partition's second argument
    assert info.signature.scalars == {1: "seed"}  # by the graph's outputs
    assert graph.current_callable(["x", "w", "b"]) == ("region", function, ["b", "x"])
    assert isinstance(made.partitions[0], types.FunctionType)


ALIGNED = """x_1, w_1, b_1 = args
        args.clear()
        x_1 = {align}(x_1)
        partition0_args = [b_1, x_1]
        (buf1, buf2, x_2) = self.partitions[0](partition0_args)
        return ({returned}, )"""


@pytest.mark.parametrize("align", ALIGN)
def test_a_copy_of_a_misaligned_input_is_made_before_the_region(align: str) -> None:
    made = runner(ALIGNED.format(align=align, returned="buf1"), lambda args: args)
    found = read_runner(made.call, 3, 3)
    assert found == RunnerCall((2, 0), (Returned("result", 0),), aligned=(1,))
    if not hasattr(torch._C._dynamo.guards, align):
        pytest.skip("this torch has no such function")
    x = torch.zeros(8)[1:5]
    whole = graph_call(lambda args: args, Region(""), found, made.call)
    b, copied = whole([x, "w", "b"])
    assert b == "b"
    assert torch.equal(copied, x)


def test_a_copy_that_is_returned_is_not_inlined() -> None:
    made = runner(ALIGNED.format(align=ALIGN[0], returned="x_1"), lambda args: args)
    assert read_runner(made.call, 3, 3) is None


@pytest.mark.parametrize("hidden", ["call does more", "call not found"])
def test_a_graph_whose_call_cannot_be_replaced_has_a_region_inside(hidden: str) -> None:
    body = PLAIN.replace("args.clear()", "print()") if hidden == "call does more" else PLAIN
    made = runner(body, lambda args: args)
    changes = {"current_callable": print} if hidden == "call not found" else {}
    graph = compiled(made, [0, 1, 3], **changes)
    ((function, info),) = wrapped(graph, {3: "seed"})
    assert isinstance(function, types.FunctionType)
    assert info.signature.scalars == {2: "seed"}  # by the partition's results
    assert made.partitions[0]([1]) == ("region", function, [1])


BODY = """
def partition_0(args):
    a, state = args
    args.clear()
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", a, state, buf0)
    buf1 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", buf0, state, buf1)
    return (buf1, buf0, state)
"""


def test_views_are_outputs_in_their_own_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SoftwareGpu()
    environment = install(monkeypatch, gpu)
    runner_call = RunnerCall(
        (0, 1),
        (
            Returned("result", 0, ((8, 8), (1, 8), 0)),
            Returned("result", 1, ((4,), (1,), 2)),
            Returned("result", 1),
            Returned("argument", 1),
        ),
    )
    function = Inlined(gpu.generated(BODY), runner_call, torch_support.reinterpret())
    region = Region("graph 0/0 partition 1 of 1", "f at m.py:1")
    signature = Signature(0, written=frozenset({1}))
    partition = Partition(function, region, Options(), environment, signature)

    def aligned() -> torch.Tensor:
        return gpu.allocate((COUNT,), (1,), torch.float32).copy_(torch.randn(COUNT))

    state, kept = aligned(), []
    for _ in range(6):
        a = aligned()
        first, part, second, same = partition([a, state])
        total = a + state
        assert torch.equal(first, (total + state).view(8, 8).t())
        assert torch.equal(second, total)
        assert torch.equal(part, total[2:6])
        assert part.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
        assert first.stride() == (1, 8)
        assert same is state
        kept.append(first)
    partition.refresh()
    assert (region.state, region.served) == ("serving", 4), region.reason
    replay = partition.replay
    assert replay is not None
    assert len(replay._results.views) == 1  # the one that shares memory with another output
    assert len({t.data_ptr() for t in kept}) == len(kept)


STRAIGHT = """a, b = args
        args.clear()
        (buf0, buf1) = self.partitions[0]([a, b])
        return (buf0, buf1, )"""


@pytest.mark.parametrize(
    ("old", "new", "left_out"),
    [
        ("", "", True),
        ("[a, b]", "[b, a]", True),
        ("[a, b]", "[b]", True),
        ("buf0, buf1, )", "buf1, buf0, )", False),
        ("buf0, buf1, )", "buf0, )", False),
        ("buf0, buf1, )", "buf0, buf1, None, )", False),
        ("buf0, buf1, )", "reinterpret_tensor(buf0, (2,), (1,), 0), buf1, )", False),
        ("[a, b]", "[a, copy_if_misaligned(b)]", True),
    ],
)
def test_a_runner_that_returns_results_as_they_are_is_left_out_where_no_graph_is_wanted(
    old: str, new: str, left_out: bool
) -> None:
    taken: list[Any] = []

    def partition(args: list[Any]) -> tuple[int, int]:
        taken.append([*args])
        args.clear()
        return len(taken[-1]), 7

    def copy_if_misaligned(value: Any) -> Any:
        return value

    body = STRAIGHT.replace(old, new) if old else STRAIGHT
    names = {"reinterpret_tensor": lambda *args: args[0], "copy_if_misaligned": copy_if_misaligned}
    made = runner(body, partition, **names)
    found = read_runner(made.call, 2, 2)
    assert found is not None
    assert found.returns_all(2) is left_out
    assert not found.returns_all(3)

    mapping = SimpleNamespace(
        input_index_mapping=[0, 1], output_index_mapping=[0, 1], constant_names=[]
    )
    graph = SimpleNamespace(
        recursively_apply_fns=made.recursively_apply_fns,
        current_callable=made.call,
        compiled_fn_runner=made,
        partition_maps=[mapping],
        device_types={"cuda"},
        device_idxs={0},
        mutated_input_idxs=set(),
    )
    infos: list[PartitionInfo] = []

    def wrap(function: Any, info: PartitionInfo) -> Any:
        infos.append(info)
        return lambda args: "by the region"

    wrap_partitions(graph, GraphInfo("graph 0/0", "f at m.py:1", inputs=2), wrap)
    expected = made.call([torch.ones(1), torch.zeros(1)]), taken.pop()
    made.partitions = [lambda args: ("by the runner", 7)]
    given = [torch.ones(1), torch.zeros(1)]
    assert graph.current_callable([*given]) == "by the region"
    infos[0].region.bypassed = True
    results = graph.current_callable(given)
    assert not given, "who calls compiled code gives its arguments away"
    assert ("by the runner" not in results) is left_out
    assert infos[0].region.unserved == 1
    if left_out:
        assert (results, taken.pop()) == expected


def test_compiled_code_gets_the_graphs_own_list_where_its_arguments_are_the_inputs() -> None:
    body = """a, b = args
        args.clear()
        (buf0, ) = self.partitions[0]([a, b])
        return (buf0, )"""
    given: list[list[Any]] = []
    region = Region("")
    region.bypassed = True
    for text in (body, body.replace("[a, b]", "[b, a]")):
        found = read_runner(runner(text).call, 2, 1)
        assert found is not None
        graph = graph_call(len, region, found, runner(text).call, given.append)
        args = [1, 2]
        graph(args)
        assert (given.pop() is args) is found.takes_all is (text is body)
    assert region.unserved == 2


def test_a_model_that_is_freed_takes_its_call_along_without_the_collector() -> None:
    found = RunnerCall((0,), (Returned("result", 0),))
    partition = runner(PLAIN)
    graph = graph_call(len, Region(""), found, len, partition.call)
    alive = weakref.ref(partition)
    gc.disable()
    try:
        del partition, graph
        assert alive() is None
    finally:
        gc.enable()


class ChangedInBetween(Region):
    """What another thread does between two reads: the watcher goes, and compiled code is chosen."""

    @property
    def watcher(self) -> Any:
        self.reads = getattr(self, "reads", 0) + 1
        return SimpleNamespace(call=lambda _, run, args: run(args)) if self.reads == 1 else None

    @watcher.setter
    def watcher(self, value: Any) -> None:
        pass

    @property
    def bypassed(self) -> bool:
        self.looks = getattr(self, "looks", 0) + 1
        return self.looks > 2

    @bypassed.setter
    def bypassed(self, value: bool) -> None:
        pass


def test_a_call_goes_one_way_while_another_thread_decides() -> None:
    body = STRAIGHT.replace("(buf0, buf1, )", "(buf0, )")
    found = read_runner(runner(body, lambda args: (1, 2)).call, 2, 2)
    assert found is not None and not found.returns_all(2)
    graph = graph_call(len, ChangedInBetween(""), found, len)
    assert [graph([1, 2]) for _ in range(2)] == [2, 2]


def test_a_region_that_is_decided_is_not_asked_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor's own call runs, and is counted, for as long as no graph is wanted."""
    gpu = SoftwareGpu()
    graph_maker = install(monkeypatch, gpu)
    body = """a, state = args
        args.clear()
        (buf1, buf0, state) = self.partitions[0]([a, state])
        return (buf1, )"""
    made = runner(body, gpu.generated(BODY))
    own_calls: list[Any] = []
    original = made.call

    def own_call(args: list[Any]) -> Any:
        own_calls.append(len(args))
        return original(args)

    found = read_runner(made.call, 2, 3)
    assert found is not None
    region = Region("graph 0/0 partition 1 of 1", "f at m.py:1")
    function = Inlined(made.partitions[0], found, torch_support.reinterpret())
    partition = Partition(
        function, region, Options(), graph_maker, Signature(0, written=frozenset({1}))
    )
    graph = graph_call(partition, region, found, own_call)

    def call(times: int = 1) -> None:
        for _ in range(times):
            a, state = (gpu.allocate((COUNT,), (1,), torch.float32).fill_(i) for i in (1.0, 2.0))
            (result,) = graph([a, state])
            assert torch.equal(result, torch.full((COUNT,), 5.0))

    call(5)
    partition.refresh()
    assert (own_calls, region.served) == ([], 3)
    partition.leave("calls take the same time")
    before = region.unserved
    call(3)
    assert (len(own_calls), region.unserved) == (3, before + 3)
    partition.use(True)
    call(4)
    partition.refresh()
    assert (len(own_calls), region.served) == (3, 5)  # observed, captured, then served
    seen: list[Any] = []

    def watch(member: Any, run: Any, args: list[Any]) -> Any:
        seen.append(member)
        return run(args)

    partition.use(False)
    partition.watch(SimpleNamespace(deciding=True, call=watch), False)
    call()
    assert (seen, len(own_calls)) == ([partition], 4), "what a trial measures is what is run later"
    partition.use(True)
    call()
    assert (len(seen), len(own_calls)) == (2, 4)
    partition.watch(None, False)
    partition.use(False)
    call()
    assert (len(seen), len(own_calls)) == (2, 5)
    partition.close()
    call()
    assert len(own_calls) == 6


def test_where_graphs_are_required_a_refused_region_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SoftwareGpu()
    graph_maker = install(monkeypatch, gpu)
    own_calls: list[Any] = []
    region = Region("graph 0/0 partition 1 of 1")
    found = RunnerCall((0, 1), (Returned("result", 0),))
    function = Inlined(gpu.generated(BODY), found, torch_support.reinterpret())
    partition = Partition(function, region, Options("require"), graph_maker, Signature(0))
    partition.leave("it is slower")
    partition._end(Event.RETIRE, "it sets two-dimensional memory")
    with pytest.raises(GraphRequired):
        graph_call(partition, region, found, own_calls.append)([torch.ones(COUNT)] * 2)
    assert own_calls == []
