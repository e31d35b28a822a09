"""The place of one finding: its nodes in both trees, what is known there, and the nodes that a
rewrite puts there.

A rewrite is a class with ``codes``, ``message``, ``kinds`` of nodes and ``rewrite(site)``. It asks
``site.ask`` (the analysis), states its preconditions by name, and replaces nodes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import libcst as cst

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS, Function
from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.queries.interface import Known, Type
from pygraph_lint.analysis.syntax.nodes import first_line
from pygraph_lint.findings import Finding, Fix
from pygraph_lint.fixes.engine.build import Line, binds_loosely, changed, code, conjunction, grouped
from pygraph_lint.fixes.engine.changes import Change, edits_of
from pygraph_lint.fixes.engine.changes import Declined as Declined
from pygraph_lint.fixes.engine.line_breaks import comment_at, joined_lines, opens_twice, wrap
from pygraph_lint.fixes.engine.source import Source
from pygraph_lint.fixes.engine.trees import File

NodeT = TypeVar("NodeT", bound=ast.AST)


@dataclass
class Site:
    """One finding, as a rewrite sees it, and what the rewrite says about it: its preconditions one
    by one, and the text it changes. ``tree`` is the node that fits the rewrite, ``findings`` are
    all findings of the file.

    Each precondition has a name, so that a test can leave one out (``without``) and see that
    something then goes wrong.
    """

    file: File
    finding: Finding
    path: list[ast.AST]
    without: frozenset[str] = frozenset()
    findings: Sequence[Finding] = ()
    tree: ast.AST = field(default_factory=ast.Pass)
    message: str = ""
    remains: bool = False
    adds: tuple[str, ...] = ()
    doubts: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    @property
    def source(self) -> Source:
        """The text of the file."""
        return self.file.source

    @property
    def ask(self) -> FileQueries:
        """The analysis."""
        return self.file.queries

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
        """The rewrite as it stands."""
        return Fix(
            "unsafe" if self.doubts else "safe",
            self.message,
            "; ".join(self.doubts),
            edits_of(self.source, self.changes),
            self.remains,
            self.adds,
            rewrite,
        )

    def taken(self, name: str) -> bool:
        """Whether a name already means something at the finding, or may get a meaning there."""
        shared = any(name in each.names for each in self.ask.of_kind(ast.Global))
        return shared or not self.ask.means_nothing(name, self.path[-1])

    def free(self, name: str) -> str:
        """The name, or with a number behind it, as something that means nothing here yet."""
        names = (name, *(f"{name}_{number}" for number in range(2, 99)))
        return next(each for each in names if not self.taken(each))

    def proven_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor on every run, by more than a method's name."""
        known = self.ask.known(node)
        return known.must_be(Type.TENSOR) and not by_use(known)

    def path_of(self, finding: Finding) -> list[ast.AST]:
        """The nodes around another finding of the file, outermost first."""
        return self.source.path(
            self.source.at(finding.location), self.source.at(finding.end_location)
        )

    def expect_compiler(self) -> None:
        """Decline where a capture is made by hand, and not by the compiler."""
        region = self.finding.region
        compiled = region is None or not region.captured
        self.require("compiled", compiled, "nothing is compiling in a capture made by hand")

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands; none for the body of a handler of errors."""
        return self.ask.block(statement)

    def behind(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements behind one, in its block."""
        block = self.block(statement)
        return block[block.index(statement) + 1 :] if block else []

    # -- nodes

    @property
    def node(self) -> cst.CSTNode:
        """The libcst node of ``tree``."""
        return self.file.node(self.tree)

    def expression_node(self, tree: ast.expr) -> cst.BaseExpression:
        """The libcst node of an expression. Raises Declined for a starred one, a slice."""
        node = self.file.node(tree)
        if not isinstance(node, cst.BaseExpression):
            raise Declined("the code is a kind of syntax that is not followed")
        return node

    def statement_node(self, tree: ast.stmt) -> Line:
        """The libcst node of a whole statement: for a simple one its line, which holds no other.

        Raises Declined where a line holds several.
        """
        node = self.file.node(tree)
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return node
        if not self.source.alone(tree):
            raise Declined("the line holds more than this statement")
        for block in self._blocks(tree):
            for line in block:
                if isinstance(line, cst.SimpleStatementLine) and line.body[0] is node:
                    return line
        raise Declined("the line holds more than this statement")

    def _blocks(self, tree: ast.stmt) -> Iterator[Sequence[cst.CSTNode]]:
        """The blocks that may hold a statement."""
        yield self.file.part(tree).block.body
        parent = self.ask.parent(tree)
        assert parent is not None
        owner = self.file.node(parent)
        for part in (
            *(getattr(owner, name, None) for name in ("body", "orelse", "finalbody")),
            *getattr(owner, "handlers", ()),
        ):
            block = part.body if isinstance(part, (cst.Else, cst.Finally)) else part
            if isinstance(block, cst.IndentedBlock):
                yield block.body

    # -- changes

    def put(self, old: ast.expr, new: cst.BaseExpression, bare: bool = False) -> None:
        """Replace an expression. ``bare``: it needs no parentheses where it stands."""
        before = self.expression_node(old)
        outside = bare and len(before.lpar) == 1 and not new.lpar
        if before.lpar and not outside:
            new = new.with_changes(lpar=(), rpar=())
        elif (
            not bare
            and not new.lpar
            and binds_loosely(new)
            and _holds_tightly(self.ask.parent(old), old)
        ):
            new = grouped(new)
        indent = self.source.indent(self.ask.statement(old))
        present = self._text(old, [_line(before.with_changes(lpar=(), rpar=()))], indent)
        self.require_text(present.strip(), self.source.segment(old))
        text = self._text(old, [_line(new)], indent).strip()
        around = self.ask.parent(old)
        start, end = self.source.span(old)
        if outside and around is not None:
            start, end = self.source.with_parentheses(old, around)
        if _comments(self.source.text[start:end]) != _comments(text):
            raise Declined("comments inside the expression would be lost")
        self.replace(start, end, text)

    def put_statements(
        self, old: Sequence[ast.stmt], new: Sequence[Line], whole: bool = True
    ) -> None:
        """Replace statements that follow each other in one block, comments above the first one
        left out. ``whole``: no other fix may change a part of them meanwhile.
        """
        indent = self.source.indent(old[0])
        present = [self.statement_node(each) for each in old]
        above = present[0].leading_lines
        present[0] = present[0].with_changes(leading_lines=())
        before = self._text(old[0], present, indent)
        first = first_line(old[0])
        start = self.source.line_start(first)
        text = self.source.text[start : start + len(before)]
        self.require_text(before, text)
        lines = _with_comment_of(present[-1], new)
        if lines and lines[0].leading_lines is above:
            lines[0] = lines[0].with_changes(leading_lines=())
        texts = [self._text(old[0], [each], indent) for each in lines]
        known = set(before.split(self.source.newline))
        after = self.source.newline.join(self._wrapped(each, known) for each in texts)
        end = start + len(before)
        if not lines and self.source.text.startswith(self.source.newline, end):
            end += len(self.source.newline)
        self.replace(start, end, after, whole)

    def put_branch(
        self, old: ast.If, new: Sequence[Line], statics: Sequence[ast.expr] = ()
    ) -> None:
        """Replace an ``if``, or put statements behind ``else`` in place of an ``elif``. What is
        ``statics`` of its condition stays, around them.
        """
        node, lines = cst.ensure_type(self.file.node(old), cst.If), list(new)
        header = getattr(getattr(node.body, "header", None), "comment", None)
        if header is not None:
            above = [cst.EmptyLine(comment=header), *lines[0].leading_lines]
            lines[0] = lines[0].with_changes(leading_lines=above)
        self.expect_comments([old], lines)
        if statics:
            test = conjunction([self.expression_node(part) for part in statics])
            body = cst.IndentedBlock(lines)
            lines = [node.with_changes(test=test, body=body, leading_lines=())]
        first: ast.AST = old
        while self.source.text.startswith("elif", self.source.span(first)[0]):
            first = self.ask.parent(first) or first
        assert isinstance(first, ast.stmt)
        if first is not old:
            put = cst.Else(body=cst.IndentedBlock(lines), leading_lines=node.leading_lines)
            whole = changed(self.statement_node(first), {node: lambda _: put})
            lines = [cst.ensure_type(whole, cst.If)]
        self.put_statements([first], lines)

    def expect_comments(self, old: Sequence[ast.stmt], new: Sequence[Line]) -> None:
        """Decline where a comment inside of old statements is not in the new ones."""
        start, end = self.source.span(old[0])[0], self.source.span(old[-1])[1]
        rest = self.source.text[end:].partition(self.source.newline)[0]
        found = re.findall("#.*", self.source.text[start:end] + rest)
        kept = all(each in code(cst.Module(new)) for each in found)
        self.require("no-comments", kept, "comments inside the branch would be lost")

    def require_text(self, written: str, present: str) -> None:
        """Decline where a node's text is not what stands in the file."""
        if written != present:
            raise Declined("the layout of the code is not followed")

    def _text(self, beside: ast.AST, statements: Sequence[Line], indent: str) -> str:
        """The text of statements at an indentation, without the last line ending, as the code
        around ``beside`` is laid out.
        """
        module = self.file.part(beside).module
        body = statements
        head = ""
        if indent:
            block = cst.IndentedBlock(body=statements, indent=indent)
            body = [cst.If(test=cst.Name("x"), body=block)]
            head = f"if x:{module.default_newline}"
        whole = cst.Module(
            body=body, default_indent=module.default_indent, default_newline=module.default_newline
        )
        return whole.code.removeprefix(head).removesuffix(module.default_newline)

    def _wrapped(self, text: str, kept: set[str]) -> str:
        """The text of a statement with new lines that are too long broken at their brackets."""
        lines = text.split(self.source.newline)
        new = [line for line in lines if line not in kept]
        if any(len(line) > self.source.width or opens_twice(line) for line in new):
            lines = joined_lines(lines) or lines
        found: list[str] = []
        for line in lines:
            found += [line] if line in kept else self._broken(line)
        return self.source.newline.join(found)

    def _broken(self, line: str) -> list[str]:
        """A line, broken where it is too long; a comment stays behind its end, or goes above."""
        code, mark, comment = line.partition("  #")
        if mark and comment_at(line) != len(code) + 2:  # it is inside of a string
            return wrap(line, self.source.width, self.source.indent_unit)
        parts = wrap(code, self.source.width - 2 * bool(mark), self.source.indent_unit)
        if not mark or len(line) <= self.source.width:
            return [line] if mark else parts
        if len(parts) == 1 and _PRAGMA.match(comment) is None:
            indent = line[: len(line) - len(line.lstrip())]
            return [f"{indent}#{comment}", code]
        return [*parts[:-1], parts[-1] + mark + comment]


