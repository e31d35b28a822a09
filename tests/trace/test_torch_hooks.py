"""The contract with torch: every private name that the recorder uses is there and does its work.

Run with each supported version: `python -m pytest tests/trace/test_torch_hooks.py`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import logging
import sys
import threading
import types
import warnings
from typing import Any

import pytest
import torch

from pygraph_rt.trace import lines, recorder, threads, torch_hooks
from pygraph_rt.trace.model import Event, Frame
from pygraph_rt.trace.recorder import Recorder
from pygraph_rt.trace.session import Trace
from pygraph_rt.trace.syncs import DEBUG_MODE, Syncs, _quick_read, _without_warning
from pygraph_rt.trace.torch_hooks import compiling_threads


def compiled(function: Any, **named: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="eager", **named)


def test_nothing_is_missing() -> None:
    assert torch_hooks.missing() == []


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo import symbolic_convert

    monkeypatch.delattr(symbolic_convert.InstructionTranslatorBase, "log_graph_break")
    assert torch_hooks.missing() == ["graph breaks"]
    with Trace() as trace:
        pass
    rows = {row["event"]: row["detector"] for row in trace.to_dict()["detectors"]}
    assert rows["graph_break"] is None
    assert rows["recompile"] is not None


def test_positions_of_arguments() -> None:
    convert_frame = importlib.import_module("torch._dynamo.convert_frame")
    names = list(inspect.signature(convert_frame._compile).parameters)
    assert names[0] == "code"
    assert names[6] == "one_graph"
    assert "compile_id" in names
    symbolic_convert = importlib.import_module("torch._dynamo.symbolic_convert")
    log = symbolic_convert.InstructionTranslatorBase.log_graph_break
    assert list(inspect.signature(log).parameters)[:4] == ["self", "code_options", "reason", "exc"]


def test_torch_numbers_its_graph_breaks() -> None:
    assert torch_hooks.gb_ids()["Data-dependent branching"].startswith("GB")


def test_a_break_has_its_number_type_and_stack() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x * 2) * 3

    with Trace() as trace:
        compiled(outer)(torch.ones(2))
    found = [e for e in trace.events if e.kind == "graph_break"]
    assert {e.gb_type for e in found} == {"Data-dependent branching"}
    assert [len(e.stack) for e in found] == [2, 1]
    assert [f.function for f in found[0].stack] == ["outer", "inner"]
    assert all(e.gb_id == "GB0170" for e in found)


def test_a_recompilation_has_its_guard() -> None:
    def forward(x: torch.Tensor, factor: str) -> torch.Tensor:
        return x * len(factor)

    with Trace() as trace:
        function = compiled(forward)
        function(torch.ones(2), "a")
        function(torch.ones(2), "bb")
    (found,) = [e for e in trace.events if e.kind == "recompile"]
    assert "factor" in found.guard
    assert found.compile_ids == ["0/1"]


def test_traced_lines_are_those_of_the_source() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("x")
        x = x * 2
        return x - 1

    with Trace() as trace:
        compiled(forward)(torch.ones(2))
    first = forward.__code__.co_firstlineno
    assert {first + n for n in (1, 2, 3, 4)} <= trace.recorder.traced_lines[__file__]
    assert max(trace.recorder.traced_lines[__file__]) == first + 4


def test_a_function_compiled_before_is_reported_only_if_it_runs() -> None:
    def one(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    first = compiled(one)
    second = torch.compile(other, backend="eager")
    first(torch.ones(2))
    second(torch.ones(2))
    with Trace() as trace:
        first(torch.ones(2))
        first(torch.ones(2))
    assert [(e.kind, e.place.function, e.count) for e in trace.events] == [
        ("compiled_before_trace", "one", 2)
    ]
    assert [r["calls"] for r in trace.to_dict()["regions"]] == [2]


def test_regions_count_calls_and_time() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with Trace() as trace:
        function = compiled(forward)
        for _ in range(3):
            function(torch.ones(2))
    (region,) = trace.to_dict()["regions"]
    assert region["calls"] == 3
    assert region["host_s"] > 0
    assert region["function"] == "forward"


def test_inductor_says_why_there_is_no_cuda_graph() -> None:
    utils = importlib.import_module("torch._inductor.cudagraph_utils")
    importing = importlib.import_module("torch._inductor.output_code")
    original = importing.log_cudagraph_skip_and_bump_counter
    why = "skipping cudagraphs due to cpu device (arg0)."
    text = f'{why} Found from : \n   File "a.py", line 7, in f\n'
    with Trace() as trace:
        importing.log_cudagraph_skip_and_bump_counter(text)
    assert importing.log_cudagraph_skip_and_bump_counter is original
    assert utils.log_cudagraph_skip_and_bump_counter is original
    (event,) = trace.events
    assert (event.kind, event.place.line) == ("graph_refused", 7)
    assert event.reason == why


def test_one_trace_at_a_time() -> None:
    with Trace():
        with pytest.raises(recorder_error()):
            Trace().start()
    with Trace():
        pass


def recorder_error() -> type[Exception]:
    return importlib.import_module("pygraph_rt.errors").TraceError


def test_torchs_own_messages_go_on() -> None:
    """Breaks and recompilations are still logged as without a trace."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        print("x")
        return x + 1

    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    torch._logging.set_logs(graph_breaks=True)
    logging.getLogger("torch._dynamo").addHandler(handler)
    try:
        with Trace():
            compiled(forward)(torch.ones(2))
    finally:
        logging.getLogger("torch._dynamo").removeHandler(handler)
        torch._logging.set_logs()
    assert "Graph break in user code" in heard.getvalue()


