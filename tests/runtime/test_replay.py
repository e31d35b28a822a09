"""The hot path against a driver that keeps books: what is patched, when, and what a call gets
back.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from pygraph_rt.cuda import native
from pygraph_rt.cuda.structures import KernelNode, KernelParams, RawNode
from pygraph_rt.errors import DriverError
from pygraph_rt.inductor import torch_support
from pygraph_rt.memory import allocate as taking
from pygraph_rt.plan.graph import Patch, PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block, alignment_class
from pygraph_rt.plan.outputs import Fixed, Fresh, OfInput, OutputPlan, Storage
from pygraph_rt.plan.replay_plan import (
    InputPlan,
    LaunchPlan,
    MemoryPlan,
    ReplayPlan,
    TensorInput,
    TensorLayout,
)
from pygraph_rt.replay import executable as stage
from pygraph_rt.replay.conditions import Conditions
from pygraph_rt.replay.disposal import Disposal
from pygraph_rt.replay.executable import Executable
from pygraph_rt.replay.launcher import Code
from pygraph_rt.replay.node_params import NodeTemplates
from pygraph_rt.replay.platform import Native, Platform
from pygraph_rt.replay.replay import Replay
from tests.runtime import software_gpu
from tests.runtime.fake_driver import FakeDriver
from tests.runtime.software_gpu import Generator

pytestmark = pytest.mark.usefixtures("way_of_taking")

WEIGHT, FIRST, SECOND = 0, 1, 2
CPU_LAYOUT = TensorLayout((16,), (1,), torch.float32, torch.device("cpu"))
OUT, POOL = Block("output", 0), Block("pool", 0)
# node 0 reads the weight and input 1 into the pool, node 1 pool and input 2 into the output,
# node 2 has many words of the pool, which is patched by vector instructions.
PATCHES = (
    Patch(0, 0, 0, Block("input", WEIGHT), 0),
    Patch(0, 1, 0, Block("input", FIRST), 16),
    Patch(0, 2, 0, POOL, 512),
    Patch(1, 0, 0, POOL, 512),
    Patch(1, 1, 0, Block("input", SECOND), 0),
    Patch(1, 2, 0, OUT, 0),
    *(Patch(2, 0, 12 * i + 4, POOL, 8 * i) for i in range(12)),
)
SIZES = {0: [8, 8, 8], 1: [8, 8, 8], 2: [148]}


@pytest.fixture(autouse=True, params=["ctypes", "compiled"])
def submission(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Every test runs through both ways of launching."""
    if request.param == "compiled":
        helper = native.load(tmp_path_factory.getbasetemp())
        if helper is None:
            pytest.skip("no C compiler")
        monkeypatch.setattr(Rig, "native", staticmethod(helper))


