"""What a rewrite says about one finding: its preconditions one by one, and the text it changes.

Each precondition has a name, so that a test can leave one out and see that something then goes
wrong.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS, Function
from pygraph_lint.findings import Edit, Finding, Fix
from pygraph_lint.fixes.engine.line_breaks import wrap
from pygraph_lint.fixes.engine.source import Source

NodeT = TypeVar("NodeT", bound=ast.AST)


class Declined(Exception):
    """A precondition does not hold; the text says which, fit for a report.

    Without a text: this rewrite is not for such code, and others may say more. ``condition`` is the
    precondition's name, where it has one.
    """

    def __init__(self, reason: str = "", condition: str = "") -> None:
        super().__init__(reason)
        self.condition = condition


class Change(NamedTuple):
    """Replace the text from offset ``start`` up to ``end`` by ``content``. A ``whole`` one rests on
    all of the old text, also on parts that stay: other fixes must not change these meanwhile.
    """

    start: int
    end: int
    content: str
    whole: bool = False


@dataclass
class Proposal:
    """A rewrite of the code around one finding, while its preconditions are looked at."""

    source: Source
    finding: Finding
    path: list[ast.AST]
    without: frozenset[str] = frozenset()
    message: str = ""
    remains: bool = False
    adds: tuple[str, ...] = ()
    doubts: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def require(self, name: str, holds: bool, reason: str) -> None:
        """Decline the rewrite with ``reason`` unless ``holds``."""
        if not holds and name not in self.without:
            raise Declined(reason, name)

    def safe_only_if(self, name: str, holds: bool, reason: str) -> None:
        """Offer the rewrite as unsafe, because of ``reason``, unless ``holds``."""
        if not holds and name not in self.without and reason not in self.doubts:
            self.doubts.append(reason)

    def replace(self, start: int, end: int, content: str, whole: bool = False) -> None:
        """Note a change of the text between two offsets."""
        self.changes.append(Change(start, end, content, whole))

    def replace_node(self, node: ast.AST, content: str) -> None:
        """Note a change of a node's text."""
        self.changes.append(Change(*self.source.span(node), content))

    def note(self, name: str) -> str | None:
        """What the analysis noted about the finding under ``name``."""
        return self.finding.event.note(name) if self.finding.event is not None else None

    @property
    def function(self) -> Function | None:
        """The innermost function around the finding."""
        return next((node for node in reversed(self.path) if isinstance(node, FUNCTIONS)), None)

    @property
    def statement(self) -> ast.stmt:
        """The innermost statement around the finding."""
        found = self.around(ast.stmt)
        if found is None:
            raise Declined("the finding is not inside a statement")
        return found

    def around(self, kind: type[NodeT]) -> NodeT | None:
        """The innermost node of a kind around the finding."""
        return next((node for node in reversed(self.path) if isinstance(node, kind)), None)

    def fix(self, rewrite: str) -> Fix:
        """The rewrite as it stands, its edits as small as they can be and its lines within the
        file's width.
        """
        changes = _wrapped(self.source, sorted(self.changes))
        edits = tuple(self._edit(change) for change in changes)
        reason = "; ".join(self.doubts)
        applicability = "unsafe" if self.doubts else "safe"
        return Fix(
            applicability,
            self.message,
            reason,
            edits,
            remains=self.remains,
            adds=self.adds,
            rewrite=rewrite,
        )

    def _edit(self, change: Change) -> Edit:
        start, end, content, _ = change if change.whole else shrink(self.source.text, change)
        return Edit(content, self.source.location(start), self.source.location(end))


def shrink(text: str, change: Change) -> Change:
    """The same change without what it leaves alone at both ends."""
    start, end, content, _ = change
    while start < end and content and text[start] == content[0]:
        start, content = start + 1, content[1:]
    while start < end and content and text[end - 1] == content[-1]:
        end, content = end - 1, content[:-1]
    return Change(start, end, content)


def _wrapped(source: Source, changes: list[Change]) -> list[Change]:
    """The changes, with a line that one of them makes too long broken at its brackets."""
    result: list[Change] = []
    by_line: dict[int, list[Change]] = {}
    for change in changes:
        row = source.location(change.start).row
        if source.location(change.end).row != row or "\n" in change.content:
            result.append(change)
        else:
            by_line.setdefault(row, []).append(change)
    for row, those in by_line.items():
        start, old = source.line_start(row), source.line(row)
        new = old
        for change in reversed(those):
            new = new[: change.start - start] + change.content + new[change.end - start :]
        lines = wrap(new, source.width, source.indent_unit) if len(old) <= source.width else [new]
        if len(lines) == 1:
            result += those
        else:
            result.append(Change(start, start + len(old), source.newline.join(lines)))
    return sorted(result)
