"""The bad and good examples of rule pages."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from pygraph_lint.errors import CatalogueError
from pygraph_lint.rules.catalogue import CONSEQUENCES, Rule

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = r"[A-Z]{2,}\d{3}"
_MARK = re.compile(rf" *#\s*({_CODE}(?:,?\s+{_CODE})*)\s*$", re.MULTILINE)
_NOT_RUN = re.compile(r"^# not run: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """One fenced example of a page.

    ``marks`` are the codes expected on each 1-based line. ``claims`` are the page's consequences
    with what the fence's info string overrides for this example (```` ```python fullgraph=ok ````).
    ``not_run`` is the stated reason why the example cannot run on a CPU, or empty.
    """

    code: str
    good: bool
    number: int
    text: str
    marks: dict[int, tuple[str, ...]]
    claims: dict[str, str]
    not_run: str

    @property
    def name(self) -> str:
        """Unique and readable, such as ``PG201-bad-1``."""
        return f"{self.code}-{'good' if self.good else 'bad'}-{self.number}"

    @property
    def digest(self) -> str:
        """Tells whether the program is still the one that was measured; marks do not count."""
        program = _MARK.sub("", self.text)
        return hashlib.sha256(program.encode("utf-8")).hexdigest()[:12]


def sections(prose: str) -> dict[str, str]:
    """The text below each ``##`` heading of a page, by heading."""
    starts = list(_SECTION.finditer(prose))
    ends = [match.start() for match in starts[1:]] + [len(prose)]
    return {
        match[1]: prose[match.end() : end].strip() for match, end in zip(starts, ends, strict=True)
    }


def of_rule(rule: Rule) -> list[Example]:
    """Every example of a page, bad ones first."""
    found = []
    parts = sections(rule.prose)
    for heading, good in (("Bad", False), ("Good", True)):
        for number, match in enumerate(_FENCE.finditer(parts.get(heading, "")), start=1):
            found.append(_example(rule, good, number, match[1], match[2]))
    return found


def _example(rule: Rule, good: bool, number: int, info: str, text: str) -> Example:
    claims = dict(rule.consequences)
    for part in info.split():
        key, _, value = part.partition("=")
        value = value.replace("_", " ")
        if value not in CONSEQUENCES.get(key, ()):
            raise CatalogueError(f"{rule.code}: the fence says `{part}`, which is no consequence")
        claims[key] = value
    reason = _NOT_RUN.search(text)
    return Example(
        code=rule.code,
        good=good,
        number=number,
        text=text,
        marks=_marks(text),
        claims=claims,
        not_run=reason[1] if reason else "",
    )


def _marks(text: str) -> dict[int, tuple[str, ...]]:
    marks = {}
    for row, line in enumerate(text.splitlines(), start=1):
        match = _MARK.search(line)
        if match:
            marks[row] = tuple(re.findall(_CODE, match[1]))
    return marks
