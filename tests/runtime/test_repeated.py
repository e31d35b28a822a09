"""Repeated blocks: which are found, that one compilation serves all of a group, and that weights,
hooks, saved state and checkpointing are what they were.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import pygraph_rt
from pygraph_rt import repeated
from pygraph_rt.repeated import compile_blocks, repeated_blocks
from pygraph_rt.shared_state import forget_everything
from tests.runtime import inductor_on_software_gpu


class Block(nn.Module):
    def __init__(self, size: int = 8, **kind: Any) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(size, size, **kind), nn.Linear(size, size, **kind)

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return x + self.second(torch.relu(self.first(x))) * scale


class CrossBlock(Block):
    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
        return super().forward(x, scale=scale) + self.first(x).tanh()


class Net(nn.Module):
    def __init__(self, *blocks: nn.Module, checkpoints: bool = False) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 8)
        self.layers = nn.ModuleList(blocks or [Block() for _ in range(12)])
        self.leave = nn.Linear(8, 2)
        self.checkpoints = checkpoints

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpoints else layer(x)
        return self.leave(x)


class Counted:
    """Compiles with a backend that runs the traced graph, and counts graphs and their calls."""

    def __init__(self) -> None:
        self.graphs = self.calls = 0

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(function, backend=self.backend)

    def backend(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        self.graphs += 1

        def call(*args: Any) -> Any:
            self.calls += 1
            return graph(*args)

        return call


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def results(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The output, and every gradient."""
    model.zero_grad()
    found = model(x)
    found.square().sum().backward()
    return [found.detach(), *[p.grad.clone() for p in model.parameters() if p.grad is not None]]


def assert_same(model: nn.Module, reference: nn.Module) -> None:
    for _ in range(2):
        x = torch.randn(3, 8)
        expected = results(reference, x)
        found = results(model, x)
        assert len(found) == len(expected)
        torch.testing.assert_close(found, expected)


def compiled(*blocks: nn.Module, **net: Any) -> tuple[nn.Module, nn.Module, Counted]:
    """A model with compiled blocks, the same model without, and what was compiled."""
    model, counted = Net(*blocks, **net), Counted()
    reference = copy.deepcopy(model)
    compile_blocks(model, counted)
    return model, reference, counted


# -- which blocks are found


def paths(model: nn.Module, blocks: Any = None) -> list[tuple[str, int]]:
    return [(group.name, len(group.paths)) for group in repeated_blocks(model, blocks)]


def test_a_list_of_blocks_is_found_and_its_paths_are_named() -> None:
    (group,) = repeated_blocks(Net(Block(), Block()))
    assert group == ("Block", ("layers.0", "layers.1"))


def test_blocks_are_found_in_a_sequential_and_in_a_dict() -> None:
    in_row = nn.Sequential(nn.Linear(8, 8), nn.Sequential(Block(), Block()))
    assert repeated_blocks(in_row)[0].paths == ("1.0", "1.1")
    named = nn.ModuleDict({"a": Block(), "b": Block()})
    assert repeated_blocks(named)[0].paths == ("a", "b")


def test_the_model_says_itself_what_repeats() -> None:
    model = Net(Block(), CrossBlock(), nn.Sequential(Block(), nn.Tanh()))
    model._repeated_blocks = ["CrossBlock"]  # type: ignore[assignment]
    assert paths(model) == [("CrossBlock", 1)]
    assert paths(model, Block) == [("Block", 2)]
    assert paths(model, ("Block", CrossBlock)) == [("Block", 2), ("CrossBlock", 1)]


def test_of_stages_that_differ_the_blocks_inside_are_taken() -> None:
    class Stage(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block(size) for _ in range(3))

    model = nn.ModuleList([Stage(8), Stage(16), Stage(32)])
    assert paths(model) == [("Block", 3)] * 3


def test_what_is_no_block_is_left_alone() -> None:
    with pytest.raises(pygraph_rt.OptionError, match="name the classes to compile"):
        repeated_blocks(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)))
    with pytest.raises(pygraph_rt.OptionError, match="name the classes to compile"):
        repeated_blocks(nn.ModuleList([Block(), CrossBlock()]))
    with pytest.raises(pygraph_rt.OptionError, match=r"Missing.*no module of that class"):
        repeated_blocks(Net(), ("Block", "Missing"))


@pytest.mark.parametrize(
    "other",
    [
        lambda: Block(bias=False),
        lambda: Block(dtype=torch.float64),
        lambda: Block().requires_grad_(False),
        CrossBlock,
    ],
    ids=["weights", "dtype", "frozen", "class"],
)
def test_blocks_that_differ_are_groups_of_their_own(other: Callable[[], nn.Module]) -> None:
    groups = repeated_blocks(Net(Block(), other(), Block(), other()))
    assert [group.paths for group in groups] == [
        ("layers.0", "layers.2"),
        ("layers.1", "layers.3"),
    ]


