"""Every graph break of one torch.compile'd call, with its source line, and what Dynamo traced.

Dynamo reports a break in one of two ways: `log_graph_break`, where tracing resumes after the
break, and an exception out of `_compile`, where the whole frame falls back to eager (a break
inside a loop, a `with` or a `try`). Both are observed here at their source, since the log that
Dynamo writes drops repeated breaks.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
import torch._dynamo as dynamo
from torch._dynamo import bytecode_transformation, convert_frame, exc, symbolic_convert

from benchmarks.lint_truth.packages import is_torch_file, relative_name

RECOMPILE_LIMIT = 64
CALLERS = 3

#: Breaks that Dynamo reports for the place of another break; their cause is named with them.
CONSEQUENCES = ("graph break in loop", "Graph break under GenericContextWrappingVariable")


@dataclass
class Break:
    """One graph break.

    `file`:`line` is the innermost line of a measured package, `inner` the innermost line of
    all, `callers` the package lines that led there, innermost first.
    """

    file: str
    line: int
    inner: str
    kind: str
    skips_frame: bool
    callers: tuple[tuple[str, int], ...] = ()


@dataclass
class Observation:
    """What one compiled call showed."""

    breaks: list[Break] = field(default_factory=list)
    skipped_frames: list[tuple[str, int, str, str]] = field(default_factory=list)
    traced: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    graphs: int = 0
    error: Exception | None = None
    result: Any = None


def _short(filename: str, line: int) -> str:
    """A machine-independent name for any source line."""
    name = relative_name(filename)
    if name is None:
        if is_torch_file(filename):
            name = "torch/" + filename.rpartition("/torch/")[2]
        else:
            name = filename.rpartition("/")[2]
    return f"{name}:{line}"


def _reason(error: BaseException) -> str:
    """Dynamo's name for the break, or the exception's type."""
    return str(getattr(error, "gb_type", None) or type(error).__name__)


def _cause(error: BaseException) -> str:
    """Dynamo's name for the break that `error` follows from; empty if it follows from none.

    torch 2.13 does not chain the two: the message starts with that of the cause.
    """
    if error.__cause__ is not None:
        return _reason(error.__cause__)
    cause, found, _ = str(getattr(error, "msg", "")).partition("*** While handling this graph")
    return cause.partition("\n")[0].strip() if found else ""


def _located(error: BaseException, skips_frame: bool) -> Break | None:
    """The break that `error` stands for, or None when it is not in a measured package."""
    stack = list(getattr(error, "real_stack", None) or [])
    if not stack:
        return None
    inner = stack[-1]
    kind = _reason(error)
    cause = _cause(error)
    if cause and kind in CONSEQUENCES:
        kind = f"{kind}: {cause}"
    places = [
        (name, frame.lineno or 0)
        for frame in reversed(stack)
        if (name := relative_name(frame.filename)) is not None
    ]
    if not places:
        return None
    file, line = places[0]
    return Break(
        file,
        line,
        _short(inner.filename, inner.lineno or 0),
        kind,
        skips_frame,
        tuple(places[1 : CALLERS + 1]),
    )


@contextlib.contextmanager
def _patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def _observing(seen: Observation) -> Iterator[None]:
    """Hook Dynamo so that `seen` receives every break, skipped frame and traced line."""
    translator = symbolic_convert.InstructionTranslatorBase
    log_graph_break = translator.log_graph_break
    starts_line = translator.starts_line
    compile_code = convert_frame._compile

    def logged(self: Any, code_options: Any, reason: str, error: Any = None, **named: Any) -> None:
        error = named.get("exc", error)
        found = _located(error, skips_frame=False)
        if found is not None:
            seen.breaks.append(found)
        log_graph_break(self, code_options, reason, exc=error)

    def traced(self: Any, lineno: int) -> None:
        name = relative_name(self.f_code.co_filename)
        if name is not None and lineno:
            seen.traced[name].add(lineno)
        starts_line(self, lineno)

    def compiled(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        try:
            return compile_code(code, *args, **kwargs)
        except Exception as error:
            _frame_skipped(seen, code, error)
            raise

    with (
        _patched(translator, "log_graph_break", logged),
        _patched(translator, "starts_line", traced),
        _patched(convert_frame, "_compile", compiled),
        _patched(bytecode_transformation, "linetable_311_writer", _line_table_writer),
    ):
        yield


LINE_TABLE_ENTRY = 8  # code units that one entry of a code object's line table can cover


def _line_table_writer(first_line: int) -> Any:
    """Dynamo's line table writer, with each line step written once.

    For an instruction of more than 8 code units Dynamo writes the step to the next line once
    per entry, so every later line of a resume function is off by that step (torch 2.13). Giving
    it the entries one by one avoids that.
    """
    table, update = _WRITER(first_line)

    def by_entries(positions: Any, size: int) -> None:
        while size > LINE_TABLE_ENTRY:
            update(positions, LINE_TABLE_ENTRY)
            size -= LINE_TABLE_ENTRY
        update(positions, size)

    return table, by_entries


_WRITER = bytecode_transformation.linetable_311_writer


def _frame_skipped(seen: Observation, code: CodeType, error: Exception) -> None:
    """Record that the frame of `code` runs eagerly because of `error`."""
    kind = _reason(error)
    name = relative_name(code.co_filename)
    if name is not None:
        seen.skipped_frames.append((name, code.co_firstlineno, code.co_name, kind))
    if isinstance(error, exc.SkipFrame):
        return
    found = _located(error, skips_frame=True)
    if found is not None:
        seen.breaks.append(found)


def observe(function: Callable[..., Any], calls: int, **inputs: Any) -> Observation:
    """Compile `function` and call it `calls` times with the same arguments."""
    return observe_each(function, [inputs] * calls)


def observe_each(
    function: Callable[..., Any], calls: Sequence[dict[str, Any]], *positional: Any
) -> Observation:
    """Compile `function` with a backend that runs each graph as it is, make each of `calls`.

    `positional` arguments come first in each call.

    Errors inside Dynamo are suppressed (the frame runs eagerly) and appear as breaks of their
    exception's type. An error of the program itself ends the observation and is kept in `error`.
    """
    seen = Observation()

    def backend(module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Any:
        seen.graphs += 1
        return module.forward

    dynamo.reset()
    logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)
    settings = {
        "recompile_limit": RECOMPILE_LIMIT,
        "accumulated_recompile_limit": 16 * RECOMPILE_LIMIT,
        "suppress_errors": True,
    }
    with dynamo.config.patch(settings), _observing(seen):
        compiled = torch.compile(function, backend=backend)
        try:
            for inputs in calls:
                seen.result = compiled(*positional, **inputs)
        except Exception as error:  # what was seen before still counts
            seen.error = error
    return seen