class Rig:
    """One replay on CPU tensors, with every answer of torch under the test's control."""

    native: Any = None

    def __init__(self, stays: tuple[int, ...] = (WEIGHT,)) -> None:
        self.driver = FakeDriver()
        self.state: Any = ("state",)
        self.reads = 0
        self.capturing = False
        self.device = 0
        self.stream = 7
        self.generator = Generator()
        self.held: list[torch.Tensor] = []
        self.allocated = 0
        self.fail_allocation = 0
        self.platform = platform = Platform(
            capturing=lambda: self.capturing,
            device=lambda: self.device,
            stream=lambda device: self.stream,
            generator=lambda device: self.generator,
            reinterpret=torch._C._dynamo.guards._reinterpret_tensor,
            state_of=lambda function: self.read_state,
            native=Native(self.native, software_gpu.MEMORY_HELPER),
            guard_of=torch_support.guard_of(),
        )
        kernel = bytes(KernelParams())
        nodes = {}
        for node, sizes in SIZES.items():
            fields = tuple(b"\xab" * s for s in sizes)
            layout = tuple((8 * i, s) for i, s in enumerate(sizes))
            nodes[node] = RawNode(node, KernelNode(f"k{node}", (), kernel, layout, 0, fields))
        self.driver.sizes = SIZES
        self.outputs = OutputPlan(
            (Storage((4, 4), (4, 1), torch.float32, 64, 0),),
            (
                Fresh(0, (4, 4), (4, 1), 0, True),
                Fresh(0, (4,), (1,), 4, False),
                OfInput(FIRST, True, (), (), 0),
                OfInput(SECOND, False, (2,), (1,), 1),
                Fixed(None),
                Fixed(3),
            ),
        )
        plan = ReplayPlan(
            PatchPlan(PATCHES, 3),
            (SubGraph(range(3), (POOL,), (0,)),),
            InputPlan(
                tuple(TensorInput(i, 64, i in stays, CPU_LAYOUT) for i in (WEIGHT, FIRST, SECOND)),
                ((3, 5),),
            ),
            self.outputs,
            MemoryPlan({POOL: 4096}),
            LaunchPlan(0),
        )
        self.replay = Replay(
            plan,
            [Executable(1000, 2000, NodeTemplates(nodes, 0))],
            Code("function", self.allocate),
            self.driver,  # type: ignore[arg-type]
            platform,
        )
        self.weight = self.aligned()

    def read_state(self) -> Any:
        self.reads += 1
        return self.state

    def allocate(self, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        self.allocated += 1
        if self.fail_allocation and self.allocated >= self.fail_allocation:
            raise torch.OutOfMemoryError("no memory")
        tensor = torch.empty_strided(size, stride, dtype=dtype)
        self.held.append(tensor)
        return tensor

    def allocate_only(self, pool: torch.Tensor, out: torch.Tensor) -> None:
        """Memory stays where it is."""
        self.replay._launcher.allocate = lambda size, stride, dtype: (
            pool if dtype is torch.uint8 else out
        )

    def aligned(self, residue: int = 64) -> torch.Tensor:
        """16 floats whose address is `residue` more than a multiple of 256."""
        room = torch.zeros(256)
        start = (residue - room.data_ptr()) % 256 // 4
        tensor = room[start : start + 16]
        assert tensor.data_ptr() % 256 == residue
        return tensor

    def args(self, first: Any = None, second: Any = None) -> list[Any]:
        return [
            self.weight,
            self.aligned() if first is None else first,
            self.aligned() if second is None else second,
            5,
        ]

    def expected(self, args: list[Any], pool: int, out: int) -> dict[int, list[bytes]]:
        addresses = {Block("input", i): args[i].data_ptr() for i in range(3)}
        addresses |= {POOL: pool, OUT: out}
        fields = {n: [bytearray(b"\xab" * s) for s in sizes] for n, sizes in SIZES.items()}
        for p in PATCHES:
            value = (addresses[p.block] + p.addend).to_bytes(8, "little")
            fields[p.node][p.field][p.offset : p.offset + 8] = value
        return {n: [bytes(f) for f in fs] for n, fs in fields.items()}


@pytest.mark.parametrize("large", [8192, 4096, 1])
def test_a_launch_sees_every_address_of_its_call(
    monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    """Large memory is taken first; what is in it is told apart all the same."""
    monkeypatch.setattr(taking, "OWN_SEGMENT", large)
    rig = Rig()
    for _ in range(3):
        args = rig.args()
        kept = list(args)
        results = rig.replay(args)
        assert results is not None
        assert args == []
        out, pool = rig.held[-2:] if large > 4096 else rig.held[:-3:-1]
        assert (out.nbytes, pool.nbytes) == (64, 4096)
        executable, stream, seen = rig.driver.launches[-1]
        assert (executable, stream) == (1000, 7)
        assert seen == rig.expected(kept, pool.data_ptr(), out.data_ptr())
        assert results[0] is out
        assert results[1].data_ptr() == out.data_ptr() + 16
        assert results[2] is kept[FIRST]
        assert results[3].data_ptr() == kept[SECOND].data_ptr() + 4
        assert results[4:] == (None, 3)


def test_only_nodes_of_moved_blocks_are_submitted_again() -> None:
    rig = Rig()
    pool, out = torch.empty(4096, dtype=torch.uint8), torch.empty(4, 4)
    rig.replay._launcher.allocate = lambda size, stride, dtype: (
        pool if dtype is torch.uint8 else out
    )
    first, second = rig.aligned(), rig.aligned()
    rig.replay(rig.args(first, second))
    assert sorted(rig.driver.submitted) == [0, 1, 2]
    rig.driver.submitted.clear()
    rig.replay(rig.args(first, second))
    assert rig.driver.submitted == []
    rig.replay(rig.args(rig.aligned(), second))
    assert rig.driver.submitted == [0]
    rig.driver.submitted.clear()
    rig.weight = rig.aligned()
    rig.replay(rig.args(first, rig.aligned()))
    assert sorted(rig.driver.submitted) == [0, 1]
    assert rig.replay.patched == 6


@pytest.mark.parametrize(
    "change",
    [
        lambda rig, args: setattr(rig, "state", ("other",)),
        lambda rig, args: setattr(rig, "capturing", True),
        lambda rig, args: setattr(rig, "device", 1),
        lambda rig, args: args.__setitem__(3, 6),
        lambda rig, args: args.__setitem__(FIRST, rig.aligned(4)),
        lambda rig, args: args.__setitem__(SECOND, rig.aligned(128)),
        lambda rig, args: args.__setitem__(WEIGHT, rig.aligned(32)),
        lambda rig, args: setattr(rig.replay, "_where", rig.replay._where._replace(only_stream=8)),
    ],
    ids="state capturing device integer alignment stricter weight stream".split(),
)
def test_a_call_that_differs_is_not_served_and_not_touched(change: Any) -> None:
    rig = Rig()
    rig.replay(rig.args())
    args = rig.args()
    change(rig, args)
    kept = list(args)
    assert rig.replay(args) is None
    assert len(args) == 4
    assert all(a is b for a, b in zip(args, kept, strict=True))
    assert len(rig.driver.launches) == 1


def test_after_a_refused_call_nothing_stale_is_launched() -> None:
    rig = Rig()
    rig.replay(rig.args())
    # The first input has been written when the second one turns out to be misaligned.
    assert rig.replay(rig.args(second=rig.aligned(4))) is None
    args = rig.args()
    kept = list(args)
    rig.replay(args)
    out, pool = rig.held[-2:]
    assert rig.driver.launches[-1][2] == rig.expected(kept, pool.data_ptr(), out.data_ptr())


def test_running_out_of_memory_leaves_the_next_call_right() -> None:
    rig = Rig()
    rig.replay(rig.args())
    rig.fail_allocation = rig.allocated + 2
    args = rig.args()
    with pytest.raises(torch.OutOfMemoryError):
        rig.replay(args)
    assert len(args) == 4
    rig.fail_allocation = 0
    again = list(args)
    rig.replay(args)
    out, pool = rig.held[-2:]
    assert rig.driver.launches[-1][2] == rig.expected(again, pool.data_ptr(), out.data_ptr())


@pytest.mark.parametrize("call", ["set", "launch"])
def test_a_driver_error_is_raised_before_the_arguments_are_given_up(call: str) -> None:
    rig = Rig()
    rig.driver.fail = lambda name: 700 if name == call else 0
    args = rig.args()
    with pytest.raises(DriverError, match="FAKE_ERROR_700"):
        rig.replay(args)
    assert len(args) == 4


def test_an_input_that_stayed_and_then_moves_is_followed() -> None:
    rig = Rig(stays=(WEIGHT, FIRST, SECOND))
    for _ in range(4):
        args = rig.args()
        rig.weight = rig.aligned()
        kept = list(args)
        rig.replay(args)
        out, pool = rig.held[-2:]
        assert rig.driver.launches[-1][2] == rig.expected(kept, pool.data_ptr(), out.data_ptr())


def test_nodes_that_came_to_rest_get_a_new_executable_with_the_same_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage, "_WORTH_IT", 1)
    rig = Rig()
    pool, out = torch.empty(4096, dtype=torch.uint8), torch.empty(4, 4)
    rig.replay._launcher.allocate = lambda size, stride, dtype: (
        pool if dtype is torch.uint8 else out
    )
    second = rig.aligned()
    used = []
    for call in range(520):
        args = rig.args(second=second)
        kept = list(args)
        rig.held += kept[1:3]
        assert rig.replay(args) is not None
        executable, _, seen = rig.driver.launches[-1]
        used.append(executable)
        assert seen == rig.expected(kept, pool.data_ptr(), out.data_ptr()), call
    made = [entry[1] for entry in rig.driver.log if entry[0] == "instantiate"]
    assert len(made) == 2
    assert used == [1000] * 2 + [made[0]] * 510 + [made[1]] * 8
    for handle in (1000, made[0]):
        assert ("destroy_exec", handle) in rig.driver.log


def test_a_new_executable_that_cannot_be_made_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage, "_WORTH_IT", 1)
    rig = Rig()
    rig.driver.fail = lambda call: int(call == "instantiate")
    pool, out = torch.empty(4096, dtype=torch.uint8), torch.empty(4, 4)
    rig.replay._launcher.allocate = lambda size, stride, dtype: (
        pool if dtype is torch.uint8 else out
    )
    first, second = rig.aligned(), rig.aligned()
    for _ in range(80):
        assert rig.replay(rig.args(first, second)) is not None
    assert {executable for executable, _, _ in rig.driver.launches} == {1000}
    assert rig.driver.log == []