def test_blocks_that_share_weights_inside_are_a_group_of_their_own() -> None:
    tied = Block()
    tied.second = tied.first
    half = Block()
    half.second.weight = half.first.weight
    assert [len(g.paths) for g in repeated_blocks(Net(Block(), tied, half, Block()))] == [2, 1, 1]


def test_a_lazy_block_is_found() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.LazyLinear(8)

    assert paths(nn.ModuleList([Lazy(), Lazy()])) == [("Lazy", 2)]


# -- one compilation


def test_one_compilation_serves_all_blocks() -> None:
    model, reference, counted = compiled()
    assert_same(model, reference)
    assert (counted.graphs, counted.calls) == (1, 24)


def test_more_groups_than_versions_of_one_function() -> None:
    """Each group has room of its own in Dynamo's cache."""
    limit = torch._dynamo.config.recompile_limit
    sizes = range(1, limit + 4)
    model = nn.ModuleList(Block(size) for size in sizes for _ in range(2))
    counted = Counted()
    compile_blocks(model, counted)
    for layer, size in zip(model, [s for s in sizes for _ in range(2)], strict=True):
        with torch.no_grad():
            layer(torch.ones(2, size))
    assert (counted.graphs, counted.calls) == (len(sizes), 2 * len(sizes))


@pytest.mark.usefixtures("partitions_on_the_cpu")
def test_one_region_serves_forward_and_backward_of_all_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: list[str] = []

    def wrap(function: Any, info: Any) -> Callable[..., Any]:
        def call(args: list[Any]) -> Any:
            served.append(info.region.name)
            return function(args)

        return call

    def backend(graph: Any, inputs: Any) -> Any:
        from pygraph_rt.inductor import hook

        return hook.compile_graphed(graph, inputs, inductor_on_software_gpu.FALLBACK, wrap)

    model = Net()
    reference = copy.deepcopy(model)
    compile_blocks(model, lambda function: torch.compile(function, backend=backend))
    assert_same(model, reference)
    assert len(set(served)) == 2
    assert len(served) == 2 * 2 * 12


