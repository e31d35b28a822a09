"""Runs of a file's functions, kept for the next text of the file: what an edit does not concern is
not run again.

A function's run rests on its own text, on the file outside of all function bodies, and on what it
asks of the module while it runs: what attributes hold, what other functions return. These questions
are kept in order, with their answers and with what the run stored. Where the answers are still the
same, so is the run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.program.dependencies import DependencyTracker, Step, tracking
from pygraph_lint.analysis.program.facts import Call, FunctionFacts
from pygraph_lint.analysis.program.module import Definition, Module
from pygraph_lint.analysis.program.names import FunctionNode
from pygraph_lint.analysis.syntax.nodes import first_line
from pygraph_lint.analysis.syntax.spans import Span

TrackedModule = tracking(Module)
_PlacedT = TypeVar("_PlacedT", Event, Call)
_NEWLINE = re.compile(r"\r\n|\n|\r")
_SAYS_NOTHING = re.compile(r"\s*(#|$)")


class _Run(NamedTuple):
    """One run of a function, which would be the same on other lines."""

    text: str
    steps: Sequence[Step]
    facts: FunctionFacts


class ReusableRuns:
    """The runs of the functions of one file, from text to text."""

    def __init__(self) -> None:
        self._frame: object = None
        self._texts: dict[str, str] = {}
        self._runs: dict[str, _Run] = {}

    def take(self, text: str, module: Module) -> None:
        """Take the next text of the file. Runs stay where only bodies of functions changed."""
        lines = _NEWLINE.split(text)
        frame: list[str] = []
        self._texts = {}
        at = 0
        classes = ((None, node) for node in module.class_nodes.values())
        functions = ((name, node) for name, node, _ in module.functions)
        for name, node in sorted((*classes, *functions), key=lambda each: each[1].lineno):
            head = _head(node)
            start, end = _body_lines(lines, node)
            frame += (line for line in lines[at:head] if not _SAYS_NOTHING.match(line))
            if name is not None:
                frame += lines[max(at, head) : start]
                self._texts[name] = "\n".join(lines[start:end])
                at = max(at, end)
            elif start < end:
                frame += (*lines[head : node.lineno - 1], f"class {node.name}")
                at = max(at, start)
        frame += (line for line in lines[at:] if not _SAYS_NOTHING.match(line))
        known = (module.name, module.is_package, module.facts.path, frame)
        if known != self._frame:
            self._frame = known
            self._runs = {}
        else:
            self._runs = {name: run for name, run in self._runs.items() if name in self._texts}

    def run(self, module: Module, definition: Definition, fresh: Callable[[], None]) -> None:
        """Run a function that was not run yet, or repeat its kept run. ``fresh`` runs it."""
        name, node, _ = definition
        kept = self._runs.get(name)
        given: Sequence[Step] = ()
        if kept is not None and kept.text == self._texts[name]:
            module.done.add(name)
            count = _repeated(module, kept.steps)
            if count == len(kept.steps):
                facts = _moved(kept.facts, node.lineno)
                module.facts.functions[name] = facts
                self._runs[name] = kept._replace(facts=facts)
                return
            given = kept.steps[:count]
            module.done.discard(name)
        outer, tracker = module.tracker, DependencyTracker(given)
        module.tracker = tracker
        fresh()
        module.tracker = outer
        made = module.facts.functions.get(name)
        if made is not None and tracker.repeatable:
            self._runs[name] = _Run(self._texts[name], tracker.steps, made)
        else:
            self._runs.pop(name, None)


def _head(node: FunctionNode | ast.ClassDef) -> int:
    """The index of the first line of a definition, with its decorators."""
    return first_line(node) - 1


def _body_lines(lines: Sequence[str], node: FunctionNode | ast.ClassDef) -> tuple[int, int]:
    """The indices of the lines of a definition's body as a range, which is empty and behind the
    last line where the body begins on a line of the head.
    """
    end = node.end_lineno or node.lineno
    first = node.body[0]
    start = first.lineno - 1
    if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        start = _head(first)
    if lines[start].encode()[: first.col_offset].strip():
        return end, end
    while _SAYS_NOTHING.match(lines[start - 1]):
        start -= 1  # comments above the first statement
    return start, end


def _repeated(module: Module, steps: Sequence[Step]) -> int:
    """Take steps again; how many could be, up to the first question with another answer."""
    for count, step in enumerate(steps):
        if not step.question:
            owner, name = step.names
            module.keep_attribute(owner, name, step.value)
        elif _answer(module, step) != step.value:
            return count
    return len(steps)


def _answer(module: Module, step: Step) -> Any:
    """What a module answers now, without telling who watches."""
    return getattr(Module, step.question)(module, *step.names)


def _moved(facts: FunctionFacts, line: int) -> FunctionFacts:
    """The facts of a function that starts on another line now."""
    by = line - facts.line
    if not by:
        return facts
    events, calls = _all_moved(facts.events, by), _all_moved(facts.calls, by)
    return replace(facts, line=line, events=events, calls=calls)


def _all_moved(placed: Iterable[_PlacedT], by: int) -> list[_PlacedT]:
    found = []
    for each in placed:
        line, column, end_line, end_column = each.span
        found.append(each._replace(span=Span(line + by, column, end_line + by, end_column)))
    return found
