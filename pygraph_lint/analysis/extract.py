"""One file's facts: parse, bind names, then run every function abstractly. Depends on nothing but
the file.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from pygraph_lint.analysis.capture import hazards
from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.interpreter.incremental import ReusableRuns, TrackedModule
from pygraph_lint.analysis.interpreter.run import run_module
from pygraph_lint.analysis.loops import bodies, hints
from pygraph_lint.analysis.loops.data_loaders import loaders_for_training
from pygraph_lint.analysis.program.constructor_options import note_options
from pygraph_lint.analysis.program.facts import (
    Beside,
    Call,
    FileLoops,
    LoopBody,
    ModuleFacts,
    Root,
    Sinks,
)
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.program.names import import_whole_names, module_statements
from pygraph_lint.analysis.program.patches import patched
from pygraph_lint.analysis.syntax.nodes import deep_recursion, first_line, walk
from pygraph_lint.analysis.syntax.spans import Span
from pygraph_lint.errors import SourceError

_PlacedT = TypeVar("_PlacedT", Event, Call)
_REGISTERING = frozenset(
    f"torch.library.{name}"
    for name in ("custom_op", "impl", "register_autograd", "register_fake", "register_kernel")
)
_REGION = re.compile(r"#\s*pygraph:\s*region\b")
# What starts a region has one of these words; this package's own name is in each cell's header.
_STARTS = re.compile(r"compile|(?<!py)graph")


def extract(
    text: str,
    path: str,
    module: str,
    is_package: bool,
    sinks: Sinks,
    kept: ReusableRuns | None = None,
    beside: Beside = (),
) -> ModuleFacts:
    """The facts of one file.

    ``text`` is decoded source, ``module`` its dotted name; ``beside`` says what its imports find
    by another name than they say. ``kept`` has what the last text of the
    file said of its functions, and takes what this one does. Raises SourceError, with a position
    where there is one, for anything that cannot be parsed.
    """
    with _deep_recursion():
        tree = parse(text, beside)
        kind = Module if kept is None else TrackedModule
        file = kind(tree, path, module, is_package, sinks)
        file.text = text
        facts = file.facts
        facts.beside = beside
        if kept is not None:
            kept.take(text, file)
        run_module(file, _STARTS.search(text) is not None, kept=kept)
        if _REGION.search(text) is not None:
            facts.roots += _marked(text, file)
        _note_for_others(facts, file, text)
        facts.loaders = list(loaders_for_training(file)) if "DataLoader(" in text else []
        if hazards.mentioned(text):
            facts.capture_events = _capture_events(file)
        facts.loops = hints.hints(text, file)
    if not text.isascii():
        _place_by_characters(facts, text)
    return facts


def _note_for_others(facts: ModuleFacts, file: Module, text: str) -> None:
    """Note what a file says of the code of others, and of how others may use its own."""
    facts.patched = patched(text, file)
    note_options(file)
    for name in _registered(file) if "torch.library" in text else ():
        facts.functions[name].registered = True
    for name in _run_as_script(file) if "__main__" in text else ():
        facts.functions[name].run_as_script = True


def _run_as_script(file: Module) -> Iterator[str]:
    """The file's functions that it calls below ``if __name__ == "__main__":``."""
    for node in file.tree.body:
        if isinstance(node, ast.If) and any(
            _is_named(each, "__name__") for each in walk(node.test)
        ):
            called = (each.func for each in walk(node) if isinstance(each, ast.Call))
            names = {f"{file.name}.{each.id}" for each in called if isinstance(each, ast.Name)}
            yield from names.intersection(file.facts.functions)


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _place_by_characters(facts: ModuleFacts, text: str) -> None:
    """Have spans count characters, where those of the syntax tree count bytes."""
    convert = _to_characters(text)
    for name, function in facts.functions.items():
        events, calls = [*map(convert, function.events)], [*map(convert, function.calls)]
        if events != function.events or calls != function.calls:
            facts.functions[name] = replace(function, events=events, calls=calls)
    facts.capture_events = [convert(event) for event in facts.capture_events]
    facts.loaders = [convert(event) for event in facts.loaders]