@torch._inductor.config.patch(force_disable_caches=True)
def test_one_capture_serves_the_weights_of_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU made of CPU memory, results are those of default mode, bit for bit."""

    def steps(compile: Callable[[nn.Module], object]) -> list[torch.Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Net(*[Block() for _ in range(5)])
        compile(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        found = []
        for number in range(4):
            x = torch.randn(3, 8, generator=torch.Generator().manual_seed(number))
            found += results(model, x)
            optimizer.step()
        return found

    forget_everything()
    inductor_on_software_gpu.install(monkeypatch)
    settings = inductor_on_software_gpu.FALLBACK
    expected = steps(lambda model: compile_blocks(model, partial(torch.compile, options=settings)))
    options = inductor_on_software_gpu.OPTIONS
    found = steps(lambda model: pygraph_rt.compile_repeated_blocks(model, options=options))
    regions = pygraph_rt.report().to_dict()["regions"]
    assert [(r["state"], r["graphs"]) for r in regions] == [("serving", 1)] * 2
    assert all(r["served"] >= 2 * 5 for r in regions)
    assert len(found) == len(expected)
    assert all(map(torch.equal, found, expected))


def test_the_public_function_compiles_with_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    counted = Counted()

    def stand_in(function: Any, **options: Any) -> Any:
        given.append(options)
        return counted(function)

    monkeypatch.setattr(repeated, "compile_with_graphs", stand_in)
    model = Net()
    reference = copy.deepcopy(model)
    options = {"graphs": "always"}
    assert pygraph_rt.compile_repeated_blocks(model, options=options, fullgraph=True) is model
    assert given == [{"options": options, "fullgraph": True}]
    assert_same(model, reference)
    assert counted.graphs == 1


# -- what stays as it was


def test_blocks_that_differ_compute_what_they_did() -> None:
    frozen = Block().requires_grad_(False)
    tied = Block()
    tied.second = tied.first
    model, reference, counted = compiled(
        Block(), CrossBlock(), Block(), frozen, tied, Block(bias=False), CrossBlock()
    )
    assert_same(model, reference)
    assert counted.graphs == 5


def test_one_block_in_two_places_and_blocks_that_share_a_weight() -> None:
    twice, other = Block(), Block()
    other.first.weight = twice.first.weight
    model, reference, counted = compiled(twice, other, twice)
    assert_same(model, reference)
    assert counted.calls == 6


def test_state_is_saved_and_loaded_under_the_same_names() -> None:
    model, reference, _ = compiled()
    assert list(model.state_dict()) == list(reference.state_dict())
    other = Net()
    model.load_state_dict(other.state_dict())
    assert_same(model, other)


def test_weights_that_are_replaced_are_used() -> None:
    model, reference, counted = compiled()
    assert_same(model, reference)
    for net in (model, reference):
        torch.manual_seed(3)
        net.layers[5].first.weight = nn.Parameter(torch.randn(8, 8))  # type: ignore[index, union-attr]
    assert_same(model, reference)
    assert counted.graphs == 1


@pytest.mark.parametrize("called", [False, True])
def test_a_copy_is_compiled_and_has_weights_of_its_own(called: bool) -> None:
    model, reference, counted = compiled()
    if called:
        assert_same(model, reference)
    twin, alike = copy.deepcopy(model), copy.deepcopy(reference)
    for net in (twin, alike):
        torch.nn.init.ones_(net.layers[3].first.weight)  # type: ignore[index, union-attr]
    assert_same(twin, alike)
    assert_same(model, reference)
    assert counted.calls == (24 if called else 0) + 48


def test_a_pickled_model_loads_as_it_was_before() -> None:
    model, reference, counted = compiled()
    room = io.BytesIO()
    torch.save(model, room)
    room.seek(0)
    for loaded in (
        torch.load(room, weights_only=False),
        pickle.loads(pickle.dumps(model)),
    ):
        assert_same(loaded, reference)
    assert counted.calls == 0


def test_hooks_on_blocks_run_whenever_they_were_added() -> None:
    model, reference, counted = compiled()
    seen: dict[int, list[str]] = {0: [], 1: []}
    for number, net in enumerate((model, reference)):

        def note(name: str, log: list[str] = seen[number]) -> Callable[..., None]:
            return lambda *_: log.append(name)

        results(net, torch.ones(2, 8))
        net.layers[2].register_forward_pre_hook(note("before"))  # type: ignore[index, union-attr]
        net.layers[2].register_forward_hook(lambda *call: call[2] * 2)  # type: ignore[index, union-attr]
        net.layers[4].register_full_backward_hook(note("backward"))  # type: ignore[index, union-attr]
    assert_same(model, reference)
    assert seen[0] == seen[1] == ["before", "backward"] * 2
    assert counted.graphs <= 2


def test_a_hook_inside_of_one_block_is_run_for_that_block_alone() -> None:
    model = Net()
    model.layers[3].first.register_forward_hook(lambda module, args, out: out * 3)  # type: ignore[union-attr, operator]
    reference, counted = copy.deepcopy(model), Counted()
    compile_blocks(model, counted)
    assert_same(model, reference)
    assert counted.graphs == 2


def test_checkpointing_around_compiled_blocks() -> None:
    model, reference, counted = compiled(*[Block() for _ in range(4)], checkpoints=True)
    assert_same(model, reference)
    assert counted.calls == 2 * 2 * 4


def test_adapters_in_some_of_the_blocks() -> None:
    class Adapted(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.base(x) + self.up(self.down(x)) * 0.5

    model = Net().requires_grad_(False)
    for layer in list(model.layers)[4:]:
        layer.first = Adapted(layer.first)  # type: ignore[arg-type]
    reference, counted = copy.deepcopy(model), Counted()
    assert [len(group.paths) for group in compile_blocks(model, counted)] == [4, 8]
    assert_same(model, reference)
    counted.graphs = 0
    for net in (model, reference):  # another adapter in the place of the first
        torch.manual_seed(5)
        for layer in list(net.layers)[4:]:
            layer.first.down.weight.data = torch.randn(2, 8)  # type: ignore[union-attr]
    assert_same(model, reference)
    assert counted.graphs == 0


def test_compiled_twice_is_compiled_from_the_original() -> None:
    model, reference, first = compiled()
    second = Counted()
    compile_blocks(model, second)
    assert_same(model, reference)
    assert (first.graphs, second.graphs) == (0, 1)


def test_a_forward_that_somebody_has_replaced_stays_replaced() -> None:
    def doubled(block: nn.Module) -> Callable[..., torch.Tensor]:
        inner = block.forward
        return lambda x: inner(x) * 2

    model = Net(*[Block() for _ in range(4)])
    reference = copy.deepcopy(model)
    for net in (model, reference):
        net.layers[1].forward = doubled(net.layers[1])
    counted = Counted()
    groups = compile_blocks(model, counted)
    assert [group.paths for group in groups] == [
        ("layers.0", "layers.2", "layers.3"),
        ("layers.1",),
    ]
    assert_same(model, reference)
    assert counted.graphs == 2


def test_switching_to_evaluation_and_back() -> None:
    blocks = [nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(3)]
    model, reference, counted = compiled(*blocks)
    for train in (False, True, False):
        model.train(train)
        reference.train(train)
        x = torch.randn(2, 4, 8)
        torch.manual_seed(7)
        expected = reference(x)
        torch.manual_seed(7)
        torch.testing.assert_close(model(x), expected)
    assert counted.graphs == 2
