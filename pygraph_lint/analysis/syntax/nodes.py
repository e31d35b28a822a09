"""Small questions about syntax nodes."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from pygraph_lint.analysis.syntax.spans import Span

# Fields that hold no node, or one that says nothing by itself: an operator, a context.
_PLAIN = frozenset(
    (
        *("id", "attr", "arg", "name", "asname", "module", "level", "kind", "type_comment"),
        *("ctx", "op", "ops", "lineno", "conversion", "simple", "is_async", "rest", "kwd_attrs"),
        *("type_ignores", "tag"),
    )
)
_WITH_GAPS = ("keys", "kw_defaults")  # lists in which None stands for what is left out
_WITHOUT_NODES = (ast.Constant, ast.Name, ast.Global, ast.Nonlocal, ast.MatchSingleton, ast.alias)

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


def _fields() -> dict[type[ast.AST], tuple[str, ...]]:
    found: dict[type[ast.AST], tuple[str, ...]] = {}
    front: list[type[ast.AST]] = [ast.AST]
    for kind in front:
        front += kind.__subclasses__()
        named = kind._fields if not issubclass(kind, _WITHOUT_NODES) else ()
        found[kind] = tuple(name for name in named if name not in _PLAIN)
    return found


_FIELDS = _fields()
_BLOCKS = ("body", "items", "orelse", "handlers", "finalbody", "cases")
_BLOCK_FIELDS = {
    kind: tuple(name for name in fields if name in _BLOCKS) for kind, fields in _FIELDS.items()
}
_SCOPES: frozenset[type[ast.AST]] = frozenset(
    (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node in source order, without operators and contexts."""
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name)
        if value.__class__ is list:
            found += value if name not in _WITH_GAPS else filter(None, value)
        elif value is not None:
            found.append(value)
    return found


def children_but(node: ast.AST, kinds: frozenset[type[ast.AST]]) -> list[ast.AST]:
    """The same without nodes of some kinds."""
    return [each for each in children(node) if each.__class__ not in kinds]


def walk(root: ast.AST) -> list[ast.AST]:
    """A node and all below it, nearest first, without operators and contexts: what ``ast.walk``
    gives, in half of the time.
    """
    found = [root]
    for node in found:
        for name in _FIELDS[node.__class__]:  # `children`, without a call for each node
            value = getattr(node, name)
            if value.__class__ is list:
                found += value if name not in _WITH_GAPS else filter(None, value)
            elif value is not None:
                found.append(value)
    return found


class Body:
    """The statements of a function, or of a module, and the nodes in them, looked for once."""

    def __init__(self, statements: Sequence[ast.stmt]) -> None:
        self.statements = statements

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes, statement by statement, in the order of ``walk``."""
        found: list[ast.AST] = []
        for statement in self.statements:
            found += walk(statement)
        return found

    @cached_property
    def own(self) -> list[ast.AST]:
        """The nodes without functions and classes inside and what is below these."""
        if _SCOPES.isdisjoint(map(type, self.nodes)):
            return self.nodes
        found: list[ast.AST] = [each for each in self.statements if each.__class__ not in _SCOPES]
        for node in found:
            found += children_but(node, _SCOPES)
        return found

    @cached_property
    def aliases(self) -> dict[str, ast.expr]:
        """The names that are bound once, to what an attribute holds: ``flag = settings.flag``."""
        names = (each for each in self.own if isinstance(each, ast.Name))
        stores = Counter(each.id for each in names if isinstance(each.ctx, ast.Store))
        found = {
            each.targets[0].id: each.value
            for each in self.own
            if isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Name)
            and isinstance(each.value, ast.Attribute)
        }
        return {name: value for name, value in found.items() if stores[name] == 1}


def parents_below(root: ast.AST) -> dict[ast.AST, ast.AST]:
    """The parent of each node below another one, in the order of ``walk``."""
    found: dict[ast.AST, ast.AST] = {}
    front = [root]
    for node in front:
        for child in children(node):
            found[child] = node
            front.append(child)
    return found


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """All statements of a block and of the blocks in it, and what holds the latter."""
    stack: list[ast.AST] = [*body]
    while stack:
        node = stack.pop()
        yield node
        for name in _BLOCK_FIELDS[node.__class__]:
            stack += getattr(node, name)


def statements_by_depth(body: Iterable[ast.stmt]) -> list[ast.AST]:
    """The same in the order of ``walk``."""
    found: list[ast.AST] = [*body]
    for node in found:
        for name in _BLOCK_FIELDS[node.__class__]:
            found += getattr(node, name)
    return found


def span_of(node: ast.AST) -> Span:
    """The node's range, columns in UTF-8 bytes."""
    return span_to(node, node)


