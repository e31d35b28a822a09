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
class Observed:
    """``break_lines`` are 1-based lines of the example, ``calling_lines`` those that led there;
    ``error`` is fullgraph's, or empty.
    """

    break_lines: tuple[int, ...]
    calling_lines: tuple[int, ...]
    graphs: int
    error: str

    def lines_of(self, code: str) -> tuple[int, ...]:
        """Where the graph ends as a rule reports it: at a line, or in what the line calls."""
        return self.calling_lines if code in _CALLING else self.break_lines


class _Breaks(logging.Handler):
    def __init__(self, path: str) -> None:
        super().__init__(logging.DEBUG)
        self.path = path
        self.lines: list[int] = []
        self.calling: list[int] = []

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


@contextmanager
def _graph_breaks(path: str) -> Iterator[_Breaks]:
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
        with _graph_breaks(path) as seen:
            torch.compile(program(module, device), backend=backend)(*arguments(module, device))
        torch._dynamo.reset()
        error = _fullgraph_error(module, device)
        torch._dynamo.reset()
    lines, calling = tuple(sorted(set(seen.lines))), tuple(sorted(set(seen.calling)))
    return Observed(lines, calling, backend.graphs, error)


def _fullgraph_error(module: ModuleType, device: str) -> str:
    backend = CountingBackend()
    try:
        compiled = torch.compile(program(module, device), backend=backend, fullgraph=True)
        compiled(*arguments(module, device))
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