def loop_bodies(text: str, module: str, is_package: bool, beside: Beside = ()) -> FileLoops:
    """What the training loops of a file do, and its functions that they may call. Raises
    SourceError like ``extract``.
    """
    with _deep_recursion():
        tree = parse(text, beside)
        return bodies.loop_bodies(tree, module, is_package, _to_characters(text))


def helper_bodies(
    text: str, module: str, is_package: bool, beside: Beside = ()
) -> Mapping[str, LoopBody]:
    """What each function of a file does where a training loop calls it, worked out when it is asked
    for by ``helper_body``. Raises SourceError like ``extract``.
    """
    with _deep_recursion():
        return bodies.helpers(parse(text, beside), module, is_package, _to_characters(text))


def helper_body(helpers: Mapping[str, LoopBody], name: str) -> LoopBody:
    """The body of one of a file's functions; an empty one where there is none."""
    with _deep_recursion():
        return helpers[name] if name in helpers else LoopBody(name, 0, "", [], [])


@contextmanager
def _deep_recursion() -> Iterator[None]:
    try:
        with deep_recursion():
            yield
    except (RecursionError, MemoryError):
        raise SourceError("nested too deeply to be analysed", 1, 1) from None


def _marked(text: str, file: Module) -> Iterator[Root]:
    """The functions with ``# pygraph: region`` on a line of their head, or on the line above."""
    lines = text.splitlines()
    for name, node, _ in file.functions:
        first = first_line(node)
        head = lines[max(first - 2, 0) : node.body[0].lineno - 1] or [lines[node.lineno - 1]]
        if any(_REGION.search(line) for line in head):
            yield Root("function", name, "marked as a region", node.lineno)


def parse(text: str, beside: Beside = ()) -> ast.Module:
    """The syntax tree; imports name what they find ``beside`` the file by its whole name. Raises
    SourceError for what this Python cannot parse.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        if beside:
            import_whole_names(tree, dict(beside))
        return tree
    except SyntaxError as error:
        raise SourceError(
            error.msg or "invalid syntax", error.lineno or 1, error.offset or 1
        ) from None
    except ValueError as error:  # NUL bytes
        raise SourceError(str(error), 1, 1) from None
    except (RecursionError, MemoryError):
        raise SourceError("nested too deeply to be parsed", 1, 1) from None


def _registered(file: Module) -> Iterator[str]:
    """The functions that calls at the top of a file make operators of torch.library of."""
    for statement in module_statements(file.tree.body):
        call = getattr(statement, "value", None)
        if not isinstance(call, ast.Call) or file.names.resolve(call.func) not in _REGISTERING:
            continue
        for given in (*call.args, *(item.value for item in call.keywords)):
            name = file.names.resolve(given)
            if name in file.facts.functions:
                yield name


def _capture_events(file: Module) -> list[Event]:
    try:
        return hazards.capture_events(file.tree, file.names)
    except RecursionError:
        return []


def _to_characters(text: str) -> Callable[[_PlacedT], _PlacedT]:
    """A function that turns byte columns into character columns, on lines that are not plain
    ASCII.
    """
    encoded = {
        index: line.encode("utf-8", "surrogatepass")
        for index, line in enumerate(text.split("\n"), 1)
        if not line.isascii()
    }

    def column(line: int, offset: int) -> int:
        data = encoded.get(line)
        return offset if data is None else len(data[:offset].decode("utf-8", "ignore"))

    def place(span: Span) -> Span:
        if span.line not in encoded and span.end_line not in encoded:
            return span
        start, end = column(span.line, span.column), column(span.end_line, span.end_column)
        return Span(span.line, start, span.end_line, end)

    def convert(placed: _PlacedT) -> _PlacedT:
        span = place(placed.span)
        return placed if span is placed.span else placed._replace(span=span)

    return convert