def span_to(start: ast.AST, end: ast.AST) -> Span:
    """From the start of one node to the end of another."""
    return Span(start.lineno, start.col_offset, end.end_lineno, end.end_col_offset)  # type: ignore[attr-defined]


def names_read(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """The names among ``nodes`` that have to have a value: ``x += 1`` and ``del x`` read ``x``."""
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target


def dotted(node: ast.AST | None) -> str | None:
    """``a.b.c`` as text when the expression is just that."""
    root, path = root_and_path(node)
    return f"{root.id}{path}" if isinstance(root, ast.Name) else None


def root_and_path(node: ast.AST | None) -> tuple[ast.AST | None, str]:
    """``a`` and the text ``.b.c`` of ``a.b.c``."""
    path = ""
    while isinstance(node, ast.Attribute):
        path = f".{node.attr}{path}"
        node = node.value
    return node, path


def last_part(node: ast.AST) -> str:
    """``c`` of ``a.b.c``; empty where the expression is anything else."""
    return (dotted(node) or "").rpartition(".")[2]


def short(name: str) -> str:
    """The last two parts of a qualified name."""
    return ".".join(name.rsplit(".", 2)[-2:]) if name.count(".") > 1 else name


def source_of(node: ast.AST, limit: int = 60) -> str:
    """The expression as short source text."""
    text = dotted(node) or ast.unparse(node)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def came_out(test: ast.expr, outcome: bool) -> str:
    """A condition that came out so, as a condition that holds: ``x is None``, which did not, is
    ``x is not None``.
    """
    test, outcome = without_not(test, outcome)
    if outcome:
        return source_of(test)
    parts = compared(test)
    if parts is not None and type(parts[1]) in _OPPOSITES:
        left, operator, right = parts
        return source_of(ast.Compare(left, [_OPPOSITES[type(operator)]()], [right]))
    return source_of(ast.UnaryOp(ast.Not(), test))


def receiver(node: ast.AST | None, methods: Container[str]) -> ast.expr | None:
    """``x`` of ``x.mul(y)``, where ``mul`` is one of some methods; None for other nodes."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.value if isinstance(called, ast.Attribute) and called.attr in methods else None


def method_name(node: ast.AST) -> str:
    """``mul`` of ``x.mul(y)``; empty for other nodes."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.attr if isinstance(called, ast.Attribute) else ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((item.value for item in call.keywords if item.arg == name), None)


def is_constant(node: ast.AST | None, value: object) -> bool:
    """Whether an expression is None, True or False, written out."""
    return isinstance(node, ast.Constant) and node.value is value


def negated(node: ast.AST | None) -> ast.expr | None:
    """``x`` of ``not x``; None for other nodes."""
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def without_not(node: ast.expr, outcome: bool) -> tuple[ast.expr, bool]:
    """What is left of a condition without ``not`` in front, and how it comes out then."""
    while (inner := negated(node)) is not None:
        node, outcome = inner, not outcome
    return node, outcome


def compared(node: ast.AST) -> tuple[ast.expr, ast.cmpop, ast.expr] | None:
    """The parts of a comparison of two; None for other nodes."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    return node.left, node.ops[0], node.comparators[0]


def is_zero(node: ast.AST) -> bool:
    """Whether an expression is the number 0, written out."""
    return isinstance(node, ast.Constant) and node.value == 0


def first_line(definition: ast.stmt | ast.expr | ast.excepthandler) -> int:
    """The line on which a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(definition, "decorator_list", [])
    return min([definition.lineno, *(each.lineno for each in decorators)])


def always_run(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run whenever a block does: not in a branch, a loop or a handler."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.With, ast.AsyncWith, ast.Try)):
            yield from always_run(statement.body)


def are_classes(names: Iterable[str]) -> bool:
    """Whether names are spelled as classes are: ``Heun`` and ``RK4``, but not ``RK4`` alone."""
    tails = [name.rpartition(".")[2] for name in names]
    return all(tail[:1].isupper() for tail in tails) and not all(map(str.isupper, tails))


def last_stores(function: ast.AST) -> dict[str, int]:
    """The line of the last store to each attribute that every call of a function ends with, where
    it has no way out before.
    """
    body: list[ast.stmt] = getattr(function, "body", [])
    found = {
        target.attr: statement.lineno
        for statement in body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Attribute)
    }
    if not found:
        return found
    first = min(
        (node.lineno for node in statements(body) if isinstance(node, ast.Return)),
        default=sys.maxsize,
    )
    return {name: line for name, line in found.items() if line < first}


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Let long chains, of calls or of nested code, be followed."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


_DEPTH = 8000
