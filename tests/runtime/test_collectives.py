"""Compiled code is cut at collectives, which run in default mode's order and belong to no graph."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pygraph_rt.inductor import hook
from pygraph_rt.inductor.collectives import (
    NAMESPACES,
    cut_at_what_runs_once,
    is_collective,
    operators,
)
from pygraph_rt.inductor.cuts import splits
from pygraph_rt.inductor.graph_info import GraphInfo
from tests.runtime.inductor_on_software_gpu import FALLBACK

distributed = pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="this torch has no torch.distributed"
)


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """This process as one of two ranks, of which the other one answers at once; and an Inductor
    that makes partitions of code for the CPU, too.
    """
    from torch._inductor.scheduler import Scheduler
    from torch.testing._internal.distributed.fake_pg import FakeStore

    should_partition = Scheduler.should_partition

    def as_for_a_gpu(scheduler: Any, node: Any, *rest: Any) -> Any:
        found = should_partition(scheduler, node, *rest)
        if isinstance(found, bool):  # torch 2.11
            name = getattr(getattr(node, "node", None), "op_overload", None)
            return name is not None and name.namespace in NAMESPACES
        return found if "custom partition op" in str(found) else None

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Scheduler, "should_partition", as_for_a_gpu)
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield distributed.group.WORLD
    distributed.destroy_process_group()
    torch._dynamo.reset()


def program(x: torch.Tensor, group: Any) -> torch.Tensor:
    from torch.distributed import _functional_collectives as functional

    first = functional.all_reduce(x.sin(), "sum", group)
    second = functional.all_gather_tensor(x.cos(), 0, group)
    third = functional.reduce_scatter_tensor(second.tanh(), "sum", 0, group)
    fourth = functional.all_to_all_single(first.exp(), None, None, group)
    fifth = functional.broadcast(third + fourth, 0, group)
    parts = functional.all_reduce_coalesced([fifth.sin(), fifth.cos()], "sum", group)
    moved = torch.ops._dtensor.shard_dim_alltoall(parts[0].exp(), 0, 1, group.group_name)
    return moved.sum() + parts[0].sum(0) + parts[1] + x


CALL = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.\w+\(")


def collectives(code: str) -> list[str]:
    """Operators that communicate, in the order of the code."""
    return [name for namespace, name in CALL.findall(code) if namespace in NAMESPACES]


def compiled(group: Any, ours: bool) -> tuple[Any, GraphInfo | None]:
    """The compiled graph of `program`, by the backend or by default mode."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    seen: list[Any] = []

    def inner(graph: Any, inputs: Any, **kwargs: Any) -> Any:
        seen.extend([compile_fx_inner(graph, inputs, **kwargs), None])
        return seen[0]

    def backend(gm: Any, inputs: Any) -> Any:
        if not ours:
            return compile_fx(gm, inputs, inner_compile=inner)
        return hook.compile_graphed(gm, inputs, {}, lambda function, info: function)

    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(
            hook, "wrap_partitions", lambda found, info, *rest: seen.extend([found, info])
        )
        with (
            torch._functorch.config.patch(enable_autograd_cache=False),
            torch._inductor.config.patch(FALLBACK),
        ):
            torch.compile(program, backend=backend)(torch.ones(4, 4), group)
    return seen[0], seen[1]


def test_no_partition_has_a_collective_and_their_order_is_that_of_default_mode(
    two_ranks: Any,
) -> None:
    graph, info = compiled(two_ranks, ours=True)
    default, _ = compiled(two_ranks, ours=False)
    code: str = graph.source_code
    partitions = re.findall(r"^def partition_\d+\(args\):\n(?:(?: .*)?\n)+", code, re.MULTILINE)
    assert len(partitions) == len(graph.partition_maps) >= 4
    assert not any(collectives(partition) for partition in partitions)
    order = collectives(code)
    assert len({name for name in order if name != "wait_tensor"}) >= 7
    assert "shard_dim_alltoall" in order
    assert order == collectives(default.source_code)
    assert info is not None
    named = [cut for cut in info.cuts if "communicates with other ranks" in cut.why]
    assert named
    assert all(Path(cut.source.rpartition(":")[0]) == Path(__file__) for cut in named)


def test_every_operator_that_communicates_is_known_under_inductors_name_for_it() -> None:
    from torch._inductor.utils import get_op_names

    known = set(operators())
    assert {"_c10d_functional::all_reduce_", "_c10d_functional::wait_tensor"} <= known
    for name in known:
        assert set(get_op_names(overload(name))) & known, name


def overload(name: str) -> Any:
    """An operator by `namespace::name` or `namespace::name.overload`."""
    namespace, _, rest = name.partition("::")
    packet, _, last = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), last or "default")


def test_every_operator_that_communicates_was_looked_at_and_is_cut_at() -> None:
    """A torch with another one fails here: see what it does, and add it to the list."""
    importlib.import_module("torch.distributed._symmetric_memory")  # registers more of them
    listed = set((Path(__file__).parent / "collectives.txt").read_text().split())
    assert set(operators()) <= listed
    assert all(is_collective(overload(name)) for name in operators())


GROUP = re.compile(r"group_name|int\[\] ranks|ProcessGroup")


def test_no_other_operator_takes_a_process_group() -> None:
    """A namespace that is new to NAMESPACES fails here."""
    schemas = torch._C._jit_get_all_schemas()
    taking = {schema.name for schema in schemas if GROUP.search(str(schema))}
    assert taking
    assert {name.split("::")[0] for name in taking} <= set(NAMESPACES)


def fx_graph(target: Any) -> torch.fx.Graph:
    graph = torch.fx.Graph()
    graph.output(graph.call_function(target, (graph.placeholder("x"),)))
    return graph


def test_what_the_program_cuts_at_stays_and_other_graphs_are_left_alone() -> None:
    from torch._inductor import config

    wait = torch.ops._c10d_functional.wait_tensor.default
    with config.patch(custom_should_partition_ops=["aten::mm"]):
        with cut_at_what_runs_once(fx_graph(torch.ops.aten.relu.default).nodes):
            assert config.custom_should_partition_ops == ["aten::mm"]
            assert config.triton.reorder_for_reducing_graph_partitions
        with cut_at_what_runs_once(fx_graph(wait).nodes):
            assert "aten::mm" in config.custom_should_partition_ops
            assert "_c10d_functional::wait_tensor" in config.custom_should_partition_ops
            assert not config.triton.reorder_for_reducing_graph_partitions
        assert config.custom_should_partition_ops == ["aten::mm"]


def test_a_collective_is_named_in_the_report() -> None:
    (cut,) = splits(fx_graph(torch.ops._c10d_functional.wait_tensor.default).nodes)
    assert cut.why == "_c10d_functional::wait_tensor communicates with other ranks"
