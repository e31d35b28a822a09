"""Small training programs in the manners of real projects, whose costly lines are marked.

A file of ``made_loops`` has the modules of one program, each behind ``=== name``. ``# !sync`` marks
a line at which the host waits on every step for a value, ``# !synchronize`` one at which it waits
for all, ``# !copy`` a blocking copy, ``# ?`` what may be reported or not. Nothing else is reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.lint_truth.statements import statement_spans
from tests.analysis.programs import project

FOLDER = Path(__file__).parent / "made_loops"
_MARK = re.compile(r"# (!synchronize|!sync|!copy|\?)")


def modules(text: str) -> dict[str, str]:
    """The texts of a program's modules, by name."""
    parts = re.split(r"^=== (\S+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def first_lines(text: str) -> dict[int, int]:
    """The first line of the statement around each line."""
    spans = statement_spans(text)
    return {line: spans.get(line, (line, line))[0] for line in range(1, text.count("\n") + 2)}


def marks(text: str) -> Iterator[tuple[int, str]]:
    """The marked statements of a module, by first line, and the marks."""
    starts = first_lines(text)
    for number, line in enumerate(text.splitlines(), 1):
        found = _MARK.search(line)
        if found is not None:
            yield starts[number], found[1]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_marked_lines_of_made_programs(path: Path) -> None:
    texts = modules(path.read_text())
    for text in texts.values():
        ast.parse(text)
    linked, facts = project(**{name.replace("/", "__"): text for name, text in texts.items()})
    for name, text in texts.items():
        starts, marked = first_lines(text), dict(marks(text))
        events = linked.loop_events(facts[name.replace("/", ".")])
        said = {starts[event.span.line]: _kind(event.kind) for _, event in events}
        known = {line for line, mark in marked.items() if mark == "?"}
        wanted = {line: mark for line, mark in marked.items() if mark != "?"}
        assert {line: kind for line, kind in said.items() if line not in known} == wanted, name


def _kind(kind: str) -> str:
    return {"loop.copy": "!copy", "loop.synchronize": "!synchronize"}.get(kind, "!sync")