@pytest.mark.parametrize("position", [FIRST, SECOND, WEIGHT])
def test_a_call_with_another_layout_is_not_served(position: int) -> None:
    """For the weight, which stays where it is, too: `weight.data = weight.data.t()`."""
    rig = Rig()
    args = rig.args()
    assert rig.replay([*args]) is not None
    args[position] = args[position].view(4, 4)
    assert rig.replay([*args]) is None
    args[position] = args[position].view(16)
    assert rig.replay([*args]) is not None


def test_an_input_that_no_node_reads_has_to_have_its_layout_too() -> None:
    plan = Rig().replay.plan
    conditions = Conditions(plan, print, Rig().platform, {WEIGHT, FIRST})
    args = Rig().args()
    assert conditions.hold(args)
    assert not conditions.hold([*args[:SECOND], args[SECOND].view(4, 4), 5])
    assert conditions.hold([args[WEIGHT].view(4, 4), *args[FIRST:]])


def test_threads_never_launch_each_others_addresses() -> None:
    rig = Rig()
    seen: dict[int, list[tuple[list[Any], int, int]]] = {0: [], 1: []}
    local = threading.local()

    def allocate(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        tensor = torch.empty_strided(size, stride, dtype=dtype)
        local.made.append(tensor)
        return tensor

    rig.replay._launcher.allocate = allocate

    def work(me: int) -> None:
        for _ in range(150):
            local.made = []
            args = [rig.weight, rig.aligned(), rig.aligned(), 5]
            kept = list(args)
            rig.replay(args)
            out, pool = local.made
            seen[me].append((kept, pool.data_ptr(), out.data_ptr()))
            rig.held += [*kept[1:3], *local.made]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launched = [state for _, _, state in rig.driver.launches]
    assert len(launched) == 300
    for calls in seen.values():
        for call in calls:
            assert rig.expected(*call) in launched


def test_handles_are_freed_in_order_after_the_last_launch_and_only_once() -> None:
    rig = Rig()
    rig.replay(rig.args())
    order: list[Any] = rig.driver.log
    capturing = [True]
    disposal = Disposal(rig.driver, lambda: capturing[0])  # type: ignore[arg-type]
    (handles,) = rig.replay.detach()
    disposal.add(handles)
    assert rig.replay.detach() == []
    assert disposal.drain() == 0
    assert order == []
    capturing[0] = False
    assert disposal.drain() == 1
    assert order == [("wait", 7), ("destroy_exec", 1000), ("destroy_graph", 2000)]
    assert disposal.drain() == 0
    assert rig.replay.closed
    assert rig.replay(rig.args()) is None
    assert len(rig.driver.launches) == 1


def test_alignment_classes() -> None:
    assert [alignment_class(a) for a in (0, 1, 6, 16, 1024, 4096 + 32)] == [256, 1, 2, 16, 256, 32]
