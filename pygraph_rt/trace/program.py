"""Runs a program as Python would, and traces it."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import types
from pathlib import Path
from typing import Any

from pygraph_rt.trace.session import Trace, first_paragraph


def parser() -> argparse.ArgumentParser:
    """The command line; everything behind the program is the program's."""
    made = argparse.ArgumentParser(
        prog="python -m pygraph_rt.trace",
        description="Run a program, and write what torch.compile did with it to a file.",
    )
    made.add_argument("--output", "-o", type=Path, default=Path("trace.json"))
    made.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    made.add_argument("program")
    made.add_argument("arguments", nargs=argparse.REMAINDER)
    return made


def run_script(path: str) -> None:
    """Run a file as `__main__`, so that pickling and new processes find it under that name."""
    file = os.path.abspath(path)
    code = compile(Path(file).read_bytes(), file, "exec")
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=file, __builtins__=__builtins__, __spec__=None)
    sys.modules["__main__"] = module
    sys.path[0] = str(Path(file).parent)
    exec(code, module.__dict__)


def exit_of(error: BaseException) -> dict[str, Any]:
    """How a program ended that this exception left."""
    if isinstance(error, SystemExit):
        given = error.code
        code = given if isinstance(given, int) else 0 if given is None else 1
        return {"kind": "exited", "code": code, "error": None}
    if isinstance(error, KeyboardInterrupt):
        return {"kind": "interrupted", "code": 130, "error": None}
    return {"kind": "raised", "code": 1, "error": first_paragraph(error)}


def main(arguments: list[str]) -> int:
    """Run a program; its exit status."""
    given = parser().parse_args(arguments)
    sys.argv = [given.program, *given.arguments]
    with Trace(given.output) as trace:
        trace.exit = {"kind": "finished", "code": 0, "error": None}
        try:
            if given.module:
                runpy.run_module(given.program, run_name="__main__", alter_sys=True)
            else:
                run_script(given.program)
        except BaseException as error:
            trace.exit = exit_of(error)
            raise
    return 0
