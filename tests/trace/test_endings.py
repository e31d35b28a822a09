"""However a program ends, its trace is written, its exit code is kept, and one line says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.marks import LONG

ROOT = Path(__file__).parents[2]
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


def command(folder: Path, source: str, *options: str) -> list[str]:
    (folder / "program.py").write_text(MODEL + textwrap.dedent(source))
    return [sys.executable, "-m", "pygraph_rt.trace", *options, "program.py"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def traced(folder: Path, source: str, **more: str) -> tuple[Any, dict[str, Any]]:
    done = subprocess.run(
        command(folder, source),
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    files = sorted(folder.glob("trace*.json"))
    assert len(files) == 1, done.stderr
    return done, json.loads(files[0].read_text("utf-8"))


def breaks(trace: dict[str, Any]) -> int:
    return sum(e["count"] for e in trace["events"] if e["kind"] == "graph_break")


def said(done: Any) -> list[str]:
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
def test_a_program_that_ends_early(tmp_path: Path, source: str, code: int, kind: str) -> None:
    done, trace = traced(tmp_path, source)
    assert done.returncode == code, done.stderr
    assert trace["exit"]["kind"] == kind
    assert trace["exit"]["code"] == (code if code >= 0 else 128 - code)
    assert breaks(trace) == 1
    assert len(said(done)) == 1
    assert "1 graph break" in said(done)[0]


def test_a_traceback_shows_the_program_alone(tmp_path: Path) -> None:
    done, trace = traced(tmp_path, "raise ValueError('wrong')")
    assert "ValueError: wrong" in done.stderr
    assert "pygraph_rt" not in done.stderr.replace(said(done)[0], "")
    assert trace["exit"]["error"] == "ValueError: wrong"


def test_ctrl_c_from_outside(tmp_path: Path) -> None:
    running = subprocess.Popen(
        command(tmp_path, "print('ready', flush=True); time.sleep(60)"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    while running.stdout.readline() != "ready\n":
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == -signal.SIGINT
    assert breaks(json.loads((tmp_path / "trace.json").read_text("utf-8"))) == 1


def test_a_program_that_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print(sum(range(5)))\n")
    done = subprocess.run(
        [sys.executable, "-m", "pygraph_rt.trace", "plain.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "10\n"
    assert len(said(done)) == 1
    assert "nothing was compiled" in said(done)[0]


def test_one_file_a_rank(tmp_path: Path) -> None:
    _, trace = traced(tmp_path, "", RANK="3", WORLD_SIZE="4")
    assert (tmp_path / "trace.rank3.json").exists()
    assert (trace["rank"], trace["world_size"]) == (3, 4)


def test_a_module_and_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "work.py").write_text("import sys\nprint(sys.argv[1:], __name__)\n")
    done = subprocess.run(
        [sys.executable, "-m", "pygraph_rt.trace", "-m", "package.work", "-o", "x", "--coverage"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['-o', 'x', '--coverage'] __main__\n"


@pytest.mark.parametrize("wrong", [["absent.py"], ["-m", "absent_module"]])
def test_no_such_program(tmp_path: Path, wrong: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pygraph_rt.trace", *wrong],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "absent" in done.stderr


def test_a_file_that_cannot_be_written_keeps_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run(
        command(tmp_path, "sys.exit(3)", "-o", "file/trace.json"),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert len(said(done)) == 1
    assert "cannot be written" in said(done)[0]


def test_lines_that_ran_with_coverage(tmp_path: Path) -> None:
    subprocess.run(
        command(tmp_path, "if not torch:\n    pass\n", "--coverage"),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=True,
    )
    trace = json.loads((tmp_path / "trace.json").read_text("utf-8"))
    lines = trace["reached"]["files"][str(tmp_path / "program.py")]
    source = (tmp_path / "program.py").read_text().splitlines()
    last = len(source)
    assert source[last - 1].strip() == "pass"
    assert last - 1 in lines["executed"]
    assert last not in lines["executed"]
