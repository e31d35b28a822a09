"""Which definitions a name may have at a place, which places a definition may reach, and what
surely ran before: of one file, from its syntax tree.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

from pygraph_lint.analysis.control_flow.flow_graph import (
    ENTRY,
    dominators,
    immediate_dominators,
    solve,
)
from pygraph_lint.analysis.control_flow.statement_graph import (
    FUNCTIONS,
    BindingKind,
    Definition,
    Function,
    StatementGraph,
    parameters,
)
from pygraph_lint.analysis.syntax.nodes import dotted, names_read, parents_below, walk

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Scope = Function | ast.Module
NodeT = TypeVar("NodeT", bound=ast.AST)


class ScopeFlow:
    """Reaching definitions and dominators of one function, lambda or module body.

    A set of definitions is a bit set: bit i stands for ``definitions[i]``. ``shared`` are the names
    that the scope itself declares global or nonlocal.
    """

    def __init__(self, scope: Scope, shared: frozenset[str]) -> None:
        self.scope = scope
        self.shared = shared
        self.flow = StatementGraph(scope)
        self.definitions: list[Definition] = []
        self._of_name: dict[str, int] = {}
        self._generated: list[list[int]] = []
        for step in self.flow.steps:
            self._generated.append([self._add(each) for each in step.definitions])
        unbound = 0
        for name in list(self._of_name):
            own = all(each.name != name for each in self.flow.steps[ENTRY].definitions)
            if own and name not in self.shared and not isinstance(scope, ast.Module):
                unbound |= 1 << self._add(Definition(name, BindingKind.UNBOUND, scope))
        self._before = solve(self.flow.graph, unbound, self._transfer, int.__or__)

    def _add(self, definition: Definition) -> int:
        self.definitions.append(definition)
        index = len(self.definitions) - 1
        self._of_name[definition.name] = self._of_name.get(definition.name, 0) | 1 << index
        return index

    def _transfer(self, node: int, state: int) -> int:
        for index in self._generated[node]:
            definition = self.definitions[index]
            if definition.certain:
                state &= ~self._of_name[definition.name]
            state |= 1 << index
        return state

    def binds(self, name: str) -> bool:
        """Whether the name is one of this scope's own."""
        return name in self._of_name and name not in self.shared

    def every(self, name: str) -> tuple[Definition, ...]:
        """Every definition of a name in this scope, in source order; without ``UNBOUND``."""
        found = self._members(self._of_name.get(name, 0))
        return tuple(each for each in found if each.kind is not BindingKind.UNBOUND)

    def reaching(self, name: str, node: ast.AST) -> tuple[Definition, ...]:
        """The definitions of a name that may hold where ``node`` is evaluated; none where that is
        never reached.
        """
        step = self.flow.of_node.get(node)
        if step is None or step not in self._before:
            return ()
        state = self._before[step] & self._of_name.get(name, 0)
        for index in self._generated[step]:
            named = self.definitions[index]
            if named.kind is BindingKind.NAMED and named.name == name:
                state |= 1 << index  # it may stand before the node, or behind it
        return tuple(self._members(state))

    def _members(self, state: int) -> Iterator[Definition]:
        while state:
            lowest = state & -state
            yield self.definitions[lowest.bit_length() - 1]
            state ^= lowest

    @cached_property
    def _immediate(self) -> dict[int, int]:
        return immediate_dominators(self.flow.graph)

    def steps_before(self, node: ast.AST) -> list[ast.AST]:
        """The statements (of compound ones: their heads) that surely ran when ``node`` is
        evaluated, nearest first, whatever turn of a loop it is.
        """
        step = self.flow.of_node.get(node)
        if step is None or step not in self._before:
            return []
        chain = dominators(self._immediate, step)
        return list(dict.fromkeys(self.flow.steps[index].node for index in chain[:-1]))

    def runs_before(self, first: ast.AST, second: ast.AST) -> bool:
        """Whether ``first`` has surely been evaluated when ``second`` is."""
        one, other = (self.flow.of_node.get(node) for node in (first, second))
        if one is None or other is None or other not in self._before:
            return False
        return one in dominators(self._immediate, other)


