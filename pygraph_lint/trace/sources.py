"""Which files of a trace are the user's own and still as they were, and their statements."""

from __future__ import annotations

import ast
import hashlib
import os
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pygraph_lint.analysis.syntax.nodes import first_line
from pygraph_lint.errors import SourceError
from pygraph_lint.files.modules import Roots
from pygraph_lint.files.sources import decode, split_lines
from pygraph_lint.trace.document import Trace, TraceError

_INSTALLED = {"site-packages", "dist-packages"}


class Code:
    """A file's text, and which lines are one statement."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.lines = split_lines(text)
        self._spans: dict[int, tuple[int, int]] = {}
        self._functions: list[tuple[int, int]] = []
        self._assigned: dict[int, set[str]] = {}
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        for node in ast.walk(tree):  # outer statements come first, inner ones overwrite them
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                first = first_line(node)
                self._functions.append((first, node.end_lineno or first))
            if isinstance(node, (ast.stmt, ast.ExceptHandler)):
                span = (first_line(node), _header_end(node))
                self._spans.update(dict.fromkeys(range(span[0], span[1] + 1), span))
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                self._assigned[node.lineno] = set(_targets(node))

    def statement(self, line: int) -> tuple[int, int]:
        """First and last line of the innermost statement at a line; of a compound one its header's.

        The line itself where no statement is.
        """
        return self._spans.get(line, (line, line))

    def assigned(self, line: int) -> set[str]:
        """Names and attributes (`self.total`) that the statement at a line assigns."""
        return self._assigned.get(self.statement(line)[0], set())

    def function(self, line: int) -> tuple[int, int] | None:
        """First and last line of the innermost function around a line."""
        around = [span for span in self._functions if span[0] <= line <= span[1]]
        return max(around) if around else None


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> Iterator[str]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for part in ast.walk(target):
            if isinstance(part, (ast.Name, ast.Attribute)):
                yield ast.unparse(part)


def _header_end(node: ast.stmt | ast.ExceptHandler) -> int:
    body = getattr(node, "body", None)
    last = first_line(body[0]) - 1 if isinstance(body, list) and body else node.end_lineno
    return max(node.lineno, last or node.lineno)


@dataclass
class Sources:
    """The files of the traces: ``codes`` by the name a trace gives them; ``changed`` and
    ``missing`` are the user's own ones that cannot be joined.
    """

    codes: dict[str, Code] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def find(traces: Sequence[Trace]) -> Sources:
    """Look every file up. Raises TraceError where there are the user's own, and none is here."""
    found = Sources()
    for trace in traces:
        for file in _own(trace):
            if file not in found.codes or file in found.changed:
                _look_up(file, trace, found)
    names = ", ".join(str(trace.path) for trace in traces)
    if not found.codes and found.changed:
        raise TraceError(f"{names}: every file in it has changed since; record it again")
    if not found.codes and found.missing:
        where = traces[0].directory
        raise TraceError(
            f"{names}: is a trace of another project: no file of {where} is found here; "
            "run pygraph-lint where the program was run"
        )
    return found


def _own(trace: Trace) -> Iterator[str]:
    """The files that are neither installed nor Python's, below the program's project."""
    project = str(Roots().of(Path(trace.directory) / "x.py").base)
    python = sysconfig.get_paths()["stdlib"] + os.sep
    program = Path(os.path.abspath(Path(trace.directory, *trace.run["command"][:1])))
    folders = (trace.directory, project, Path.cwd(), program.parent)
    below = tuple(f"{str(folder).rstrip(os.sep)}{os.sep}" for folder in folders)
    for file in trace.files:
        installed = not _INSTALLED.isdisjoint(Path(file).parts) or file.startswith(python)
        if file.startswith(below) and not installed:
            yield file


def _look_up(file: str, trace: Trace, found: Sources) -> None:
    relative = trace.files[file].get("relative")
    there = False
    # A copy of the project is meant where it is the current folder.
    for path in (Path.cwd() / (relative or file), Path(file)):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        there = True
        if hashlib.sha256(data).hexdigest() == trace.files[file].get("sha256"):
            with suppress(SourceError):
                found.codes[file] = Code(path, decode(data).text)
                return
    if there:
        found.codes.pop(file, None)
    left = found.changed if there else found.missing
    if file not in left:
        left.append(file)
