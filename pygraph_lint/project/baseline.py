"""A baseline: findings that were there before and are not reported again.

Each is kept as rule, function and the text of its lines, and counted, not by position: code that
moves keeps its entries, code that changes loses them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pygraph_lint.errors import SettingsError
from pygraph_lint.files.sources import split_lines
from pygraph_lint.findings import Finding
from pygraph_lint.project.runner import ALWAYS, Runner, by_file, readers

VERSION = 1


def fingerprint(finding: Finding, lines: list[str]) -> str:
    """Stands for what a finding is about, wherever in the file it stands."""
    rows = lines[finding.location.row - 1 : finding.end_location.row]
    code = " ".join(" ".join(row.split()) for row in rows)
    function = finding.region.function.rsplit(".", 1)[-1] if finding.region else ""
    said = "\n".join((finding.code, function, code))
    return hashlib.blake2b(said.encode(errors="replace"), digest_size=8).hexdigest()


def _counted(
    findings: Iterable[Finding], text: Callable[[Path], str], folder: Path
) -> Iterable[tuple[str, list[tuple[Finding, str]]]]:
    for path, group in by_file(findings).items():
        lines = split_lines(text(path))
        name = os.path.relpath(path, folder).replace(os.sep, "/")
        yield name, [(finding, fingerprint(finding, lines)) for finding in group]


def write(path: Path, findings: Iterable[Finding], text: Callable[[Path], str]) -> int:
    """Write the findings (but not unreadable files) to ``path``; how many. Raises SettingsError."""
    files: dict[str, dict[str, list[str | int]]] = {}
    total = 0
    wanted = [finding for finding in findings if finding.code not in ALWAYS]
    for name, group in _counted(wanted, text, path.absolute().parent):
        counts = Counter((mark, finding.code) for finding, mark in group)
        files[name] = {mark: [code, count] for (mark, code), count in sorted(counts.items())}
        total += len(group)
    content = json.dumps({"version": VERSION, "files": files}, indent=1, sort_keys=True)
    try:
        path.write_text(content + "\n", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror or error}") from None
    return total


def read(path: Path) -> dict[str, Counter[str]]:
    """How often each fingerprint stands in each file of a baseline. Raises SettingsError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise SettingsError(
                f"{path}: is a baseline of version {data['version']}, not {VERSION}; "
                "write it again with --write-baseline"
            )
        return {
            name: Counter({mark: int(count) for mark, (_, count) in marks.items()})
            for name, marks in data["files"].items()
        }
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SettingsError(f"{path}: is not a baseline; write one with --write-baseline") from None


def changes(before: dict[str, Counter[str]], after: dict[str, Counter[str]]) -> tuple[int, int]:
    """How many findings one baseline has that the one before had not, and the other way round."""
    names = before.keys() | after.keys()
    none: Counter[str] = Counter()
    new = sum((after.get(name, none) - before.get(name, none)).total() for name in names)
    gone = sum((before.get(name, none) - after.get(name, none)).total() for name in names)
    return new, gone


def without_known(runner: Runner, found: Sequence[Finding]) -> list[Finding]:
    """The findings that no baseline of their files' settings holds, in the same order. Raises
    SettingsError.
    """
    covered: dict[Path, list[Finding]] = {}
    for path, group in by_file(found).items():
        settings = runner.settings(path)
        if settings.baseline:
            covered.setdefault(_located(settings.folder, settings.baseline), []).extend(group)
    text = readers(runner)
    known = {id(f) for path, group in covered.items() for f in _known(group, path, text)}
    return [finding for finding in found if id(finding) not in known]


def _located(folder: Path, name: str) -> Path:
    """A baseline named on the command line lies below the current folder, one in settings beside
    these.
    """
    here = Path(name)
    return here.absolute() if here.is_absolute() or here.exists() else folder / name


def _known(
    findings: Iterable[Finding], path: Path, text: Callable[[Path], str]
) -> Iterable[Finding]:
    """Those of the findings that the baseline at ``path`` holds."""
    held = read(path)
    for name, group in _counted(findings, text, path.absolute().parent):
        left = held.get(name, Counter())
        for finding, mark in group:
            if left[mark] > 0 and finding.code not in ALWAYS:
                left[mark] -= 1
                yield finding
