"""What the content of one file says, on its own: worked out in any process, and cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pygraph_lint.errors import SourceError
from pygraph_lint.files import parallel, suppressions
from pygraph_lint.files.cache import Cache, digest, file_entry
from pygraph_lint.files.sources import decode, read_bytes, refuse_nul

if TYPE_CHECKING:
    from pygraph_lint.analysis.interpreter.incremental import ReusableRuns
    from pygraph_lint.analysis.program.facts import ModuleFacts, Sinks
from dataclasses import replace

from pygraph_lint.findings import Finding


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of one file's content.

    ``facts`` is None where the file cannot be parsed or cannot matter; ``problem`` says what kept
    it from being parsed: text, code, line and column (1-based, 0 where there is none).
    """

    facts: ModuleFacts | None
    problem: tuple[str, str, int, int] | None
    directives: tuple[suppressions.Directive, ...]


@dataclass(frozen=True, slots=True)
class Task:
    relative: str
    module: str
    is_package: bool
    facts: bool
    data: bytes | None
    size: int
    beside: tuple[tuple[str, str], ...] = ()  # see `files.project.beside`
    kept: ReusableRuns | None = None  # of a text in an editor


def record_key(content: bytes, facts: bool, beside: tuple[tuple[str, str], ...]) -> bytes:
    """What a record depends on, of a file whose content has this digest."""
    return digest(content, b"facts" if facts else b"syntax", repr(beside).encode())


_analysis: tuple[Path, Cache, Sinks]


def remember(base: Path, cache: Cache, sinks: Sinks) -> None:
    global _analysis
    _analysis = (base, cache, sinks)


def analyse_part(tasks: Sequence[Task]) -> list[tuple[str, bytes, Record]]:
    """The records of some files, written to the cache on the way."""
    base, cache, sinks = _analysis
    found = []
    with parallel.without_collecting():
        for task in tasks:
            data = task.data
            if data is None:
                try:
                    data = read_bytes(base / task.relative)
                except SourceError as error:
                    record = Record(None, (str(error), "PG002", 0, 0), ())
                    found.append((task.relative, b"", record))
                    continue
            record = analyse(data, task, sinks)
            key = record_key(digest(data), task.facts, task.beside)
            if task.data is None:
                cache.store(file_entry(task.relative), key, record)
            found.append((task.relative, key, record))
    return found


def analyse(data: bytes, task: Task, sinks: Sinks) -> Record:
    """What one file's content says, on its own."""
    from pygraph_lint.analysis.extract import extract, parse

    code, facts = "PG002", None
    try:
        text = decode(data).text
        code = "PG001"
        refuse_nul(text)
        if task.facts:
            name, module = task.relative, task.module
            kept, beside = task.kept, task.beside
            facts = extract(text, name, module, task.is_package, sinks, kept, beside)
        else:
            parse(text)
    except SourceError as error:
        return Record(None, (str(error), code, error.line, error.column), ())
    return Record(facts, None, suppressions.parse(text))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What checking one file gave, before selection and suppression."""

    findings: tuple[Finding, ...]
    directives: tuple[suppressions.Directive, ...]

    def at(self, path: Path) -> Outcome:
        """The same with its findings filed under ``path``, wherever it was first made."""
        filename = str(path)
        found = tuple(replace(finding, filename=filename) for finding in self.findings)
        return Outcome(found, self.directives)
