"""A partition's whole life on a GPU of CPU memory: observe, capture, compare, serve, let go."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pygraph_rt.capture import observe, record
from pygraph_rt.errors import DriverError
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.inductor.runner_inlining import region_call
from pygraph_rt.options import Options
from pygraph_rt.region.maker import GraphMaker
from pygraph_rt.region.region import Partition
from pygraph_rt.reports.report import Region
from tests.runtime.software_gpu import COUNT, SoftwareGpu, install

BODY = """
def partition_0(args):
    a, state = args
    args.clear()
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", a, state, buf0)
    launch("halve", buf0, state)
    buf1 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", buf0, state, buf1)
    del buf0
    before(args)
    return (buf1, state)
"""


class Machine:
    """A software GPU, its environment, and one partition."""

    def __init__(self, patch: pytest.MonkeyPatch, **options: Any) -> None:
        self.gpu = SoftwareGpu()
        self.environment: GraphMaker = install(patch, self.gpu)
        self.before: Callable[[Any], None] = lambda args: None
        self.region = Region("graph 0/0 partition 1 of 1", "f at m.py:1")
        self.function = self.gpu.generated(BODY, before=lambda args: self.before(args))
        self.partition = Partition(
            self.function,
            self.region,
            Options(**options),
            self.environment,
            Signature(0, written=frozenset({1})),
        )
        self.state = self.aligned()
        self.expected_state = self.state.clone()

    def aligned(self) -> torch.Tensor:
        return self.gpu.allocate((COUNT,), (1,), torch.float32).copy_(torch.randn(COUNT))

    def call(self) -> torch.Tensor:
        """One call on a fresh input; output and state are checked against plain arithmetic."""
        a = self.aligned()
        total = a + self.expected_state
        self.expected_state = total * 0.5
        args = [a, self.state]
        result, alias = region_call(self.partition, self.region, self.function)(args)
        assert args == []
        assert alias is self.state
        assert torch.equal(result, total + self.expected_state)
        assert torch.equal(self.state, self.expected_state)
        return result


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_a_region_is_observed_captured_compared_and_served(machine: Machine) -> None:
    kept = [machine.call() for _ in range(12)]
    copies = [t.clone() for t in kept]
    machine.partition.refresh()
    region = machine.region
    assert (region.state, region.graphs, region.served) == ("serving", 1, 10)
    assert region.unserved == 2
    assert "bit for bit" in region.note
    assert len({t.data_ptr() for t in kept}) == len(kept)
    for t, c in zip(kept, copies, strict=True):
        assert torch.equal(t, c)
    assert min(region.capture_ms, region.compare_ms) > 0


def test_state_that_moves_is_followed(machine: Machine) -> None:
    for i in range(30):
        if i % 5 == 4:
            machine.state = machine.gpu.allocate((COUNT,), (1,), torch.float32).copy_(machine.state)
        machine.call()
    machine.partition.refresh()
    assert machine.region.served == 28


def test_after_capture_only_one_graph_and_one_executable_are_left(machine: Machine) -> None:
    for _ in range(60):
        machine.call()
    machine.environment.disposal.drain()
    assert len(machine.gpu.graphs) == 1
    assert len(machine.gpu.executables) == 1
    opened = [entry[0] for entry in machine.gpu.log]
    assert opened.count("reserve") == opened.count("free") == 2
    machine.partition.close()
    assert machine.gpu.graphs == {}
    assert machine.gpu.executables == {}
    machine.call()
    assert machine.region.state == "released"


def test_a_partition_that_is_dropped_leaves_its_graphs_to_the_next_cleaning(
    machine: Machine,
) -> None:
    for _ in range(4):
        machine.call()
    del machine.partition
    gc.collect()
    machine.environment.disposal.drain()
    assert machine.gpu.executables == {}


def test_a_pointer_nobody_knows_is_refused_by_name(machine: Machine) -> None:
    machine.gpu.stray_pointer = torch.zeros(4)
    for _ in range(4):
        machine.call()
    assert machine.region.state == "refused"
    assert "device memory" in machine.region.reason
    assert "m.py:1" in machine.region.reason
    assert machine.gpu.executables == {}


def test_a_wrong_graph_is_found_and_the_results_stay_right(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = machine.gpu.launch
    written: list[torch.Tensor] = []

    def wrong(executable: int, stream: int) -> int:
        code = launch(executable, stream)
        next(t for t in reversed(written) if t.dtype is torch.float32).add_(1e-3)
        return code

    allocate = machine.gpu.allocate

    def remember(*size: Any) -> torch.Tensor:
        written.append(allocate(*size))
        return written[-1]

    machine.partition._function.__globals__["empty_strided_cuda"] = remember
    monkeypatch.setattr(machine.gpu, "launch", wrong)
    for _ in range(5):
        machine.call()
    assert "differ from the compiled code" in machine.region.reason
    machine.environment.disposal.drain()
    assert machine.gpu.executables == {}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.OutOfMemoryError("no memory"), "ran out of memory"),
        (RuntimeError("operation not permitted when stream is capturing"), "cannot be captured"),
        (DriverError("cuGraphClone failed with FAKE"), "the CUDA driver refused it"),
    ],
)
def test_a_capture_that_fails_is_named_and_never_tried_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    tries = []

    def fail(*arguments: Any) -> Any:
        tries.append(arguments)
        raise error

    monkeypatch.setattr(record, "capture_graph", fail)
    for _ in range(6):
        machine.call()
    assert words in machine.region.reason
    assert len(tries) == 1
    opened = [entry[0] for entry in machine.gpu.log]
    assert opened.count("reserve") == opened.count("free") == 1


def test_a_graph_tied_to_a_stream_leaves_other_streams_to_the_ordinary_path(
    machine: Machine,
) -> None:
    for _ in range(3):
        machine.call()
    replay = machine.partition.replay
    assert replay is not None
    for stream in (8, 7, 8):
        where = replay._where._replace(only_stream=7, stream={0: stream}.__getitem__)
        replay._where = where
        machine.call()
    machine.partition.refresh()
    (why,) = machine.region.misses
    assert "another stream" in why
    assert (machine.region.misses[why], machine.region.served) == (2, 2)


def test_a_launch_that_fails_falls_back_without_losing_a_call(machine: Machine) -> None:
    for _ in range(4):
        machine.call()
    machine.gpu.fail = lambda call: 700 if call == "set" else 0
    for _ in range(3):
        machine.call()
    assert "could not be updated" in machine.region.reason
    assert machine.region.state == "refused"


def test_too_little_memory_for_the_arena_is_an_ordinary_call(machine: Machine) -> None:
    for _ in range(4):
        machine.call()
    replay = machine.partition.replay
    assert replay is not None
    allocate, replay._launcher.allocate = replay._launcher.allocate, _no_memory
    machine.call()
    replay._launcher.allocate = allocate
    machine.call()
    assert machine.region.misses == {"there was too little memory for its intermediates": 1}
    assert machine.region.state == "serving"


def test_an_error_of_the_code_itself_reaches_the_caller(machine: Machine) -> None:
    machine.call()

    def fail(args: Any) -> None:
        if machine.gpu.recording is None:
            raise RuntimeError("the code's own error")

    machine.before = fail
    with pytest.raises(RuntimeError, match="the code's own error"):
        machine.partition([machine.aligned(), machine.state])
    machine.before = lambda args: None
    machine.environment.disposal.drain()
    assert machine.gpu.executables == {}


def test_results_nobody_foresaw_are_handed_out_all_the_same(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprise(*arguments: Any) -> Any:
        raise KeyError("surprise")

    monkeypatch.setattr(observe, "learn_outputs", surprise)
    for _ in range(3):
        machine.call()
    assert machine.region.state == "refused"
    assert "KeyError" in machine.region.reason


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("view(memory(0), (32,), (2,), 0)", "another layout"),
        ("memory(64)", "memory of another size"),
    ],
)
def test_outputs_that_change_between_calls_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, result: str, words: str
) -> None:
    """A library call that returns other memory under capture than on the call before."""
    machine = Machine(monkeypatch)
    code = f"""