# Comments that mean something where they stand.
_PRAGMA = re.compile(
    r"\s*(noqa|type|pyright|pylint|ruff|fmt|pragma|nosec|pygraph)\b", re.IGNORECASE
)


def _comments(text: str) -> list[str]:
    """The comments of a text; of a string, what looks like one."""
    return re.findall("#.*", text)


def _with_comment_of(old: Line, new: Sequence[Line]) -> list[Line]:
    """New statements, the last of which has the comment behind an old one."""
    lines = list(new)
    if lines and isinstance(old, cst.SimpleStatementLine) and old.trailing_whitespace.comment:
        last = lines[-1]
        if isinstance(last, cst.SimpleStatementLine) and last.trailing_whitespace.comment is None:
            lines[-1] = last.with_changes(trailing_whitespace=old.trailing_whitespace)
    return lines


class Rewrite:
    """A rewrite. A subclass in a folder of ``fixes/rewrites`` is found there.

    ``kinds``: what is looked for around the finding; empty where the place itself is meant.
    ``order``: where several serve a rule, the smaller one is asked first. ``in_strings``: whether
    the finding may be inside of an f-string. ``trusting``: what is a tensor only decides whether
    the change pays, not what it does. ``early``: whether it is made before what only serves
    compiled code: it leaves functions out of that, or serves eager code, too.
    """

    codes: ClassVar[tuple[str, ...]]
    message: ClassVar[str]
    kinds: ClassVar[tuple[type[ast.AST], ...]] = ()
    order: ClassVar[int] = 50
    in_strings: ClassVar[bool] = False
    trusting: ClassVar[bool] = False
    early: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name of the file that it stands in."""
        return type(self).__module__.rpartition(".")[2]

    def fits(self, tree: ast.AST) -> bool:
        """Whether a node around the finding, or the place itself, is what is rewritten."""
        return isinstance(tree, self.kinds) if self.kinds else True

    def rewrite(self, site: Site) -> None:
        """Put new nodes in place of ``site.node``, or raise Declined."""
        raise NotImplementedError


def by_use(known: Known) -> bool:
    """Whether a value is taken for a tensor because of how it is used, or who passes it."""
    return "used as a tensor" in known.evidence or "passed to" in known.evidence


def propose(rewrite: Rewrite, site: Site) -> None:
    """Rewrite the innermost node around the finding that fits."""
    site.message = rewrite.message
    for tree in reversed(site.path):
        if rewrite.fits(tree):
            site.tree = tree
            rewrite.rewrite(site)
            _doubt_names(site)
            return
    raise Declined


# What sees a function's names, and the file's, from inside and from other functions.
LOOKING = frozenset(("locals", "vars", "dir", "eval", "exec"))
_LISTING = frozenset(("globals", "_getframe", "currentframe", "f_locals"))


def _doubt_names(site: Site) -> None:
    """State when names mean what the file says, and nobody looks at what they stand for."""
    imports = (each for each in site.ask.of_kind(ast.ImportFrom) if each.names[0].name == "*")
    stars = any(each.level or (each.module or "").split(".")[0] != "torch" for each in imports)
    site.safe_only_if("stars", not stars, "an import of everything may give names other meanings")
    own = ast.walk(site.function) if site.function is not None else site.ask.nodes
    words = (getattr(each, "id", getattr(each, "attr", "")) for each in own)
    looked = any(word in LOOKING for word in words)
    looked |= any(each.id in _LISTING for each in site.ask.of_kind(ast.Name))
    looked |= any(each.attr in _LISTING for each in site.ask.of_kind(ast.Attribute))
    site.safe_only_if("looked-at", not looked, "`locals()`, `eval()` or the like sees the change")
    bound = any(isinstance(each, ast.NamedExpr) for each in ast.walk(site.statement))
    site.safe_only_if("bound-within", not bound, "the statement binds a name in its middle")


def _holds_tightly(parent: ast.AST | None, child: ast.expr) -> bool:
    """Whether an expression stands beside an operator, a dot or a bracket."""
    if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Attribute)):
        return True
    if isinstance(parent, (ast.Await, ast.Starred, ast.IfExp)):
        return True
    if isinstance(parent, ast.Call):
        return parent.func is child
    return isinstance(parent, ast.Subscript) and parent.value is child


def _line(node: cst.BaseExpression) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine(body=[cst.Expr(value=node)])
