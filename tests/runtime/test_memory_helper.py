"""How the helper that takes memory gets there: built in the background, and never waited for."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pygraph_rt.cuda.native import memory
from pygraph_rt.cuda.native.memory import Helper
from tests.marks import LONG

ROOT = Path(__file__).parents[2]
_SECONDS = 60


@pytest.fixture
def compiler(memory_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A C++ compiler that has only one program, takes as long as the file it returns is there, and
    notes its calls.
    """
    script, wait = tmp_path / "c++", tmp_path / "wait"
    built, calls = shlex.quote(memory_module.__file__), shlex.quote(str(tmp_path / "calls"))
    script.write_text(
        "#!/bin/sh\n"
        f"echo call >> {calls}\n"
        f"echo $$ > {shlex.quote(str(tmp_path / 'compiler'))}\n"
        'while [ "$1" != -o ]; do shift; done\n'
        f"while [ -e {shlex.quote(str(wait))} ]; do sleep 0.1; done\n"
        f'cp {built} "$2"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return wait


def settled(helper: Helper) -> Any:
    """Its last answer."""
    until = time.monotonic() + _SECONDS
    while helper.open:
        assert time.monotonic() < until
        helper.ask(memory.ENOUGH)
        time.sleep(0.05)
    return helper.ask()


def built_in(folder: Path) -> list[str]:
    """Files of helpers, whole or not."""
    return sorted(file.name for file in folder.glob("*.so"))


def test_the_first_question_starts_a_build_and_a_later_one_is_answered(
    compiler: Path, tmp_path: Path
) -> None:
    compiler.write_text("")
    helper, folder = Helper(tmp_path / "made"), tmp_path / "made"
    started = time.monotonic()
    assert helper.ask(memory.ENOUGH) is None
    assert helper.ask() is None
    assert time.monotonic() - started < 1
    assert helper.open
    assert helper.building
    compiler.unlink()
    module = settled(helper)
    assert not helper.building
    assert module.Plan(None, (), 0, (), ()) is not None
    assert helper.ask() is module
    assert built_in(folder) == [memory.built_file(folder).name]
    assert settled(Helper(folder)).Plan is not None
    assert (tmp_path / "calls").read_text() == "call\n"


def test_little_work_starts_no_build_but_takes_what_is_there(
    compiler: Path, tmp_path: Path
) -> None:
    helper, folder = Helper(tmp_path / "made"), tmp_path / "made"
    for _ in range(3):
        assert helper.ask() is None
    assert helper.ask(memory.ENOUGH - 1) is None
    assert helper._process is None
    assert helper.open
    assert not helper.building
    assert helper.ask(1) is None
    assert helper._process is not None
    assert settled(helper) is not None
    assert Helper(folder).ask() is not None


def test_a_graph_that_will_do_enough_starts_a_build_before_it_is_compiled(
    compiler: Path, tmp_path: Path
) -> None:
    helper = Helper(tmp_path / "made")
    helper.expect(memory.ENOUGH - 1)
    assert helper._process is None
    assert helper.ask(memory.ENOUGH - 1) is None
    assert helper._process is None  # nothing was added up
    helper.expect(memory.ENOUGH)
    assert helper._process is not None
    assert settled(helper) is not None


@pytest.mark.parametrize("command", ["/nonexistent/c++", pytest.param("false", marks=LONG), "true"])
def test_a_compiler_that_does_not_work_is_no_error(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`true` leaves an empty file behind, which is no module."""
    monkeypatch.setenv("CXX", command)
    assert settled(Helper(tmp_path)) is None
    assert built_in(tmp_path) == []


def test_what_kills_a_process_that_loads_it_is_not_put_in_place(
    memory_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, script, folder = tmp_path / "short", tmp_path / "c++", tmp_path / "made"
    short.write_bytes(Path(memory_module.__file__).read_bytes()[:1000])
    copy = f'cp {shlex.quote(str(short))} "$2"'
    script.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n{copy}\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert settled(Helper(folder)) is None
    assert not memory.built_file(folder).exists()


def test_without_a_compiler_there_is_no_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(memory, "compiler", lambda *names: [])
    assert memory.build(tmp_path) is None
    monkeypatch.setattr(sys, "executable", "")
    helper = Helper(tmp_path)
    assert helper.ask(memory.ENOUGH) is None
    assert not helper.open


def test_an_interpreter_that_cannot_be_started_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    helper = Helper(tmp_path / "made")
    assert helper.ask(memory.ENOUGH) is None
    assert not helper.open


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert settled(Helper(tmp_path / "file" / "folder")) is None


def test_a_file_of_no_use_stays_and_is_not_asked_for_again(tmp_path: Path) -> None:
    """Another node that shares the folder may have a C library that takes it."""
    file = memory.built_file(tmp_path)
    file.write_text("no module")
    helper = Helper(tmp_path)
    assert helper.ask() is None
    assert not helper.open
    assert file.exists()


def test_the_environment_switches_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYGRAPH_RT_NATIVE", "0")
    helper = Helper(tmp_path / "made")
    assert helper.ask(memory.ENOUGH) is None
    assert not helper.open
    assert not (tmp_path / "made").exists()


def test_a_file_of_another_users_is_not_loaded(
    memory_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = memory.built_file(tmp_path)
    file.write_bytes(Path(memory_module.__file__).read_bytes())
    file.chmod(0o777)
    helper = Helper(tmp_path)
    assert helper.ask() is None
    assert not helper.open


def test_processes_that_ask_at_the_same_time_build_once(compiler: Path, tmp_path: Path) -> None:
    compiler.write_text("")
    folder = tmp_path / "made"
    first, *others = [Helper(folder) for _ in range(3)]
    first.ask(memory.ENOUGH)
    wait_for(tmp_path / "calls")
    for helper in others:
        helper.ask(memory.ENOUGH)
        assert helper._process is None  # nor is one started
        assert helper.open
    compiler.unlink()
    assert all(settled(helper) is not None for helper in (first, *others))
    assert (tmp_path / "calls").read_text() == "call\n"
    assert built_in(folder) == [memory.built_file(folder).name]


def wait_for(file: Path) -> None:
    until = time.monotonic() + _SECONDS
    while not file.exists():
        assert time.monotonic() < until
        time.sleep(0.05)


PROGRAM = """
import sys
from pathlib import Path
from pygraph_rt.cuda.native.memory import ENOUGH, Helper
helper = Helper(Path(sys.argv[1]))
assert helper.ask(ENOUGH) is None and helper.open
print("asked", helper._process.pid, flush=True)
if sys.argv[2] == "wait":
    sys.stdin.read()
"""


def program(folder: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), mode],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: int) -> bool:
    """Whether a process has ended, or is only waited for by somebody."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    "way", ["its end", pytest.param("Ctrl-C", marks=LONG), pytest.param("a kill", marks=LONG)]
)
def test_the_build_ends_with_the_program(way: str, compiler: Path, tmp_path: Path) -> None:
    """Builder and compiler; the next program starts another."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not tell which processes there are")
    compiler.write_text("")
    run = program(tmp_path / "made", "wait")
    assert run.stdout is not None
    builder = int(run.stdout.readline().split()[1])
    assert os.getsid(builder) == builder  # a terminal's Ctrl-C goes to its own session's processes
    wait_for(tmp_path / "calls")
    processes = [builder, int((tmp_path / "compiler").read_text())]
    assert not any(map(ended, processes))
    if way == "its end":
        run.communicate("", timeout=_SECONDS)
    else:
        run.send_signal(signal.SIGINT if way == "Ctrl-C" else signal.SIGKILL)
        assert run.wait(_SECONDS) != 0
    until = time.monotonic() + _SECONDS
    while not all(map(ended, processes)):
        assert time.monotonic() < until
        time.sleep(0.05)
    for stream in (run.stdin, run.stdout, run.stderr):
        assert stream is not None
        stream.close()
    assert not memory.built_file(tmp_path / "made").exists()
    compiler.unlink()
    helper = Helper(tmp_path / "made")
    assert settled(helper) is not None
    assert built_in(tmp_path / "made") == [memory.built_file(tmp_path / "made").name]


def test_a_forked_process_does_not_hang(compiler: Path, tmp_path: Path) -> None:
    """Not even when another thread was asking at that moment."""
    compiler.write_text("")
    helper = Helper(tmp_path / "made")
    helper.ask(memory.ENOUGH)
    for held in (False, True):
        if held:
            helper._lock.acquire()
        child = os.fork()
        if child == 0:
            os._exit(0 if helper.ask() is None else 1)
        if held:
            helper._lock.release()
        until = time.monotonic() + _SECONDS
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert ended[1] == 0
    compiler.unlink()
    assert settled(helper) is not None


def test_the_builder_has_low_priority_and_the_programs_path(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler.write_text("")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch.py").write_text("raise SystemExit(1)")  # what lies around is not imported
    helper = Helper(tmp_path / "made")
    helper.ask(memory.ENOUGH)
    wait_for(tmp_path / "calls")
    assert helper._process is not None
    assert os.getpriority(os.PRIO_PROCESS, helper._process.pid) == memory._NICE
    compiler.unlink()
    assert settled(helper) is not None
