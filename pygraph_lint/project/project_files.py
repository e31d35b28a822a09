"""From the files of one project to findings: facts of each file, linked, checked, all cached."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pygraph_lint.errors import SourceError
from pygraph_lint.files import modules, parallel
from pygraph_lint.files.cache import Cache, Signature, digest, file_entry
from pygraph_lint.files.paths import is_file
from pygraph_lint.files.sources import read_bytes
from pygraph_lint.findings import Finding, unreadable
from pygraph_lint.fixes.engine.offers import Fixes, Offers
from pygraph_lint.project import file_records
from pygraph_lint.project.file_loops import LoopBodies
from pygraph_lint.project.file_records import Outcome, Record, Task, record_key
from pygraph_lint.project.relevant_files import Basis, Importers, Starts, UnreadFiles, is_part
from pygraph_lint.rules.catalogue import Rule

if TYPE_CHECKING:
    from pygraph_lint.analysis.interpreter.incremental import ReusableRuns
    from pygraph_lint.analysis.link import Project as Linked
    from pygraph_lint.analysis.program.facts import Beside, ModuleFacts
    from pygraph_lint.rules.reporter import Options

# Below this much source, in bytes, starting processes costs more than it saves.
_WORTH_PROCESSES = 400_000
_CHUNK = 150_000
# So few files of a project with so many are checked by reading only a part of it.
_FEW, _MANY = 20, 400
# The runs of functions are kept of so many edited files.
_EDITED = 4
# A file written this shortly (ns) before it was looked at may change under the same time stamp.
_RACY = 2_000_000_000

Progress = Callable[[str, int, int], None]


class Project:
    """The files of one root, and what is known of them. Paths are absolute."""

    def __init__(
        self,
        root: modules.Root,
        files: Iterable[Path],
        cache: Cache,
        rules: Mapping[str, Rule],
        jobs: int,
        progress: Progress,
        max_size: Callable[[Path], int],
    ) -> None:
        """``files`` are all of the root; ``max_size`` says from which size on one is refused. What
        ``progress`` raises, which is called between steps, ends the check; a later one works.
        """
        self._root = root
        self._cache = cache
        self._rules = dict(rules)
        self._jobs = jobs
        self._progress = progress
        self._max_size = max_size
        self._paths = {self.relative(path): path for path in files}
        self._modules = self._module_names()
        self._offers = Offers(cache, jobs)
        self._overlay: dict[str, bytes] = {}
        self._known: dict[str, modules.Known] = {}
        self._unreadable: dict[str, str] = {}
        self._records: dict[str, tuple[bytes, Record]] = {}
        self._loops = LoopBodies(cache, self._text, self._digest, self._overlay.__contains__)
        self._kept_runs: dict[str, ReusableRuns] = {}  # of the files that were edited last
        self._matter: frozenset[str] | None = None
        self._importers: Importers | None = None
        self._methods: dict[bytes, list[str]] = {}  # which files may have methods of a name
        self._said: dict[tuple[str, str], bool] = {}  # which unread files have which words
        self._bases: dict[str, Basis] = {}
        self._kept: dict[tuple[str, Options], tuple[Basis, Outcome]] = {}
        self._last: _Given | None = None  # what the last check rested on, until something changes
        self._linked: Linked | None = None  # of the last check that read all files
        self._scan()

    def relative(self, path: Path) -> str:
        """The posix path of ``path`` below the root's base."""
        return os.path.relpath(path, self._root.base).replace(os.sep, "/")

    def _module_names(self) -> dict[str, tuple[str, bool]]:
        """Each file's dotted module name, and whether it is a package's ``__init__``. Where two
        packages in different folders have one name, the later is named by its path.
        """
        packages = {
            relative.rpartition("/")[0]: True
            for relative in self._paths
            if relative.rpartition("/")[2] == "__init__.py"
        }
        names: dict[str, tuple[str, bool]] = {}
        taken: set[str] = set()
        for relative in sorted(self._paths):
            module, is_package = modules.module_name(relative, packages)
            if module in taken:
                module, is_package = modules.module_name(relative, {})
            taken.add(module)
            names[relative] = (module, is_package)
        self._places = modules.places({path: name for path, (name, _) in names.items()}), packages
        self._beside: dict[str, Beside] = {}
        return names

    # --- the index: content digests, without reading what has not changed ---

    def _scan(self) -> None:
        name, key = "index", digest(b"index")
        index: dict[str, modules.Known] = self._cache.load(name, key) or {}
        now = time.time_ns()
        changed = False
        for relative, path in self._paths.items():
            try:
                signature = Signature.of(path.stat())
            except (OSError, ValueError):
                signature = None
            known = index.get(relative)
            if known is None or known.signature != signature:
                known = self._look(relative, path, signature, now)
                changed = True
            if known is not None:
                self._known[relative] = known
        if changed or len(index) != len(self._known):
            settled = {
                relative: known
                for relative, known in self._known.items()
                if max(known.signature.modified, known.signature.changed) < now - _RACY
            }
            if settled != index:
                self._cache.store(name, key, settled)
            entries = [file_entry(relative) for relative in self._known]
            self._cache.prune_files([*entries, *(f"{entry}-loops" for entry in entries)])

    def _look(
        self, relative: str, path: Path, signature: Signature | None, now: int
    ) -> modules.Known | None:
        try:
            data = read_bytes(path, self._max_size(path))
        except SourceError as error:
            self._unreadable[relative] = str(error)
            return None
        return modules.described(data, signature or Signature(0, now, now, 0))

    def overlay(self, texts: Mapping[Path, bytes]) -> None:
        """From now on take these files' content from here, whatever the disk says."""
        for path, data in texts.items():
            relative = self.relative(path)
            before = self._text(relative) if relative in self._paths else b""
            self._overlay[relative] = data
            self._take(relative, path, modules.described(data, Signature(0, 0, 0, 0)), before)

    def restore(self, path: Path) -> None:
        """From now on take a file's content from the disk again. It may be gone."""
        relative = self.relative(path)
        before = self._overlay.pop(relative, b"")
        signature = Signature.of(path.stat()) if is_file(path) else None
        known = self._look(relative, path, signature, time.time_ns()) if signature else None
        self._take(relative, path, known, before)

    def _take(self, relative: str, path: Path, new: modules.Known | None, before: bytes) -> None:
        """Note what is now known of a file; None: it cannot be read."""
        old = self._known.pop(relative, None)
        self._last = None
        self._records.pop(relative, None)
        self._loops.forget(relative)
        self._beside.pop(relative, None)
        self._said = {asked: said for asked, said in self._said.items() if asked[0] != relative}
        if new is not None:
            self._known[relative] = new
            self._unreadable.pop(relative, None)
            if relative not in self._paths:
                self._paths[relative] = path
                self._modules = self._module_names()
        if old is None or new is None or (old.torch, old.words) != (new.torch, new.words):
            self._matter = self._importers = None
        elif self._importers is not None:
            self._importers.edited(relative, before, self._text(relative))
        if old is None or new is None or old.methods != new.methods:
            self._methods.clear()

    def offers(self, files: Mapping[Path, tuple[str, Sequence[Finding]]]) -> dict[Path, Fixes]:
        """What is offered for each file's findings, in their order; files are given with text."""
        named = {str(path): given for path, given in files.items()}
        found = self._offers.of(named)
        if not self._overlay:
            self._offers.remember(named)
        return {path: found[str(path)] for path in files}

    # --- checking ---

    def check(
        self,
        paths: Sequence[Path],
        options_of: Callable[[Path], Options],
        among: Sequence[Path] = (),
    ) -> dict[Path, Outcome]:
        """What there is to say about each of ``paths``, with as much read as for all ``among``."""
        wanted = {path: self.relative(path) for path in paths}
        by_options: dict[Options, list[Path]] = {}
        outcomes: dict[Path, Outcome] = {}
        for path, relative in wanted.items():
            if relative in self._known:
                by_options.setdefault(options_of(path), []).append(path)
            else:
                text = self._unreadable.get(relative, "cannot be read: no such file")
                outcomes[path] = Outcome((unreadable(path, text),), ())
        key = self._state()
        for options, group in by_options.items():
            name = f"findings-{digest(repr(options).encode()).hex()}"
            stored: dict[str, Outcome] = self._cache.load(name, key) or {}
            missing = [path for path in group if wanted[path] not in stored]
            stored |= self._still_known([wanted[path] for path in missing], options)
            missing = [path for path in missing if wanted[path] not in stored]
            if missing:
                stored |= self._check(missing, options, among)
                if not self._overlay:
                    self._cache.store(name, key, stored)
            for path in group:
                outcomes[path] = stored[wanted[path]].at(path)
        return outcomes

    def linked(
        self, path: Path, options: Options
    ) -> tuple[ModuleFacts, Linked, Callable[[Path], Outcome | None]] | None:
        """The facts of a file, the part of the project that its findings rest on, and what there is
        to say about another file of that part; None where a file cannot be checked.
        """
        name = self.relative(path)
        if name not in self._known:
            return None
        if self._last is None or name not in self._last[0] or self._last[3] != options:
            self._check([path], options)
        last = self._last
        if last is None or name not in last[0]:
            return None

        def outcome(other: Path) -> Outcome | None:
            relative = self.relative(other)
            if relative not in last[0] or relative not in self._records:
                return None
            _remember_check(*last)
            [(_, findings)] = _check_names([relative])
            return Outcome(findings, self._records[relative][1].directives).at(other)

        return last[0][name], last[1], outcome

    def _state(self) -> bytes:
        """Stands for the content of every file."""
        parts = []
        for relative in sorted(self._known):
            parts += [relative.encode(errors="surrogateescape"), self._known[relative].digest]
        return digest(*parts)

    def _still_known(self, names: Iterable[str], options: Options) -> dict[str, Outcome]:
        """The outcomes of an earlier check that no edit since can have changed."""
        found = {}
        for name in names:
            basis, outcome = self._kept.get((name, options), (None, None))
            if basis is not None and outcome is not None and self._holds(basis, name, options):
                found[name] = outcome
        return found

    def _holds(self, basis: Basis, name: str, options: Options) -> bool:
        matter = self._relevant()
        return (
            basis.matter is matter
            and all(self._digest(each) == held for each, held in basis.read.items())
            and basis.starts == self._starts([name], matter, options)
            and basis.unread.same_answers(self._text, self._overlay)
        )

    def _digest(self, name: str) -> bytes:
        known = self._known.get(name)
        return known.digest if known is not None else b""

    def _relevant(self) -> frozenset[str]:
        """The files whose facts can matter."""
        if self._matter is None:
            known = self._known.items()
            found = modules.relevant((name, one.torch, one.words) for name, one in known)
            self._matter = frozenset(found)
        return self._matter

    @parallel.without_collecting()
    def _check(
        self, paths: Sequence[Path], options: Options, among: Sequence[Path] = ()
    ) -> dict[str, Outcome]:
        matter = self._relevant()
        names = [self.relative(path) for path in paths]
        alone = [name for name in names if name not in matter]
        linked = [name for name in names if name in matter]
        wider = [name for name in map(self.relative, among) if name in matter]
        starts = self._starts(wider or linked, matter, options)
        self._read_records([*(matter if linked and starts is None else linked), *alone], matter)
        outcomes: dict[str, Outcome] = {}
        to_check = []
        for name in names:
            record = self._records[name][1]
            if record.problem is not None:
                finding = unreadable(self._paths[name], *record.problem)
                outcomes[name] = Outcome((finding,), record.directives)
            elif record.facts is None:
                outcomes[name] = Outcome((), record.directives)
            else:
                to_check.append(name)
        if to_check:
            found = (
                self._check_linked(to_check, options)
                if starts is None
                else self._check_part(to_check, options, starts, matter)
            )
            for name, findings in found:
                outcomes[name] = Outcome(findings, self._records[name][1].directives)
                if starts is not None and len(to_check) == 1:
                    self._kept[name, options] = (self._bases[name], outcomes[name])
        return outcomes

    def _starts(
        self, names: Sequence[str], matter: frozenset[str], options: Options
    ) -> Starts | None:
        """Where a call path to one of ``names`` may start, if these are so few files that the rest
        need not be read; None where all have to be.
        """
        if not names or len(names) > _FEW or len(matter) < _MANY or options.entry_points:
            return None
        if self._importers is None:
            words = {name: one.words for name, one in self._known.items() if name in matter}
            self._importers = Importers(words, self._text, self._told)
        found = self._importers.of(names)
        return found if is_part(found.files, matter) else None

    def _check_part(
        self, names: Sequence[str], options: Options, starts: Starts, matter: frozenset[str]
    ) -> list[tuple[str, tuple[Finding, ...]]]:
        """Check files by reading only what can change their findings."""
        from pygraph_lint.analysis.link import link

        paths = {self._modules[name][0]: name for name in matter}
        within = frozenset(self._modules[name][0] for name in starts.files)
        asked = replace(options.asked, within=within)
        read = {*starts.files, *starts.callers}
        for name in names:
            read |= matter.intersection(self._bases[name].read if name in self._bases else ())
        while True:
            self._read_records(sorted(read), matter)
            facts = self._facts(read)
            unread = {module: name for module, name in paths.items() if name not in read}
            left_out = UnreadFiles(unread, self._text, self._said, self._definers)
            self._progress("checking", 0, len(names))
            linked = link(facts.values(), asked, left_out, self._loops.of)
            self._loops.keep()
            self._progress("checking", 0, len(names))
            _remember_check(facts, linked, self._rules, options)
            found = _check_names(names)
            if not linked.missing:
                self._last = (facts, linked, self._rules, options)
                digests = {name: self._known[name].digest for name in read}
                basis = Basis(matter, starts, digests, left_out)
                self._bases.update(dict.fromkeys(names, basis))
                return found
            read |= {paths[module] for module in linked.missing}

    def _facts(self, names: Iterable[str]) -> dict[str, ModuleFacts]:
        """The facts of those of some files that were read, in order of their paths."""
        records = ((name, self._records[name][1].facts) for name in sorted(names))
        return {name: facts for name, facts in records if facts is not None}

    def _definers(self, method: str) -> Sequence[str]:
        """The files that may have a method of a name."""
        if not self._methods:
            for name in sorted(self._known):
                for word in self._known[name].methods:
                    self._methods.setdefault(word, []).append(name)
        return self._methods.get(method.encode(errors="surrogateescape"), ())

    def _told(self, name: str) -> frozenset[bytes]:
        """The methods of a file that a call may mean by their names alone."""
        from pygraph_lint.analysis.program.method_names import resolves_by_name

        def having(method: str) -> Iterator[str]:
            files = self._relevant().intersection(self._definers(method))
            return (self._modules[each][0] for each in files)

        words = {each: each.decode(errors="surrogateescape") for each in self._known[name].methods}
        return frozenset(
            each for each, word in words.items() if resolves_by_name(word, having(word))
        )

    def _text(self, name: str) -> bytes:
        """A file's bytes; none where it cannot be read any more."""
        held = self._overlay.get(name)
        if held is not None:
            return held
        try:
            return read_bytes(self._paths[name])
        except SourceError:
            return b""

    def _check_linked(
        self, names: Sequence[str], options: Options
    ) -> Iterable[tuple[str, tuple[Finding, ...]]]:
        self._progress("checking", 0, len(names))
        given = self._last  # holds until something changes
        if given is None or given[1] is not self._linked or given[3] != options:
            given = self._last = self._link_all(options)
        parts = parallel.chunks(names, lambda name: self._known[name].signature.size, 4 * _CHUNK)
        # Only a forked process has the linked project without being sent it.
        jobs = self._jobs if parallel.CAN_FORK and len(parts) > 4 else 1
        done = 0
        for part in parallel.spread(_check_names, parts, jobs, _remember_check, *given):
            done += len(part)
            self._progress("checking", done, len(names))
            yield from part

    def _link_all(self, options: Options) -> _Given:
        from pygraph_lint.analysis.link import link

        facts = self._facts(self._records)
        linked = link(facts.values(), options.asked, bodies_of=self._loops.of, before=self._linked)
        self._linked = linked
        self._loops.keep()
        return facts, linked, self._rules, options

    def _read_records(self, names: Iterable[str], matter: frozenset[str]) -> None:
        """Have a record of every file in ``names``: from memory, from the cache, or made."""
        tasks = []
        for name in names:
            (module, is_package), known = self._modules[name], self._known[name]
            if (beside := self._beside.get(name)) is None:
                beside = self._beside[name] = modules.beside(name, known.words, *self._places)
            key = record_key(known.digest, name in matter, beside)
            held = self._records.get(name)
            if held is not None and held[0] == key:
                continue
            record = None if name in self._overlay else self._cache.load(file_entry(name), key)
            if record is not None:
                self._records[name] = (key, record)
                continue
            data = self._overlay.get(name)
            size = known.signature.size if data is None else len(data)
            tasks.append(Task(name, module, is_package, name in matter, data, size, beside))
        if tasks:
            self._make_records(tasks)

    def _make_records(self, tasks: list[Task]) -> None:
        """Analyse files; those with a text in an editor here, with what is kept of their runs."""
        from pygraph_lint.rules.reporter import sinks

        edited = [task for task in tasks if task.data is not None]
        here, elsewhere = [], tasks
        if len(edited) <= _EDITED:
            here = [replace(task, kept=self._runs_of(task.relative)) for task in edited]
            elsewhere = [task for task in tasks if task.data is None]
        jobs = self._jobs if sum(task.size for task in elsewhere) > _WORTH_PROCESSES else 1
        parts = parallel.chunks(elsewhere, lambda task: task.size, _CHUNK)
        given = (file_records.remember, self._root.base, self._cache, sinks(self._rules))
        alone = parallel.spread(file_records.analyse_part, [here], 1, *given)
        others = parallel.spread(file_records.analyse_part, parts, jobs, *given)
        done = 0
        for part in chain(alone, others):
            for name, key, record in part:
                self._records[name] = (key, record)
            done += len(part)
            self._progress("reading", done, len(tasks))

    def _runs_of(self, name: str) -> ReusableRuns:
        """What is kept of the runs of an edited file's functions."""
        from pygraph_lint.analysis.interpreter.incremental import ReusableRuns

        self._kept_runs[name] = kept = self._kept_runs.pop(name, None) or ReusableRuns()
        if len(self._kept_runs) > _EDITED:
            del self._kept_runs[next(iter(self._kept_runs))]
        return kept


# --- what runs in worker processes --------------------------------------------------------------

_Given: TypeAlias = "tuple[dict[str, ModuleFacts], Linked, dict[str, Rule], Options]"
_linked: _Given


def _remember_check(
    facts: dict[str, ModuleFacts], linked: Linked, rules: dict[str, Rule], options: Options
) -> None:
    global _linked
    _linked = (facts, linked, rules, options)


def _check_names(names: Sequence[str]) -> list[tuple[str, tuple[Finding, ...]]]:
    from pygraph_lint.rules.reporter import Reporter

    facts, linked, rules, options = _linked
    reporter = Reporter(linked, rules, options)
    return [(name, tuple(reporter.findings(facts[name]))) for name in names]
