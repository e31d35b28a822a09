"""Comments that silence findings: found by tokenizing, applied to findings, and reported when they
silence nothing.

On a line: ``# noqa``, ``# noqa: PG201``, ``# pygraph: ignore``, ``# pygraph: ignore[PG201]``. For a
file, on a line of its own: ``# pygraph: ignore-file``, ``# pygraph: ignore-file[PG201]``, ``#
pygraph: noqa``, ``# ruff: noqa: PG201``, ``# flake8: noqa: PG201``. A prefix such as ``PG2`` stands
for all its codes; in brackets a rule's name may stand, too: ``# pygraph: ignore[item]``.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pygraph_lint.files.sources import split_lines
from pygraph_lint.findings import Edit, Finding, Fix, Location

_CODES = r"[A-Za-z]+[0-9]*(?:[ \t]*,[ \t]*[A-Za-z]+[0-9]*|[ \t]+[A-Z]+[0-9]+)*"
_NOQA = re.compile(
    rf"#\s*(?:(?P<tool>ruff|flake8|pygraph):\s*)?noqa(?:\s*:\s*(?P<codes>{_CODES}))?", re.IGNORECASE
)
_NAMES = r"[A-Za-z][\w-]*(?:[ \t]*,[ \t]*[A-Za-z][\w-]*)*"
_IGNORE = re.compile(rf"#\s*pygraph:\s*ignore(?P<file>-file)?(?:\[\s*(?P<codes>{_NAMES})?\s*\])?")
_OURS = re.compile(r"PG\d{0,3}\Z")
# Cheap look before the costly tokenizing: comments that can concern this tool.
_WORTH = re.compile(
    r"#[^\r\n]*(?:pygraph:|noqa[^\r\n]*PG\d|noqa(?!\s*:\s*[A-Z]+\d))", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Directive:
    """One silencing comment.

    ``row``, ``column`` and ``end_column`` say where its text stands (1-based, in characters, end
    exclusive), ``listed`` from where to where its codes do. ``first`` and ``last`` are the rows of
    the logical line it belongs to. ``codes`` is empty where everything is silenced. ``own`` is
    False for a ``# noqa`` that other tools may need: a bare one, or one with none of our codes.
    """

    row: int
    column: int
    end_column: int
    first: int
    last: int
    codes: tuple[str, ...]
    listed: tuple[int, int]
    whole_file: bool
    own: bool
    alone: bool
    ours: bool  # written for this tool alone, so that its selectors may be rules' names

    def silences(self, finding: Finding) -> bool:
        """Whether the finding lies where the comment speaks; its code is not looked at."""
        if self.whole_file:
            return True
        row = finding.location.row
        if row == self.row:
            return True
        if not self.first <= row <= self.last:
            return False
        return self.row == self.last or row < self.row <= finding.end_location.row


def parse(text: str, every: bool = False) -> tuple[Directive, ...]:
    """Every directive in ``text``, in order; as far as it can be tokenized.

    Unless ``every`` is set, a text whose comments concern other tools only is not tokenized and has
    none.
    """
    if not every and not _may_concern(text):
        return ()
    comments, logical, _ = _scanned(text)
    found = []
    for row, column, comment, alone in comments:
        if not _is_named(comment):
            continue
        rows = next(((a, b) for a, b in logical if a <= row <= b), (row, row))
        for pattern in (_IGNORE, _NOQA):
            for match in pattern.finditer(comment):
                directive = _read(match, row, column, rows, alone)
                if directive is not None:
                    found.append(directive)
    return tuple(found)


def _may_concern(text: str) -> bool:
    """Whether a text may have comments that concern this tool."""
    return _is_named(text) and _WORTH.search(text) is not None


def _is_named(text: str) -> bool:
    """Whether a text has what every directive begins with."""
    plain = text.lower()
    return "noqa" in plain or "pygraph:" in plain


_LAYOUT = {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}


def _scanned(
    text: str,
) -> tuple[list[tuple[int, int, str, bool]], list[tuple[int, int]], set[int]]:
    """The comments of a text, each with its place and whether it stands alone, the first and last
    rows of logical lines, and the rows whose end can carry a comment.
    """
    comments: list[tuple[int, int, str, bool]] = []
    logical: list[tuple[int, int]] = []
    free: set[int] = set()
    start = 0
    for token in _tokens(text):
        row, column = token.start
        if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT):
            free.add(row)
        if token.type == tokenize.COMMENT:
            alone = not start and not token.line[:column].strip()
            comments.append((row, column, token.string, alone))
        elif token.type == tokenize.NEWLINE:
            logical.append((start, row))
            start = 0
        elif token.type not in _LAYOUT and not start:
            start = row
    return comments, logical, free


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens of ``text``, up to the first that cannot be made out."""
    try:
        yield from tokenize.generate_tokens(io.StringIO(text, newline="").readline)
    except (tokenize.TokenError, SyntaxError):
        return