def test_sync_debug_mode_is_used_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the GPU's switch: this machine may have none."""
    modes: list[Any] = [0]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: modes[-1])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    found = Recorder()
    syncs = Syncs(found)
    monkeypatch.setattr(syncs, "_gpu", True)
    shown = warnings.showwarning
    syncs.install()
    try:
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        with syncs.compiling():  # waits of the compiler are not the program's
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
    finally:
        syncs.remove()
    assert modes == [0, "warn", 0]
    assert warnings.showwarning is shown
    events = [e for e in found.events.values() if e.kind == "sync"]
    assert [e.detector for e in events] == [DEBUG_MODE] * 2
    assert all(e.place.file == __file__ for e in events)
    assert all(recorder.is_users(e.place.file) for e in events)
    assert all(e.duration_s is None and len(e.stack) == 1 for e in events)


def test_a_wait_that_is_counted_makes_no_warning() -> None:
    """Unless there are other threads, whose waits may happen meanwhile."""
    modes: list[Any] = []
    others = False
    wait = _without_warning(lambda: list(modes), modes.append, lambda: others)
    assert wait() == [0]
    assert modes == [0, 1]
    modes.clear()
    others = True
    assert wait() == []
    assert modes == []


def test_threads_of_the_compiler_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay when a program has compiled something; a thread of the program counts."""
    from torch._inductor import async_compile

    monkeypatch.setattr(async_compile, "get_compile_threads", lambda: 2)
    async_compile.AsyncCompile.pool().submit(int).result()
    compiling, other = compiling_threads(), threading.Thread(target=int)
    assert compiling <= {*threading.enumerate()}
    assert compiling
    running = [threading.main_thread(), *compiling]
    started = len(compiling)
    monkeypatch.setattr(threads.threading, "enumerate", lambda: [*running])
    monkeypatch.setattr(threads, "started_threads", lambda: started)
    beside = threads.ThreadsBeside()
    assert not beside()
    running[1:1], started = [other], started + 1
    assert beside()
    running.remove(other)
    assert beside()  # Python counts one more than `threading` knows of
    started -= 1
    assert not beside()


def test_a_read_that_is_known_makes_no_warning() -> None:
    """The place where a value is read again and again takes a shorter way, with the same facts."""
    modes: list[int] = []
    found, event = Recorder(), Event("sync", "", Frame("f", 1, "f"))
    assert _quick_read(lambda x: [x, *modes], found, modes.append)(event, (7,), None) == [7, 0]
    assert modes == [0, 1]
    with pytest.raises(ZeroDivisionError):
        _quick_read(lambda x: x / 0, found, modes.append)(event, (7,), None)
    assert modes == [0, 1] * 2
    assert event.count == 2
    assert _quick_read(lambda x: x, found, None)(event, (7,), None) == 7
    assert modes == [0, 1] * 2
    (first, took), (_, raised), (_, unknown) = event.times
    assert first >= 0 and took is not None and raised is not None and unknown is None
    assert event.duration_s == took + raised


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs sys.monitoring")
def test_the_time_of_what_only_the_debug_mode_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch warns after the operation: its line's time until then."""
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    now = [0.0]
    clock = types.SimpleNamespace(perf_counter=functools.partial(now.__getitem__, 0))
    monkeypatch.setattr(lines, "time", clock)

    def waited() -> str:
        now[0] += 0.02
        return "called a synchronizing CUDA operation"

    trace = Trace()
    monkeypatch.setattr(trace._syncs, "_gpu", True)
    with trace:
        for _ in range(3):
            warnings.warn(waited(), stacklevel=1)
    (event,) = (e for e in trace.events if e.kind == "sync")
    assert event.detector == DEBUG_MODE
    assert [took for _, took in event.times] == pytest.approx([0.02] * 3)


def test_what_was_typed_into_ipython_is_the_users() -> None:
    assert recorder.is_users("<ipython-input-3-0123abcd>")
    assert not recorder.is_users("<string>") and not recorder.is_users("<eval_with_key>.3")
