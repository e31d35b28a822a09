"""Fix files: rewrites are tried, looked at again, and only what helped is kept and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pygraph_lint.errors import SourceError
from pygraph_lint.files import parallel
from pygraph_lint.files.sources import Source, decode, split_lines, write_atomically
from pygraph_lint.findings import Finding, Fix, unreadable
from pygraph_lint.fixes.engine.file_fixes import EARLY, apply
from pygraph_lint.fixes.engine.ruff_format import formatted
from pygraph_lint.project.baseline import without_known
from pygraph_lint.project.runner import ALWAYS, Runner, by_file

# How often fixes are tried; six times are usual, more come from halving where they do not help.
TRIES = 256
# The rule of calls of what is left out of compiled code. A fix that leaves a function out ends the
# graph where other files call it, which its own file does not show.
DISABLED_CALL = "PG523"
# A fix that did not help, by what it was about: file, rule, rewrite and the line's text.
Refused = set[tuple[Path, str, str, str]]


@dataclass
class Fixed:
    """What became of the files: bytes before and after of each changed one, fixes made, findings
    left, the files that each pass tried to fix, and how many files each try of a pass took.
    """

    findings: list[Finding]
    before: dict[Path, bytes] = field(default_factory=dict)
    after: dict[Path, bytes] = field(default_factory=dict)
    applied: list[tuple[Finding, Fix]] = field(default_factory=list)
    passes: list[list[Path]] = field(default_factory=list)
    tries: list[list[int]] = field(default_factory=list)


def fix_files(runner: Runner, files: Sequence[Path], unsafe: bool | None) -> Fixed:
    """Fix ``files`` in memory, pass after pass until nothing is left to do. Nothing is written.

    ``unsafe`` says whether unsafe rewrites are wanted too; None: as each file's settings say. A
    pass looks at all files, since what one file says may matter in another, and tries fixes in some
    of them: those that fit together, then in the files that changed what these made possible, until
    nothing is left to do there. Where the rewrites of a file do not all help, half as many are
    tried the next time, down to single ones: a single one that does not help is not tried again.
    What only serves compiled code waits until no function is left out of that any more. The calls
    of what a fix left out are looked at, too, and of these only what the settings ask for is among
    the findings left.
    """
    # The collector would look at the facts of all files in every pass, and find nothing to free.
    with parallel.without_collecting():
        return _fix_files(runner, files, unsafe)


def _fix_files(runner: Runner, files: Sequence[Path], unsafe: bool | None) -> Fixed:
    looked = _Looked(runner, files)
    fixed = Fixed(looked.first())
    attempts = _Attempts(runner, unsafe)
    for attempts.early in (True, False):
        while plan := attempts.planned(fixed.findings):
            _pass(looked, fixed, plan, attempts)
    laid_out = {path: new for path in fixed.after if (new := _laid_out(runner, fixed, path))}
    if laid_out:
        fixed.after |= laid_out
        runner.replace_content(laid_out)
        fixed.findings = runner.check(files)
    fixed.findings = looked.reported(fixed.findings)
    return fixed


@dataclass
class _Looked:
    """What is found in files, with the calls of what was not left out at the beginning."""

    runner: Runner
    files: Sequence[Path]
    given: frozenset[str] = frozenset()

    def first(self) -> list[Finding]:
        """The findings that the settings ask for; what is left out already is kept in mind."""
        found = self.runner.check(self.files, lambda each: each.code == DISABLED_CALL)
        self.given = frozenset(map(_subject_of, found))
        return self.reported(found)

    def reported(self, found: Iterable[Finding]) -> list[Finding]:
        """Those of the findings that the settings ask for."""
        return [each for each in found if each.code != DISABLED_CALL or self._enabled(each)]

    def _enabled(self, finding: Finding) -> bool:
        selection = self.runner.selection(Path(finding.filename))
        return selection.enabled(finding.code, finding.preview)

    def again(self, files: Sequence[Path] | None = None) -> list[Finding]:
        """The findings that the settings ask for, and calls of what a fix left out: of some files,
        or of all.
        """
        if files is None:
            return self.runner.check(self.files, self._is_new)
        return self.runner.check(files, self._is_new, among=self.files)

    def _is_new(self, finding: Finding) -> bool:
        return finding.code == DISABLED_CALL and _subject_of(finding) not in self.given


def _subject_of(finding: Finding) -> str:
    """What a call of something left out calls; empty for other findings."""
    event = finding.event if finding.code == DISABLED_CALL else None
    return event.subject if event is not None else ""


@dataclass
class _Attempts:
    """How many fixes of a file are tried at once, those that did not help, and how often something
    may still be tried. ``early``: what only serves compiled code waits.
    """

    runner: Runner
    unsafe: bool | None
    refused: Refused = field(default_factory=set)
    at_once: dict[Path, int] = field(default_factory=dict)
    early: bool = True
    left: int = TRIES

    def planned(self, findings: Sequence[Finding]) -> dict[Path, Made]:
        """The fixes to try next, by file: as many of each as are tried at once."""
        self.left -= 1
        plan = _plan(self, findings) if self.left >= 0 else {}
        return {path: made[: self.at_once.get(path, len(made))] for path, made in plan.items()}

    def helped(self, path: Path) -> None:
        if path in self.at_once:
            self.at_once[path] *= 2

    def failed(self, path: Path, old: bytes, tried: Made) -> None:
        """Try half as many the next time; a single one never again."""
        self.at_once[path] = max(len(tried) // 2, 1)
        if len(tried) == 1:
            self.refused.add(_subject(path, split_lines(decode(old).text), *tried[0]))


def _pass(looked: _Looked, fixed: Fixed, plan: dict[Path, Made], attempts: _Attempts) -> None:
    """Try fixes in some files, and again in these until nothing is left to do; then look at all."""
    fixed.passes.append(list(plan))
    fixed.tries.append([])
    before = fixed.findings
    while plan:
        fixed.tries[-1].append(len(plan))
        before = _try(looked, fixed, plan, before, attempts)
        plan = attempts.planned(before)
    fixed.findings = looked.again()


def _try(
    looked: _Looked,
    fixed: Fixed,
    plan: dict[Path, Made],
    before: Sequence[Finding],
    attempts: _Attempts,
) -> list[Finding]:
    """Make the planned fixes, look at their files again, and take back what did not help. The
    findings of these files, given those of ``before``.
    """
    runner = looked.runner
    tried = {path: _rewritten(runner.source(path), wanted) for path, wanted in plan.items()}
    old = {path: runner.content(path) for path in plan}
    runner.replace_content({path: data for path, (data, made) in tried.items() if made})
    found = looked.again(list(plan))
    undone: list[Path] = []
    for path, (data, made) in tried.items():
        if made and _helped(path, before, found, made):
            attempts.helped(path)
            fixed.before.setdefault(path, old[path])
            fixed.after[path] = data
            fixed.applied += made
        else:
            attempts.failed(path, old[path], plan[path])
            undone.append(path)
    if undone:
        runner.replace_content({path: old[path] for path in undone})
        found = looked.again(list(plan))
    return found


def _laid_out(runner: Runner, fixed: Fixed, path: Path) -> bytes | None:
    """A fixed file with its changed lines formatted as its project asks; None where as it is."""
    source = runner.source(path)
    text = formatted(path, decode(fixed.before[path]).text, source.text)
    return source.encode(text) if text != source.text else None


Made = list[tuple[Finding, Fix]]


def _plan(attempts: _Attempts, findings: Sequence[Finding]) -> dict[Path, Made]:
    """The fixes to try next, by file: none for what a baseline holds."""
    plan: dict[Path, Made] = {}
    runner, unsafe, refused = attempts.runner, attempts.unsafe, attempts.refused
    for path, group in by_file(runner.offer_fixes(without_known(runner, findings))).items():
        selection = runner.selection(path)
        allowed = {"safe"}
        if runner.settings(path).unsafe_fixes if unsafe is None else unsafe:
            allowed.add("unsafe")
        lines = split_lines(runner.source(path).text) if refused else []
        wanted: Made = []
        for finding in group:
            fix = finding.fix if selection.fixable(finding.code) else None
            if fix is None or fix.applicability not in allowed:
                continue
            if attempts.early and fix.rewrite not in EARLY:
                continue
            if not refused or _subject(path, lines, finding, fix) not in refused:
                wanted.append((finding, fix))
        if wanted:
            plan[path] = wanted
    return plan


def _subject(
    path: Path, lines: list[str], finding: Finding, fix: Fix
) -> tuple[Path, str, str, str]:
    return (path, finding.code, fix.message, lines[finding.location.row - 1].strip())


def _rewritten(source: Source, wanted: Made) -> tuple[bytes, Made]:
    """The file's bytes with the fixes that fit together, and which these are."""
    fixes = {id(fix): fix for fix in (fix.with_newline(source.newline) for _, fix in wanted)}
    findings = dict(zip(fixes, (finding for finding, _ in wanted), strict=True))
    text, applied = apply(source.text, list(fixes.values()))
    try:
        data = source.encode(text)
    except SourceError:
        return b"", []
    return data, [(findings[id(fix)], fix) for fix in applied]


