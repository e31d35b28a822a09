"""The whole numbers that a class keeps in buffers, and what the file does with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pygraph_lint.fixes.names import FileNames, all_nodes, own_nodes, parents
from pygraph_lint.fixes.number_kinds import NUMBERS, OTHER, WHOLE, Kinds, View, joined
from pygraph_lint.fixes.number_uses import Uses
from pygraph_lint.fixes.source import FUNCTIONS, Source

_SETTERS = frozenset(("copy_", "constant_", "fill_"))


class Scope(NamedTuple):
    """A function, and what its expressions are before and after."""

    function: ast.FunctionDef
    before: Kinds
    after: Kinds

    def converted(self) -> set[ast.AST]:
        """Its expressions that are numbers after the rewrite, and were not certainly before."""
        return {
            node
            for node in own_nodes(self.function)
            if isinstance(node, ast.expr)
            and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
            and self.before.of(node) not in NUMBERS
            and self.after.of(node) in NUMBERS
        }


def registrations(constructor: ast.FunctionDef) -> Iterator[ast.Call]:
    """The statements ``self.register_buffer("name", value)`` of a constructor."""
    for statement in constructor.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or len(call.args) < 2:
            continue
        if ast.unparse(call.func) != "self.register_buffer":
            continue
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
            yield call


class HeldNumbers:
    """The numbers that a class keeps as tensors, and everything in the file that reads them.

    ``buffers`` maps names to the calls that register them, ``setters`` are the statements that
    fill them anew, with target and value, ``wraps`` the calls of torch.tensor around numbers.
    ``scopes`` are the functions concerned, ``converted`` the expressions of each that become
    numbers, ``returned`` what the methods return, before and after.
    """

    def __init__(
        self,
        source: Source,
        file_names: FileNames,
        owner: ast.ClassDef,
        constructor: ast.FunctionDef,
    ) -> None:
        self._file_names = file_names
        self.owner = owner
        self._tree = source.tree
        self.above = parents(self._tree)
        self.wraps: set[ast.Call] = set()
        self.buffers: dict[str, ast.Call] = {}
        self._names: set[str] = set()  # of the buffers, and of attributes computed from them
        self.returned: list[dict[str, str | None]] = [{}, {}]
        self.constructor = constructor
        for call in registrations(constructor):
            self._add(call)
        if self.buffers:
            self._names = set(self.buffers)
            self.setters = list(self._find_setters())
            self._settle()
            self._uses = Uses(self._tree, self.above)
            self.converted = {scope.function: scope.converted() for scope in self.scopes}
            self._misused = sorted(self._find_misused(), key=source.span)

    # -- what is kept

    def _add(self, call: ast.Call) -> None:
        """Take a buffer in, if its value is a number once torch.tensor is left out."""
        wraps = self.wraps | set(self._wraps_behind(self.constructor, call.args[1]))
        scope = self._scope(self.constructor, wraps)
        value = call.args[1]
        if scope.before.of(value) not in NUMBERS and scope.after.of(value) == WHOLE:
            self.wraps = wraps
            self.buffers[str(call.args[0].value)] = call  # type: ignore[attr-defined]

    def _wraps_behind(self, function: ast.FunctionDef, value: ast.expr) -> Iterator[ast.Call]:
        """The calls of torch.tensor that a value is made of."""
        calls = {node for node in own_nodes(function) if isinstance(node, ast.Call)}
        plain = self._scope(function, set()).after
        kinds = self._scope(function, {call for call in calls if plain.wraps(call)}).after
        pending, seen = [value], set[str]()
        while pending:
            node = pending.pop()
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and kinds.wraps(inner):
                    sure = kinds.of(inner.args[0]) == WHOLE or bool(inner.keywords)
                    if sure and not isinstance(inner.args[0], (ast.List, ast.Tuple)):
                        yield inner
                if isinstance(inner, ast.Name) and inner.id not in seen:
                    seen.add(inner.id)
                    pending += [
                        assign.value
                        for assign in own_nodes(function)
                        if isinstance(assign, ast.Assign)
                        and any(getattr(it, "id", "") == inner.id for it in assign.targets)
                    ]

    def _find_setters(self) -> Iterator[tuple[ast.Expr, ast.expr, ast.expr]]:
        """Statements like ``init.copy_(module.stride, value)``: they become assignments."""
        for node in all_nodes(self._tree):
            call = node.value if isinstance(node, ast.Expr) else None
            if not isinstance(node, ast.Expr) or not isinstance(call, ast.Call) or call.keywords:
                continue
            function = call.func
            if not isinstance(function, ast.Attribute) or function.attr not in _SETTERS:
                continue
            target, *values = [function.value, *call.args][_of_module(self._tree, function.value) :]
            if len(values) == 1 and isinstance(target, ast.Attribute) and self._held(target):
                value = values[0]
                inside = self.function(node)
                if inside is not None:
                    self.wraps |= set(self._wraps_behind(inside, value))
                    yield node, target, value

    def _held(self, node: ast.Attribute) -> bool:
        """Whether an attribute may be one of those kept: a 0-d tensor is neither indexed nor
        called.
        """
        parent = self.above.get(node)
        if node.attr not in self._names or (
            isinstance(parent, (ast.Subscript, ast.Call))
            and node in (getattr(parent, "value", None), getattr(parent, "func", None))
        ):
            return False
        if not isinstance(node.value, ast.Name) or node.value.id != "self":
            return True
        owner: ast.AST | None = node
        while owner is not None and not isinstance(owner, ast.ClassDef):
            owner = self.above.get(owner)
        return owner is self.owner or (owner is not None and self._inherits(owner))

    def _inherits(self, owner: ast.ClassDef) -> bool:
        """Whether a class is derived from the one that keeps the numbers."""
        classes = [node for node in self._tree.body if isinstance(node, ast.ClassDef)]
        pending, seen = [owner], set[str]()
        while pending:
            bases = {getattr(base, "id", "") for base in pending.pop().bases} - seen
            if self.owner.name in bases:
                return True
            seen |= bases
            pending += [node for node in classes if node.name in bases]
        return False

    def function(self, node: ast.AST) -> ast.FunctionDef | None:
        """The function around a node, if it is no lambda."""
        while node in self.above:
            node = self.above[node]
            if isinstance(node, FUNCTIONS):
                return node if isinstance(node, ast.FunctionDef) else None
        return None

    def _scope(self, function: ast.FunctionDef, wraps: set[ast.Call]) -> Scope:
        path: list[ast.AST] = [function]
        while path[0] in self.above:
            path.insert(0, self.above[path[0]])
        names = self._file_names
        views = (
            View(names, after, self._held, wraps, self.returned[after]) for after in (False, True)
        )
        return Scope(function, *(Kinds(view, path) for view in views))

    def _settle(self) -> None:
        """Follow the numbers through attributes that are computed from them, and through what the
        methods return, until nothing new is found.
        """
        methods = {item for item in self.owner.body if isinstance(item, ast.FunctionDef)}
        for _ in range(len(methods) + 2):
            known = set(self._names), self.returned
            inside = (self.function(read) for read in self._reads())
            functions = methods.union(function for function in inside if function is not None)
            self.scopes = [self._scope(function, self.wraps) for function in functions]
            own = [scope for scope in self.scopes if scope.function in methods]
            self.returned = [
                {scope.function.name: _returns(scope.function, scope.before) for scope in own},
                {scope.function.name: _returns(scope.function, scope.after) for scope in own},
            ]
            self._names |= {name for scope in own for name in _computed(scope)}
            if known == (self._names, self.returned):
                break

    def _reads(self) -> list[ast.Attribute]:
        return [
            node
            for node in all_nodes(self._tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and self._held(node)
        ]

    # -- what is asked of it

    def concerns(self, node: ast.AST, function: ast.AST | None) -> bool:
        """Whether one of the numbers is used at a place, or goes to the function around it."""
        inside = set(ast.walk(node))
        used = any(inside & converted for converted in self.converted.values())
        return used or function in self._uses.called

    def all_whole(self) -> bool:
        """Whether every number that was put in a tensor is whole."""
        found = [
            scope.after.of(node.args[0])
            for scope in self.scopes
            for node in own_nodes(scope.function)
            if node in self.wraps and isinstance(node, ast.Call)
        ]
        return all(kind == WHOLE for kind in found)

    def set_elsewhere(self) -> bool:
        """Whether an attribute is given another value than those that become numbers."""
        numbers = {
            node.targets[0]
            for scope in self.scopes
            for node in own_nodes(scope.function)
            if isinstance(node, ast.Assign) and scope.after.of(node.value) in NUMBERS
        }
        return any(
            isinstance(node, ast.Attribute)
            and not isinstance(node.ctx, ast.Load)
            and self._held(node)
            and (node not in numbers or node.attr in self.buffers)
            for node in all_nodes(self._tree)
        )

    def by_name(self) -> bool:
        """Whether the file has an attribute's name as a string: ``getattr(conv, "stride")``."""
        known = {call.args[0] for call in self.buffers.values()}
        return any(
            isinstance(node, ast.Constant) and node.value in self._names and node not in known
            for node in all_nodes(self._tree)
        )

    def misused(self) -> str | None:
        """The first expression, as it is written, whose place is not certainly one for numbers."""
        first = self._misused[0] if self._misused else None
        if isinstance(first, ast.FunctionDef):
            return f"the result of {first.name}"
        return ast.unparse(first) if first is not None else None

    def _find_misused(self) -> Iterator[ast.AST]:
        """Expressions that become numbers where a tensor may be wanted."""
        setting = {node for statement, *_ in self.setters for node in ast.walk(statement)}
        registering = {call.args[1] for call in self.buffers.values()}
        seen = {node for those in self.converted.values() for node in those}
        yield from (read for read in self._reads() if read not in seen)
        for scope in self.scopes:
            elsewhere = self.converted[scope.function] - setting - registering
            yield from (node for node in elsewhere if not self._flows(scope, node))
            if converts(scope, self.returned) and not self._only_called(scope.function):
                yield scope.function
        scopes = {scope.function: scope for scope in self.scopes}
        for statement, _, value in self.setters:
            inside = self.function(statement)
            if inside is None or scopes[inside].after.of(value) not in NUMBERS:
                yield statement

    def _flows(self, scope: Scope, node: ast.AST) -> bool:
        """Whether a number may stand at a place, and is known to be one where it goes from
        there.
        """
        parent, after = self.above[node], scope.after
        if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.IfExp)) and after.of(parent) == OTHER:
            return isinstance(getattr(parent, "op", None), ast.Not)
        if isinstance(parent, ast.Return):
            return self.returned[True].get(scope.function.name) in NUMBERS
        if isinstance(parent, ast.Assign):
            target = parent.targets[0]
            if len(parent.targets) > 1:
                return False
            if isinstance(target, ast.Name):
                return not after.lost(target.id)
            return isinstance(target, ast.Attribute) and target.attr in self._names
        converted = self.converted[scope.function]
        return self._uses.fits(node, after, converted) or self._rounded(scope, node)

    def _rounded(self, scope: Scope, node: ast.AST) -> bool:
        """Whether a number stands inside a rounding that becomes Python's."""
        call = self.above[node]
        cast = self.above[self.above[call]]
        return cast in self.converted[scope.function] and scope.after.rounded(cast) is call

    def _only_called(self, function: ast.FunctionDef) -> bool:
        """Whether a method is only called on ``self`` in its class."""
        inside = set(ast.walk(self.owner))
        for node in all_nodes(self._tree):
            quoted = isinstance(node, ast.Constant) and node.value == function.name
            reached = isinstance(node, ast.Attribute) and node.attr == function.name
            if quoted:
                return False
            if not reached or not isinstance(node, ast.Attribute):
                continue
            call = self.above[node]
            called = isinstance(call, ast.Call) and call.func is node
            if not called or node not in inside or ast.unparse(node.value) != "self":
                return False
        return True