def partition_0(args):
    a, state = args
    args.clear()
    launch("halve", a, state)
    return ({result} if capturing() else memory(0)[:64],)
"""
    namespace = {
        **machine.partition._function.__globals__,
        "capturing": lambda: machine.gpu.recording is not None,
        "memory": lambda extra: torch.zeros(64 + extra)[:64],
        "view": torch.as_strided,
    }
    exec(code, namespace)
    machine.partition._function = namespace["partition_0"]
    for _ in range(3):
        (found,) = machine.partition([machine.aligned(), machine.state])
        assert torch.equal(found, torch.zeros(64))
    assert machine.region.state == "refused"
    assert words in machine.region.reason
    assert "keep it out of the compiled region" in machine.region.reason


def test_a_region_without_gpu_work_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    namespace = dict(machine.partition._function.__globals__)
    exec("def partition_0(args):\n    a, state = args\n    return (state,)", namespace)
    machine.partition._function = namespace["partition_0"]
    for _ in range(3):
        assert machine.partition([machine.aligned(), machine.state])[0] is machine.state
    assert "launches no GPU work" in machine.region.reason


def _no_memory(*size: Any) -> torch.Tensor:
    raise torch.OutOfMemoryError("no memory")


def test_a_second_thread_warms_up_and_two_serve_together(machine: Machine) -> None:
    for _ in range(3):
        machine.call()
    failures: list[BaseException] = []
    partition = machine.partition

    def work() -> None:
        try:
            state = machine.aligned()
            for _ in range(40):
                a = machine.aligned()
                total = a + state
                want = total * 0.5
                result, _ = partition([a, state])
                assert torch.equal(result, total + want)
                assert torch.equal(state, want)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_option_never_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, graphs="never")
    for _ in range(4):
        machine.call()
    assert machine.region.state == "refused"
    assert machine.region.unserved == 4
    assert machine.gpu.log == []


def test_without_the_comparison_the_capturing_call_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch, verify=False, observe=2)
    for _ in range(6):
        machine.call()
    machine.partition.refresh()
    assert (machine.region.unserved, machine.region.served) == (2, 4)