def _helped(path: Path, before: Iterable[Finding], after: Iterable[Finding], made: Made) -> bool:
    """Whether the file still parses and has, for each fix made that promises so, a finding less of
    its rule, and for the others no more than they say.
    """
    name = str(path)
    now = Counter(finding.code for finding in after if finding.filename == name)
    if any(now[code] for code in ALWAYS):
        return False
    then = Counter(finding.code for finding in before if finding.filename == name)
    wanted = dict.fromkeys((finding.code for finding, _ in made), 0)
    for finding, fix in made:
        wanted[finding.code] += not fix.remains
        for code in wanted.keys() & set(fix.adds):
            wanted[code] -= fix.adds.count(code)
    wanted.pop(DISABLED_CALL, None)  # what calls the function now calls what is left out
    return all(now[code] <= then[code] - count for code, count in wanted.items())


def write(fixed: Fixed) -> list[Finding]:
    """Write every changed file. What could not be written is reported, the file being as it was."""
    problems = []
    for path, data in fixed.after.items():
        problem = _write_one(path, data, fixed.before[path])
        if problem is not None:
            problems.append(problem)
    return problems


def _write_one(path: Path, data: bytes, before: bytes) -> Finding | None:
    try:
        write_atomically(path, data, before)
    except SourceError as error:
        return unreadable(path, str(error))
    return None
