"""One run over some paths: which files, their projects, and the findings that settings and comments
leave.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygraph_lint.errors import SourceError
from pygraph_lint.files import suppressions, walk
from pygraph_lint.files.cache import Cache
from pygraph_lint.files.modules import Root, Roots
from pygraph_lint.files.paths import is_folder
from pygraph_lint.files.selection import Selection
from pygraph_lint.files.settings import Resolver, Settings
from pygraph_lint.files.sources import Source, decode, read_bytes, source_of, with_source
from pygraph_lint.findings import Finding, Fix, unreadable
from pygraph_lint.project.file_records import Outcome
from pygraph_lint.project.project_files import Progress, Project
from pygraph_lint.rules.catalogue import Rule, own_rules

if TYPE_CHECKING:
    from pygraph_lint.analysis.link import Project as Linked
    from pygraph_lint.analysis.program.facts import ModuleFacts
    from pygraph_lint.rules.reporter import Options

# Reported whatever is selected: a file that was not checked must not look like a clean one.
ALWAYS = frozenset({"PG001", "PG002"})


class Runner:
    """Holds what a run knows; ``check`` may be called again after ``replace_content``."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        overrides: Mapping[str, Any],
        config: Path | None = None,
        cache_folder: Path | None = None,
        jobs: int = 1,
        progress: Progress = lambda what, done, total: None,
        isolated: bool = False,
    ) -> None:
        """``overrides`` are settings of the command line by field name; ``cache_folder`` None: no
        cache; ``isolated``: no settings file is read.

        Raises SettingsError where the configuration is wrong.
        """
        self.rules = rules
        self._selections: dict[int, tuple[Settings, Selection]] = {}
        self.resolver = Resolver(overrides, config, self._select, isolated)
        self._cache_folder = cache_folder
        self._jobs = jobs
        self._progress = progress
        self._roots = Roots()
        self._projects: dict[Root, Project] = {}
        self._content: dict[Path, bytes] = {}
        self._given: dict[Path, bytes] = {}
        self.missing: list[Finding] = []

    def _select(self, settings: Settings) -> None:
        self._selections[id(settings)] = (settings, Selection(settings, self.rules))

    @property
    def output_format(self) -> str:
        """The output format, which is that of the current folder's settings."""
        return self.resolver.of(Path.cwd()).output_format

    def settings(self, path: Path) -> Settings:
        """The settings that hold for the file at ``path`` (absolute)."""
        return self.resolver.of(path.parent)

    def selection(self, path: Path) -> Selection:
        """The rules that are on for the file at ``path``."""
        return self._selections[id(self.settings(path))][1]

    # --- files ---

    def collect(self, paths: Iterable[str]) -> list[Path]:
        """The files that ``paths`` mean, absolute, each once. What does not exist, and folders that
        cannot be read, are kept in ``missing``.
        """
        files: dict[Path, None] = {}
        for given in paths:
            # Not resolved: a file behind a link keeps the name it was given by.
            path = Path(os.path.abspath(given))
            if is_folder(path):
                files.update(dict.fromkeys(walk.files_below(path, self.resolver, self._unreadable)))
            elif os.path.lexists(path):
                settings = self.settings(path)
                if not (settings.force_exclude and walk.excluded(path, settings)):
                    files[path] = None
            else:
                self._miss(path, "there is no such file or folder")
        return list(files)

    def _unreadable(self, folder: Path, error: OSError) -> None:
        self._miss(folder, f"the folder cannot be read: {error.strerror or error}")

    def _miss(self, path: Path, text: str) -> None:
        self.missing.append(unreadable(path, text))

    def source(self, path: Path) -> Source:
        """The text of a file as this run sees it. Raises SourceError."""
        return decode(self.content(path))

    def content(self, path: Path) -> bytes:
        """The bytes of a file as this run sees it. Raises SourceError."""
        held = self._content.get(path)
        return held if held is not None else read_bytes(path)

    def file_bytes(self, path: Path) -> bytes:
        """The bytes of a file as this run sees it; of a notebook all of it, not its program.

        Raises SourceError.
        """
        try:
            held = self._given.get(path)
            data = path.read_bytes() if held is None else held
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror or error}") from None
        return with_source(path, data, self.content(path))

    def take(self, path: Path, data: bytes) -> list[Path]:
        """The files to check where ``data`` comes by stdin under the name ``path``: that one, or
        none where it is a damaged notebook, which is kept in ``missing``.
        """
        self._given[path] = data
        try:
            self.replace_content({path: source_of(path, data)})
        except SourceError as error:
            self._miss(path, str(error))
            return []
        return [path]

    def replace_content(self, contents: Mapping[Path, bytes]) -> None:
        """Take these files' bytes from here from now on; nothing is written."""
        self._content.update(contents)
        for root, project in self._projects.items():
            mine = {p: data for p, data in contents.items() if self._roots.of(p) == root}
            if mine:
                project.overlay(mine)

    def forget_content(self, path: Path) -> None:
        """Take a file's bytes from the disk again."""
        self._content.pop(path, None)
        for root, project in self._projects.items():
            if self._roots.of(path) == root:
                project.restore(path)

    # --- findings ---

    def check(
        self,
        files: Sequence[Path],
        also: Callable[[Finding], bool] = lambda _: False,
        among: Sequence[Path] = (),
    ) -> list[Finding]:
        """The findings of ``files`` after selection and suppression, in order; ``also`` says which
        count that no rule in use reports, but none that a file's own settings ignore. As much of
        each project is read as for all of the files that they are ``among``.
        """
        groups, wider = self._by_root(files), self._by_root(among)
        found: list[Finding] = []
        for root, group in groups.items():
            project = self._project(root, group)
            outcomes = project.check(group, self._options, wider.get(root, ()))
            for path in group:
                found += self._judge(path, outcomes[path], also)
        return sorted(found, key=lambda finding: finding.sort_key)

    def _by_root(self, files: Iterable[Path]) -> dict[Root, list[Path]]:
        groups: dict[Root, list[Path]] = {}
        for path in files:
            groups.setdefault(self._roots.of(path), []).append(path)
        return groups

    def linked(
        self, path: Path
    ) -> tuple[ModuleFacts, Linked, Callable[[Path], list[Finding]]] | None:
        """The facts of a file, the part of the project that its findings rest on, and the findings
        of another file of that part; None where the file cannot be checked.
        """
        found = self._project(self._roots.of(path), [path]).linked(path, self._options(path))
        if found is None:
            return None
        facts, linked, outcome_of = found

        def findings(other: Path) -> list[Finding]:
            outcome = outcome_of(other)
            return self._judge(other, outcome) if outcome is not None else []

        return facts, linked, findings

    def root(self, path: Path) -> Path:
        """The folder that the paths of facts are relative to."""
        return self._roots.of(path).base

    def _project(self, root: Root, given: Sequence[Path]) -> Project:
        project = self._projects.get(root)
        if project is None:
            files = dict.fromkeys(walk.files_of_root(root, self.resolver))
            files.update(dict.fromkeys(given))
            project = Project(
                root,
                files,
                Cache.of_project(self._cache_folder, root.base / root.only, own_rules(self.rules)),
                self.rules,
                self._jobs,
                self._progress,
                lambda path: self.settings(path).max_file_size,
            )
            mine = {p: data for p, data in self._content.items() if self._roots.of(p) == root}
            project.overlay(mine)
            self._projects[root] = project
        return project

    def _options(self, path: Path) -> Options:
        from pygraph_lint.rules.reporter import Options

        settings = self.settings(path)
        # Preview findings are always made, and left out here: one cached result serves both ways.
        return Options(
            target=settings.target,
            target_torch=settings.target_torch,
            preview=True,
            regions=settings.regions,
            entry_points=settings.entry_points,
            closed=settings.assume_closed,
        )

    def _judge(
        self,
        path: Path,
        outcome: Outcome,
        also: Callable[[Finding], bool] = lambda _: False,
    ) -> list[Finding]:
        """The findings that selection, per-file-ignores and comments leave."""
        selection = self.selection(path)
        ignored = selection.ignored_in(path)
        settings = self.settings(path)
        kept = [
            finding
            for finding in outcome.findings
            if finding.code in ALWAYS
            or (
                finding.code not in ignored
                and (selection.enabled(finding.code, finding.preview) or also(finding))
            )
        ]
        if any(finding.code in ALWAYS for finding in kept):
            return kept
        if settings.ignore_noqa:
            return kept
        narrowed = settings.target_torch is not None or settings.regions == "compiled"
        return suppressions.apply(
            kept,
            outcome.directives,
            lambda: self.source(path).text,
            str(path),
            # A narrowed run does not see all that a comment may be there for.
            lambda code: not (narrowed and code == "PG003") and self._wants(path, code),
        )

    def _wants(self, path: Path, code: str) -> bool:
        """Whether what a comment names, a code or a rule's name, stands for a rule that is on."""
        selection, target = self.selection(path), self.settings(path).target
        ignored = selection.ignored_in(path)
        codes = [
            full for full, rule in self.rules.items() if full.startswith(code) or rule.name == code
        ]
        return any(
            full not in ignored
            and selection.enabled(full)
            and (target is None or self.rules[full].follows(target))
            for full in codes
        ) or (not codes and selection.enabled("PG003"))

    def offer_fixes(self, findings: Sequence[Finding]) -> list[Finding]:
        """The findings, each with the fix that is offered for it, in the same order."""
        wanted: dict[Root, dict[Path, tuple[str, Sequence[Finding]]]] = {}
        for path, group in by_file(findings).items():
            if any(finding.code in ALWAYS for finding in group):
                continue
            text = self.source(path).text
            wanted.setdefault(self._roots.of(path), {})[path] = (text, group)
        offers: dict[int, Fix] = {}
        for root, files in wanted.items():
            for path, fixes in self._projects[root].offers(files).items():
                selection = self.selection(path)
                for finding, fix in zip(files[path][1], fixes, strict=True):
                    if fix is None:
                        continue
                    if fix.applicability == "unsafe" and selection.trusted(finding.code):
                        fix = replace(fix, applicability="safe", reason="")
                    offers[id(finding)] = fix
        return [
            replace(finding, fix=offers[id(finding)]) if id(finding) in offers else finding
            for finding in findings
        ]


def by_file(findings: Iterable[Finding]) -> dict[Path, list[Finding]]:
    """The findings of each file."""
    groups: dict[Path, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(Path(finding.filename), []).append(finding)
    return groups


def readers(runner: Runner) -> Callable[[Path], str]:
    """A function that gives a file's text, or nothing where it cannot be read."""

    def text(path: Path) -> str:
        try:
            return runner.source(path).text
        except SourceError:
            return ""

    return text