class FileDefinitions:
    """The definitions of a file's names in its scopes, which are looked at on demand."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._flows: dict[Scope, ScopeFlow] = {}
        self._own: dict[ast.AST, frozenset[str]] = {}

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the file: walking the tree costs more than keeping them."""
        return [self.tree, *self.parents]

    @cached_property
    def functions(self) -> Sequence[ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions that have a name, in the order of ``nodes``."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in self.nodes if isinstance(node, kinds)]

    def of_kind(self, kind: type[NodeT]) -> Sequence[NodeT]:
        """The nodes of one kind, in the order of ``nodes``."""
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[Any]]:
        found: dict[type[ast.AST], list[Any]] = defaultdict(list)
        for node in self.nodes:
            found[node.__class__].append(node)
        return found

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent; the nodes nearest to the module first."""
        return parents_below(self.tree)

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """The calls of names and dotted names, by the last part of the name."""
        found: dict[str, list[ast.Call]] = {}
        for node in self.of_kind(ast.Call):
            written = dotted(node.func)
            if written is not None:
                found.setdefault(written.rpartition(".")[2], []).append(node)
        return found

    @cached_property
    def _loads(self) -> dict[str, list[ast.Name]]:
        found: dict[str, list[ast.Name]] = {}
        for node in names_read((*self.of_kind(ast.Name), *self.of_kind(ast.AugAssign))):
            found.setdefault(node.id, []).append(node)
        for loads in found.values():
            loads.sort(key=lambda node: (node.lineno, node.col_offset))
        return found

    def path(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, innermost first, without itself."""
        above = self.parents
        while node in above:
            node = above[node]
            yield node

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around ``node``."""
        return next((each for each in self.path(node) if isinstance(each, ast.ClassDef)), None)

    def scope(self, node: ast.AST) -> Scope:
        """The function, lambda or module that evaluates ``node``: for a function's decorators and
        defaults the scope around it.
        """
        child = node
        for parent in self.path(node):
            if isinstance(parent, ast.Module):
                return parent
            if isinstance(parent, FUNCTIONS) and _inside(parent, child):
                return parent
            if not isinstance(parent, ast.arguments):
                child = parent
        return self.tree

    def flow(self, scope: Scope) -> ScopeFlow:
        """The control flow of a scope."""
        if scope not in self._flows:
            own = (each for each in self.declarations if self.scope(each) is scope)
            shared = frozenset(name for each in own for name in each.names)
            self._flows[scope] = ScopeFlow(scope, shared)
        return self._flows[scope]

    def only(self, name: ast.Name) -> Definition | None:
        """The one definition that a read of a name sees on every run, if there is one."""
        found = self.reaching(name)
        return found[0] if len(found) == 1 and found[0].certain else None

    def reaching(self, name: ast.Name) -> tuple[Definition, ...]:
        """The definitions that a read of a name may see."""
        return self.reaching_at(name.id, name)

    def reaching_at(self, name: str, node: ast.AST) -> tuple[Definition, ...]:
        """The definitions that a read of ``name`` would see where ``node`` is evaluated. Of a scope
        further out, all of them: they may run before or after the function is made.
        """
        inner = self._in_expression(name, node)
        if inner is not None:
            return (inner,)
        scope = self.scope(node)
        first = True
        while True:
            flow = self.flow(scope)
            if name in flow.shared or self._rebound_inside(scope, name):
                return (Definition(name, BindingKind.OUTSIDE, self.tree),)
            if flow.binds(name):
                return flow.reaching(name, node) if first else flow.every(name)
            if isinstance(scope, ast.Module):
                return (Definition(name, BindingKind.OUTSIDE, self.tree),)
            scope, first = self.scope(scope), False

    def uses(self, definition: Definition) -> list[ast.Name]:
        """The reads that may see a definition, in source order."""
        loads = self._loads.get(definition.name, ())
        return [load for load in loads if definition in self.reaching(load)]

    def asked_for(self, definition: Definition, attributes: Container[str]) -> bool:
        """Whether a read that may see a definition asks for one of some attributes."""
        above = self.parents
        return any(
            isinstance(parent := above[load], ast.Attribute)
            and parent.attr in attributes
            and definition in self.reaching(load)
            for load in self._loads.get(definition.name, ())
        )

    def definition_at(self, node: ast.AST) -> Definition | None:
        """The definition made by a ``Name`` that is stored to, or by an alias."""
        flow = self.flow(self.scope(node))
        return next((each for each in flow.definitions if each.node is node), None)

    def _in_expression(self, name: str, place: ast.AST) -> Definition | None:
        """What a comprehension or a class body around a place binds."""
        child: ast.AST = place
        for parent in self.path(place):
            if isinstance(parent, FUNCTIONS) and _inside(parent, child):
                return None
            if isinstance(parent, _COMPREHENSIONS) and child is not parent.generators[0].iter:
                for turn in parent.generators:
                    for node in walk(turn.target):
                        if isinstance(node, ast.Name) and node.id == name:
                            return Definition(name, BindingKind.COMPREHENSION, node)
            in_body = isinstance(parent, ast.ClassDef) and child in parent.body
            if in_body and name in self._class_names(parent):  # type: ignore[arg-type]
                return Definition(name, BindingKind.OUTSIDE, self.tree)
            if not isinstance(parent, (ast.arguments, ast.comprehension)):
                child = parent
            elif isinstance(parent, ast.comprehension):
                child = parent if child is not parent.iter else child
        return None

    def _class_names(self, node: ast.ClassDef) -> frozenset[str]:
        if node not in self._own:
            body = ast.Module(node.body, [])
            names = {each.name for step in StatementGraph(body).steps for each in step.definitions}
            self._own[node] = frozenset(names)
        return self._own[node]

    def _rebound_inside(self, scope: Scope, name: str) -> bool:
        """Whether a function inside a scope may bind the scope's name."""
        if scope not in self._own:
            kind = ast.Global if isinstance(scope, ast.Module) else ast.Nonlocal
            found = (each for each in self.declarations if isinstance(each, kind))
            inside = (each for each in found if scope in self.path(each))
            self._own[scope] = frozenset(each for node in inside for each in node.names)
        return name in self._own[scope]

    @cached_property
    def declarations(self) -> list[ast.Global | ast.Nonlocal]:
        """The statements that declare names global or nonlocal."""
        return [*self.of_kind(ast.Global), *self.of_kind(ast.Nonlocal)]


def _inside(function: Function, child: ast.AST) -> bool:
    """Whether a child of a function is evaluated in it, not where it is made."""
    if isinstance(function, ast.Lambda):
        return child is function.body
    return child in function.body or child in parameters(function)
