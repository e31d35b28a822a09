"""What Dynamo really does with an example: where it breaks, and whether one graph can hold it."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.utils
import torch._logging

from tests.rules.examples import arguments, program

_PLACE = re.compile(r"in user code at (.+):(\d+)")
_FRAME = re.compile(r'File "(.+)", line (\d+), in ')
_TYPE = re.compile(r"^(?:Graph Break Reason: )?(.+)\n  Explanation: ", re.MULTILINE)
_SITE_PAGE = re.compile(r"/gb/gb(\d+)\.html")

#: Rules about a call: the graph ends in the function that is called.
_CALLING = frozenset({"PG522"})


class CountingBackend:
    """Runs graphs as they are and counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        """Take one graph."""
        self.graphs += 1
        return graph.forward


@dataclass(frozen=True)
class Report:
    """One graph break as Dynamo tells it: its ``Gb_type`` and the id of torch's page about it.

    ``line`` is the 1-based line of the example, 0 where the text names none. Both texts are empty
    where Dynamo gives none.
    """

    line: int
    gb_type: str
    gb_id: str


def report_of(line: int, text: str) -> Report:
    """What a message of Dynamo says about the kind of break."""
    kind, page = _TYPE.search(text), _SITE_PAGE.search(text)
    return Report(line, kind[1].strip() if kind else "", f"GB{page[1]}" if page else "")


@dataclass(frozen=True)
class Observed:
    """``break_lines`` are 1-based lines of the example, ``calling_lines`` those that led there;
    ``error`` is fullgraph's, or empty; ``reports`` and ``fullgraph`` say which kinds of break.
    """

    break_lines: tuple[int, ...]
    calling_lines: tuple[int, ...]
    graphs: int
    error: str
    reports: tuple[Report, ...] = ()
    fullgraph: Report | None = None

    def lines_of(self, code: str) -> tuple[int, ...]:
        """Where the graph ends as a rule reports it: at a line, or in what the line calls."""
        return self.calling_lines if code in _CALLING else self.break_lines


class _Breaks(logging.Handler):
    def __init__(self, path: str) -> None:
        super().__init__(logging.DEBUG)
        self.path = path
        self.lines: list[int] = []
        self.calling: list[int] = []
        self.reports: list[Report] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note the innermost line of the example's own file that the report names."""
        # A second break at the same place inside a library would come without its stack.
        torch._dynamo.utils.reset_graph_break_dup_checker()
        text = record.getMessage()
        rows = [int(row) for path, row in _FRAME.findall(text) if path == self.path]
        place = _PLACE.search(text)
        if rows:
            self.lines.append(rows[-1])
            self.calling += rows[:-1]
        elif place is not None and place[1] == self.path:
            self.lines.append(int(place[2]))
        else:
            return
        self.reports.append(report_of(self.lines[-1], text))


@contextmanager
def graph_breaks(path: str) -> Iterator[_Breaks]:
    """Record the breaks in the file at `path`, as Dynamo's log tells them."""
    handler = _Breaks(path)
    names = ("torch._dynamo.symbolic_convert", "torch._dynamo.convert_frame")
    loggers = [logging.getLogger(f"{name}.__graph_breaks") for name in names]
    torch._logging.set_logs(graph_breaks=True)
    kept = [(logger, logger.handlers[:], logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers[:] = [handler]
        logger.propagate = False
    try:
        yield handler
    finally:
        for logger, handlers, propagate in kept:
            logger.handlers[:] = handlers
            logger.propagate = propagate
        torch._logging.set_logs()


def observe(module: ModuleType, device: str = "cpu") -> Observed:
    """Compile the example with and without ``fullgraph=True``; errors of eager mode are raised."""
    path = str(module.__file__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program(module, device)(*arguments(module, device))
        torch._dynamo.reset()
        backend = CountingBackend()
        with graph_breaks(path) as seen:
            torch.compile(program(module, device), backend=backend)(*arguments(module, device))
        torch._dynamo.reset()
        error, fullgraph = _fullgraph_error(module, device)
        torch._dynamo.reset()
    lines, calling = tuple(sorted(set(seen.lines))), tuple(sorted(set(seen.calling)))
    reports = tuple(dict.fromkeys(seen.reports))
    return Observed(lines, calling, backend.graphs, error, reports, fullgraph)


def _fullgraph_error(module: ModuleType, device: str) -> tuple[str, Report | None]:
    backend = CountingBackend()
    try:
        compiled = torch.compile(program(module, device), backend=backend, fullgraph=True)
        compiled(*arguments(module, device))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        report = report_of(0, str(error))
        return text.splitlines()[0], report
    return "", None
