"""A traced program runs as Python runs it: names, signals, arguments, its own package."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import pygraph_rt
from pygraph_rt.errors import TraceError

ROOT = Path(__file__).parents[2]


def traced(folder: Path, *arguments: str, **named: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pygraph_rt.trace", *arguments]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, **named
    )


def write(folder: Path, text: str, name: str = "program.py") -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text))


def test_annotations_are_values_as_without_a_trace(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import dataclasses, sys
        @dataclasses.dataclass
        class Config:
            lr: float = 0.1
        print(dataclasses.fields(Config)[0].type is float, sys.argv[1:])
        """,
    )
    done = traced(tmp_path, "--trace-file", "t.json", "program.py", "--", "-m", "--coverage")
    assert done.stdout == "True ['--', '-m', '--coverage']\n"


def test_a_forked_child_is_ended_by_a_signal_at_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import multiprocessing, signal
        for _ in range(20):
            child = multiprocessing.get_context("fork").Process(target=signal.pause)
            child.start()
            child.terminate()
            child.join()
            assert child.exitcode == -signal.SIGTERM
        """,
    )
    assert traced(tmp_path, "program.py").returncode == 0


def test_a_package_sees_its_own_arguments_and_errors(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nprint(sys.argv[1:])\n", "package/__init__.py")
    write(tmp_path, "", "package/work.py")
    assert traced(tmp_path, "-m", "package.work", "a").stdout == "['a']\n"
    write(tmp_path, "import not_there_at_all\n", "package/__init__.py")
    done = traced(tmp_path, "-m", "package.work")
    assert done.returncode == 1
    assert "not_there_at_all" in done.stderr


def test_a_program_may_close_its_error_stream(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nsys.stderr.close()\n")
    assert traced(tmp_path, "program.py").returncode == 0


def test_nothing_is_left_of_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError), pygraph_rt.trace(tmp_path / "folder"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_one_trace_records_one_block() -> None:
    with pygraph_rt.trace() as trace:
        pass
    with pytest.raises(TraceError, match="one block"), trace:
        pass


def test_torch_is_as_it_was_when_a_trace_ends_beside_a_compilation() -> None:
    from threading import Event, Thread

    before, begun, ended = torch.Tensor.item, Event(), Event()

    def backend(graph: Any, inputs: Any) -> Any:
        begun.set()
        ended.wait(20)
        return graph.forward

    run = torch.compile(lambda x: x + 1, backend=backend)
    with pygraph_rt.trace():
        thread = Thread(target=run, args=(torch.ones(2),))
        thread.start()
        begun.wait(20)
    ended.set()
    thread.join()
    assert torch.Tensor.item is before


def test_methods_are_called_as_before() -> None:
    methods = ("cpu", "to", "item")
    before = [getattr(torch.Tensor, name) for name in methods]
    with pygraph_rt.trace():
        shown = [getattr(torch.Tensor, name) for name in methods]
        assert [each.__qualname__ for each in shown] == [each.__qualname__ for each in before]
        assert [each.__doc__ for each in shown] == [each.__doc__ for each in before]


def test_what_has_nothing_to_compile_is_no_graph_break() -> None:
    def check(x: torch.Tensor) -> None:
        assert all(size > 0 for size in x.shape)

    def forward(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + 1
            torch._dynamo.graph_break()
            check(x)
        return x

    with pygraph_rt.expect(graph_breaks=1) as trace:
        torch.compile(forward, backend="eager")(torch.ones(2))
    assert "given up" not in trace.summary()


def test_the_linter_passes_a_signal_on(tmp_path: Path) -> None:
    write(tmp_path, "import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "pygraph_lint", "trace", "program.py"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "RANK": "3"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    started = time.monotonic()
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=50)
    assert running.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - started < 40
    assert (tmp_path / "trace.rank3.json").exists()
