"""The open folders as the worker sees them: a project each, with its own rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pygraph_lint.errors import LintError
from pygraph_lint.files import walk
from pygraph_lint.files.cache import default_folder
from pygraph_lint.files.settings import Resolver
from pygraph_lint.files.suppressions import add_noqa
from pygraph_lint.findings import Finding, Fix, Location
from pygraph_lint.project.baseline import without_known
from pygraph_lint.project.open_project import OpenProject
from pygraph_lint.report import consequences_in_words, in_words, is_error
from pygraph_lint.rules.catalogue import Rule, load_with
from pygraph_lint.server import traces
from pygraph_lint.server.differences import difference
from pygraph_lint.server.messages import Offer, Place, Row, Setup, TextEdit
from pygraph_lint.server.traces import Seen, with_trace

_HEADING = re.compile(r"^## ", re.MULTILINE)


class Folder:
    """One open folder, or what lies outside of all of them (``path`` None)."""

    def __init__(
        self,
        path: Path | None,
        setup: Setup,
        step: Callable[[], None],
        progress: Callable[[str, int, int], None],
    ) -> None:
        """Raises LintError where settings or rule pages are wrong."""
        settings = Resolver(setup.overrides).of(path or Path.cwd())
        self.path = path
        self.started = False  # whether a file was checked, so that most has been read
        self._setup = setup
        self._step = step
        self._traces: dict[Path, tuple[int, int]] = {}
        self._seen: dict[Path, Seen] = {}
        self.rules: dict[str, Rule] = load_with(settings.folder / name for name in settings.rules)
        self.project = OpenProject(
            self.rules,
            setup.overrides,
            cache_folder=default_folder() if setup.cache else None,
            step=step,
            progress=progress,
        )

    def check(self, path: Path) -> list[Finding]:
        """The findings of a file as ``check`` reports them. Raises LintError for wrong settings."""
        if self.left_out(path):
            return []
        runner = self.project.runner
        found = self.project.findings(path)
        self.started = True
        return without_known(runner, found)

    def left_out(self, path: Path) -> bool:
        """Whether ``check`` of the folder passes a file over."""
        return walk.passed_over(path, self.path, self.project.runner.settings(path))

    def rows(self, path: Path, found: Sequence[Finding]) -> tuple[Row, ...]:
        """Findings of a file as they are shown, with what a trace says."""
        rows = tuple(self.row(finding) for finding in found)
        if path in self._seen and not any(is_error(finding) for finding in found):
            return with_trace(rows, self.project.source(path).text, self._seen[path])
        return rows

    @property
    def has_new_traces(self) -> bool:
        """Whether there are other traces than those that were read."""
        return self.path is not None and traces.files_in(self.path) != self._traces

    def read_traces(self) -> None:
        """Read the traces of the folder. Raises LintError where they cannot be used."""
        if self.path is None:
            return
        found = traces.files_in(self.path)
        seen: dict[Path, Seen] = {}
        try:
            if found:
                cache = default_folder() if self._setup.cache else None
                overrides = self._setup.overrides
                seen = traces.load(self.path, list(found), self.rules, overrides, cache, self._step)
        except LintError:
            self._traces, self._seen = found, {}
            raise
        self._traces, self._seen = found, seen

    def row(self, finding: Finding) -> Row:
        """A finding as it is shown."""
        rule = self.rules.get(finding.code)
        return Row(
            code=finding.code,
            name=finding.name,
            message=finding.message,
            start=_place(finding.location),
            end=_place(finding.end_location),
            severity=_severity(finding),
            url=rule.url if rule is not None else "",
            about=tuple(_about(finding, rule)),
            fixable=finding.fix is not None or (rule is not None and rule.fix != "none"),
            unused=finding.code == "PG003",
        )

    def offers(self, path: Path, findings: Sequence[Finding]) -> tuple[Offer | None, ...]:
        """What is offered for each finding, as far as the settings let it be fixed."""
        selection = self.project.runner.selection(path)
        asked = [f for f in findings if f.fix is None and not is_error(f)]
        fixes = iter(self.project.fixes(path, asked))
        newline = self.project.source(path).newline
        offers: list[Offer | None] = []
        for finding in findings:
            fix = None if is_error(finding) else finding.fix or next(fixes)
            usable = fix is not None and selection.fixable(finding.code)
            offers.append(_offer(fix.with_newline(newline)) if usable and fix is not None else None)
        return tuple(offers)

    def fix_all(self, path: Path) -> tuple[TextEdit, ...]:
        """The edits of all safe fixes that help."""
        return difference(self.project.source(path).text, self.project.fixed(path))

    def ignore(self, path: Path, finding: Finding) -> tuple[TextEdit, ...]:
        """The edits that put a ``# noqa`` on a finding's line."""
        text = self.project.source(path).text
        return difference(text, add_noqa(text, [finding])[0])


class Folders:
    """All open folders. Projects are made when a file of theirs is first asked for."""

    def __init__(
        self,
        setup: Setup,
        step: Callable[[], None],
        progress: Callable[[str, int, int], None],
    ) -> None:
        self._setup = setup
        self._step = step
        self._progress = progress
        self._made: dict[Path | None, Folder] = {}
        self._wrong: dict[Path | None, str] = {}

    def of(self, path: Path) -> Folder:
        """The innermost open folder around a file. Raises LintError where its settings are wrong.

        What was wrong stays so until ``Setup`` comes again, which a change of a settings file
        leads to.
        """
        chosen = self.around(path)
        if chosen in self._wrong:
            raise LintError(self._wrong[chosen])
        if chosen not in self._made:
            try:
                self._made[chosen] = Folder(chosen, self._setup, self._step, self._progress)
            except LintError as error:
                self._wrong[chosen] = str(error)
                raise
        return self._made[chosen]

    def around(self, path: Path) -> Path | None:
        """The innermost open folder around a file; None outside of all."""
        around = [folder for folder in self._setup.folders if path.is_relative_to(folder)]
        return max(around, key=lambda folder: len(folder.parts), default=None)

    @property
    def made(self) -> Mapping[Path | None, Folder]:
        """The folders of which a file was asked for."""
        return self._made


def _place(location: Location) -> Place:
    return (location.row, location.column)


def _severity(finding: Finding) -> str:
    if is_error(finding):
        return "error"
    if finding.code == "PG003":
        return "hint"
    return "information" if finding.preview else "warning"


def _about(finding: Finding, rule: Rule | None) -> Iterator[str]:
    """What is known of a finding, and what its rule's page says before the examples."""
    if finding.region is not None:
        yield "Region: " + ", ".join(finding.region.call_path)
    if finding.evidence:
        yield "Because:\n" + "\n".join(f"- {said}" for said in finding.evidence)
    if finding.only_if:
        yield f"Only if: {in_words(finding.only_if)}"
    impact = consequences_in_words(finding.consequences)
    if impact:
        yield "Impact: " + "; ".join(impact)
    if rule is not None:
        yield _HEADING.sub("#### ", rule.prose.partition("## Bad")[0].strip())


def _offer(fix: Fix) -> Offer:
    edits = tuple(
        TextEdit(_place(edit.location), _place(edit.end_location), edit.content)
        for edit in fix.edits
    )
    return Offer(fix.applicability, fix.message, edits)