def _read(
    match: re.Match[str], row: int, column: int, rows: tuple[int, int], alone: bool
) -> Directive | None:
    said = match["codes"]
    codes = tuple(re.split(r"[,\s]+", said)) if said else ()
    if match.re is _IGNORE:
        whole_file, own, ours = bool(match["file"]), True, True
    else:
        tool = (match["tool"] or "").lower()
        if tool in ("ruff", "flake8") and not codes:  # those tools' own business
            return None
        whole_file = bool(tool)
        ours = tool == "pygraph"
        own = ours or any(_OURS.match(code) for code in codes)
    return Directive(
        row=row,
        column=column + match.start() + 1,
        end_column=column + match.end() + 1,
        first=rows[0],
        last=rows[1],
        codes=codes,
        listed=(column + match.start("codes") + 1, column + match.end("codes") + 1),
        whole_file=whole_file,
        own=own,
        alone=alone,
        ours=ours,
    )


def _covers(selector: str, finding: Finding) -> bool:
    """Whether a code, the start of codes, or a rule's name means the finding."""
    if selector in (finding.code, finding.name):
        return True
    return bool(_OURS.match(selector)) and finding.code.startswith(selector)


def apply(
    findings: Iterable[Finding],
    directives: Sequence[Directive],
    text: Callable[[], str],
    filename: str,
    enabled: Callable[[str], bool],
) -> list[Finding]:
    """The findings that no directive silences, and a PG003 finding for each directive that silences
    nothing.

    ``text`` gives the file's text, asked for only to offer the removal of an unused directive.
    ``enabled`` says whether a code is looked for in this run: silencing one that is not looked for
    is not held against a comment.
    """
    if not directives:
        return list(findings)
    used: set[tuple[int, str]] = set()
    kept = []
    for finding in findings:
        silenced = False
        for number, directive in enumerate(directives):
            if not directive.silences(finding):
                continue
            if not directive.codes:
                used.add((number, ""))
                silenced = True
            for code in directive.codes:
                if _covers(code, finding):
                    used.add((number, code))
                    silenced = True
        if not silenced:
            kept.append(finding)
    if enabled("PG003"):
        for number, directive in enumerate(directives):
            unused = _unused(number, directive, used, enabled)
            if unused is not None:
                kept.append(_report(directive, unused, text(), filename))
    return kept


def _unused(
    number: int, directive: Directive, used: set[tuple[int, str]], enabled: Callable[[str], bool]
) -> tuple[str, ...] | None:
    """The directive's codes that silence nothing (empty: all of it); None if there is nothing to
    say.
    """
    if not directive.own:
        return None
    if not directive.codes:
        return None if (number, "") in used else ()
    idle = tuple(
        code
        for code in directive.codes
        if (number, code) not in used and (_OURS.match(code) or directive.ours) and enabled(code)
    )
    return idle or None


def _report(directive: Directive, codes: tuple[str, ...], text: str, filename: str) -> Finding:
    if codes:
        said = f"{', '.join(codes)} in this comment"
    else:
        said = "this comment"
    verb = "silence" if len(codes) > 1 else "silences"
    message = f"{said} {verb} nothing"
    if directive.alone and not directive.whole_file:
        message += "; it stands on a line of its own, put it at the end of the line it is for"
    return Finding(
        code="PG003",
        name="unused-suppression",
        message=message,
        filename=filename,
        location=Location(directive.row, directive.column),
        end_location=Location(directive.row, directive.end_column),
        fix=removal(directive, codes, text),
    )


def removal(directive: Directive, codes: tuple[str, ...], text: str) -> Fix:
    """The fix that takes ``codes`` (empty: everything) out of a directive."""
    remaining = [code for code in directive.codes if code not in codes] if codes else []
    if remaining:
        begin, end = directive.listed
        content = ", ".join(remaining)
        message = f"remove {', '.join(codes)} from the comment"
    else:
        line = split_lines(text)[directive.row - 1]
        begin, end = directive.column, directive.end_column
        content = line[end - 1 :].strip()
        if content and not content.startswith("#"):
            content = f"# {content}"
        end = len(line) + 1
        if not content:
            begin = len(line[: begin - 1].rstrip()) + 1
        message = "remove the comment"
    edit = Edit(content, Location(directive.row, begin), Location(directive.row, end))
    return Fix("safe", message, edits=(edit,))


# --- adding -------------------------------------------------------------------------------------


def add_noqa(text: str, findings: Iterable[Finding]) -> tuple[str, int]:
    """``text`` with a ``# noqa`` for each finding, and how many findings got one."""
    wanted: dict[int, set[str]] = {}
    ends = _ends_of_logical_lines(text)
    count = 0
    for finding in findings:
        row = ends.get(finding.location.row)
        if row is not None:
            wanted.setdefault(row, set()).add(finding.code)
            count += 1
    lists = {d.row: d for d in parse(text, every=True) if d.codes and not d.whole_file}
    pieces = re.split(r"(\r\n|\n|\r)", text)
    for row, codes in wanted.items():
        line = pieces[2 * (row - 1)]
        directive = lists.get(row)
        if directive is None:
            line = f"{line.rstrip()}  # noqa: {', '.join(sorted(codes))}"
        else:
            end = directive.listed[1] - 1
            added = "".join(f", {code}" for code in sorted(codes - set(directive.codes)))
            line = line[:end] + added + line[end:]
        pieces[2 * (row - 1)] = line
    return "".join(pieces), count


def _ends_of_logical_lines(text: str) -> dict[int, int]:
    """For each row of code, the row whose end can carry a comment for it: its own, or its logical
    line's last.
    """
    _, logical, free = _scanned(text)
    rows = ((row, last) for first, last in logical for row in range(first, last + 1))
    return {row: row if row in free else last for row, last in rows}