@lru_cache(maxsize=4)
def held_numbers(
    source: Source, file_names: FileNames, owner: ast.ClassDef, constructor: ast.FunctionDef
) -> HeldNumbers:
    """What a class keeps: looked at once for all findings in it."""
    return HeldNumbers(source, file_names, owner, constructor)


def _computed(scope: Scope) -> Iterator[str]:
    """Attributes of ``self`` that hold what is computed from the numbers."""
    converted = scope.converted()
    for node in own_nodes(scope.function):
        if not isinstance(node, ast.Assign) or node.value not in converted:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
            yield target.attr


def _returns(function: ast.FunctionDef, kinds: Kinds) -> str | None:
    """What a method returns, whichever of its returns it takes."""
    values = [node.value for node in own_nodes(function) if isinstance(node, ast.Return)]
    return joined([kinds.of(value) for value in values if value is not None])


def converts(scope: Scope, returned: list[dict[str, str | None]]) -> bool:
    """Whether a method returned a tensor, and then returns a number."""
    before, after = (kinds.get(scope.function.name) for kinds in returned)
    return before not in NUMBERS and after in NUMBERS


def _of_module(tree: ast.Module, node: ast.expr) -> bool:
    """Whether a name, or the start of a dotted one, is imported."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and any(
        (alias.asname or alias.name.partition(".")[0]) == node.id
        for statement in tree.body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for alias in statement.names
    )
