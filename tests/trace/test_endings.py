"""However a program ends, its trace is written, its exit code is kept, and one line says so.

Where nothing depends on how Python starts, programs run in forked processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.marks import LONG
from tests.trace.forked import ROOT, Done, Parent

MODEL = """
import os, signal, sys, threading, time
import torch

@torch.compile(backend="eager")
def forward(x):
    y = x + 1
    print("break", flush=True)
    return y.sum()

forward(torch.ones(2))
"""


@pytest.fixture(scope="module")
def parent() -> Iterator[Parent]:
    made = Parent()
    yield made
    made.close()


def program(folder: Path, source: str) -> None:
    (folder / "program.py").write_text(MODEL + textwrap.dedent(source))


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command line itself, in a new interpreter."""
    return subprocess.Popen(
        [sys.executable, "-m", "pygraph_rt.trace", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trace_of(folder: Path, name: str = "trace.json") -> dict[str, Any]:
    return json.loads((folder / name).read_text("utf-8"))


def breaks(trace: dict[str, Any]) -> int:
    return sum(e["count"] for e in trace["events"] if e["kind"] == "graph_break")


def said(done: Done) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("pygraph: ")]


MORE = [
    ("sys.exit()", 0, "exited"),
    ("sys.exit('no')", 1, "exited"),
    ("os._exit(5)", 5, "exited"),
    ("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", -signal.SIGINT, "interrupted"),
    ("if os.fork() == 0:\n  forward(torch.ones(2)); os._exit(4)\nos.wait()", 0, "finished"),
    ("os.chdir('/')", 0, "finished"),
    ("threading.Thread(target=lambda: time.sleep(0.5)).start()", 0, "finished"),
    ("threading.Thread(target=time.sleep, args=(99,), daemon=True).start()", 0, "finished"),
]


@pytest.mark.parametrize(
    ("source", "code", "kind"),
    [
        ("", 0, "finished"),
        ("sys.exit(3)", 3, "exited"),
        ("raise ValueError('wrong')", 1, "raised"),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", -signal.SIGTERM, "signal"),
        ("if os.fork() == 0: sys.exit(4)\nos.wait()", 0, "finished"),
        *(pytest.param(*row, marks=LONG) for row in MORE),
    ],
)
def test_a_program_that_ends_early(
    parent: Parent, tmp_path: Path, source: str, code: int, kind: str
) -> None:
    program(tmp_path, source)
    done = parent.trace(tmp_path, "program.py")
    assert done.returncode == code, done.stderr
    assert len(list(tmp_path.glob("trace*.json"))) == 1
    trace = trace_of(tmp_path)
    assert trace["exit"]["kind"] == kind
    assert trace["exit"]["code"] == (code if code >= 0 else 128 - code)
    assert breaks(trace) == 1
    assert len(said(done)) == 1
    assert "1 graph break" in said(done)[0]


def test_a_traceback_shows_the_program_alone(tmp_path: Path) -> None:
    program(tmp_path, "raise ValueError('wrong')")
    errors = started(tmp_path, "program.py").communicate(timeout=120)[1]
    assert "ValueError: wrong" in errors
    shown = [line for line in errors.splitlines() if not line.startswith("pygraph: ")]
    assert len(shown) == len(errors.splitlines()) - 1
    assert not any("pygraph_rt" in line for line in shown)
    assert trace_of(tmp_path)["exit"]["error"] == "ValueError: wrong"


def test_ctrl_c_from_outside(tmp_path: Path) -> None:
    program(tmp_path, "print('ready', flush=True); time.sleep(60)")
    running = started(tmp_path, "program.py")
    assert running.stdout is not None
    while running.stdout.readline() != "ready\n":
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == -signal.SIGINT
    assert breaks(trace_of(tmp_path)) == 1


def test_a_program_that_compiles_nothing(parent: Parent, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print(sum(range(5)))\n")
    done = parent.trace(tmp_path, "plain.py")
    assert (done.returncode, done.stdout) == (0, "10\n")
    assert len(said(done)) == 1
    assert "nothing was compiled" in said(done)[0]


def test_one_file_a_rank(parent: Parent, tmp_path: Path) -> None:
    program(tmp_path, "")
    parent.trace(tmp_path, "program.py", RANK="3", WORLD_SIZE="4")
    trace = trace_of(tmp_path, "trace.rank3.json")
    assert (trace["rank"], trace["world_size"]) == (3, 4)


def test_a_module_and_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "work.py").write_text("import sys\nprint(sys.argv[1:], __name__)\n")
    running = started(tmp_path, "-m", "package.work", "-o", "x", "--coverage")
    assert running.communicate(timeout=120)[0] == "['-o', 'x', '--coverage'] __main__\n"
    assert running.returncode == 0


@pytest.mark.parametrize("wrong", [["absent.py"], ["-m", "absent_module"]])
def test_no_such_program(parent: Parent, tmp_path: Path, wrong: list[str]) -> None:
    done = parent.trace(tmp_path, *wrong)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "absent" in done.stderr


def test_a_file_that_cannot_be_written_keeps_the_exit_code(parent: Parent, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    program(tmp_path, "sys.exit(3)")
    done = parent.trace(tmp_path, "--trace-file", "file/trace.json", "program.py")
    assert done.returncode == 3
    assert len(said(done)) == 1
    assert "cannot be written" in said(done)[0]


def test_lines_that_ran_with_coverage(parent: Parent, tmp_path: Path) -> None:
    program(tmp_path, "if not torch:\n    pass\n")
    assert parent.trace(tmp_path, "--coverage", "program.py").returncode == 0
    lines = trace_of(tmp_path)["reached"]["files"][str(tmp_path / "program.py")]
    source = (tmp_path / "program.py").read_text().splitlines()
    last = len(source)
    assert source[last - 1].strip() == "pass"
    assert last - 1 in lines["executed"]
    assert last not in lines["executed"]


def test_a_program_behind_a_link_finds_its_neighbours(parent: Parent, tmp_path: Path) -> None:
    """As in Python: the folder of the file itself is searched, and `__builtins__` is the module."""
    (tmp_path / "real").mkdir()
    program(tmp_path / "real", "import beside\nassert __builtins__.len is len\n")
    (tmp_path / "real" / "beside.py").touch()
    (tmp_path / "link.py").symlink_to("real/program.py")
    done = parent.trace(tmp_path, "link.py")
    assert done.returncode == 0, done.stderr
