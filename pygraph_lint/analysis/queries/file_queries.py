"""What rules and rewrites ask about a place in a file. They ask here and nowhere else.

``FileQueries`` answers for one file: which values and definitions there may be, what surely ran
before, what code may change, who else may hold an object. What other files of the project may do
comes in as a ``ProjectView``; the default knows nothing of them: then nothing is private.

Every "surely" and "only" is proven or answered with no. ``believing()`` answers from what the
analysis only believes, too, for a change that says so. Positions are nodes of ``tree``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property

from pygraph_lint.analysis.control_flow.reaching_definitions import FileDefinitions, NodeT, Scope
from pygraph_lint.analysis.control_flow.statement_graph import (
    BindingKind,
    Definition,
    Function,
)
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.names import Names, imports_of
from pygraph_lint.analysis.queries import aliases, recording
from pygraph_lint.analysis.queries.interface import UNKNOWN, Known, ProjectView, Type, of_value
from pygraph_lint.analysis.queries.proven_values import proven, proven_at
from pygraph_lint.analysis.queries.side_effects import EffectAnalysis, Effects
from pygraph_lint.analysis.syntax.nodes import dotted, receiver, root_and_path


class FileQueries:
    """Answers questions about one file. Everything is worked out on the first question for it.

    ``believed``: what answers rested on without proof, or could have, since it was last cleared.
    """

    def __init__(
        self, tree: ast.Module, view: ProjectView | None = None, text: str | None = None
    ) -> None:
        """``text`` spares looks at the tree, where it is given."""
        self.tree = tree
        self._text = text
        self.view = view if view is not None else ProjectView()
        self.definitions = FileDefinitions(tree)
        self._meanings: dict[ast.Name, str | None] = {}
        self._known_nodes: dict[ast.expr, tuple[Known, frozenset[str]]] = {}
        self._summaries: dict[Function, Effects] = {}
        self.believes = False
        self.believed: set[str] = set()

    def believing(self) -> FileQueries:
        """The same, where a value is taken for a tensor as soon as a finding would do so."""
        assert self._recording is not None  # made once, for both
        other = copy(self)
        other._known_nodes = {}
        other.believes, other.believed = True, set()
        return other

    # -- structure

    def path(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, innermost first."""
        return self.definitions.path(node)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node right around ``node``."""
        return self.definitions.parents.get(node)

    def scope(self, node: ast.AST) -> Scope:
        """The function, lambda or module in which ``node`` is evaluated."""
        return self.definitions.scope(node)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that ``node`` is, or stands in."""
        above = self.definitions.parents
        while not isinstance(node, ast.stmt):
            node = above[node]
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands: of a body, or behind ``else`` or ``finally``."""
        parent = self.parent(statement)
        blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
        return next((each for each in blocks if isinstance(each, list) and statement in each), [])

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around ``node``."""
        return self.definitions.owner(node)

    @property
    def nodes(self) -> list[ast.AST]:
        """Every node of the file."""
        return self.definitions.nodes

    def of_kind(self, kind: type[NodeT]) -> Sequence[NodeT]:
        """The nodes of the file that are of one kind, in the order of ``nodes``."""
        return self.definitions.of_kind(kind)

    # -- names

    @cached_property
    def _names(self) -> Names:
        return Names.of_module(self.tree, self.view.module, self.view.is_package)

    def qualified(self, node: ast.expr) -> str | None:
        """What a name or a dotted expression stands for: ``torch.nn.functional.relu`` for
        ``F.relu``, ``builtins.len`` for ``len``; None for what is a value.
        """
        root, path = root_and_path(node)
        bound = self._stands_for(root) if isinstance(root, ast.Name) else None
        return None if bound is None else f"{bound}{path}"

    def _stands_for(self, name: ast.Name) -> str | None:
        if name not in self._meanings:
            self._meanings[name] = None  # of a name that is bound to itself
            found = {self._import_of(name, each) for each in self.definitions.reaching(name)}
            found -= {""}
            self._meanings[name] = found.pop() if len(found) == 1 else None
        return self._meanings[name]

    def _import_of(self, name: ast.Name, definition: Definition) -> str | None:
        if definition.kind is BindingKind.UNBOUND:
            return ""
        if definition.kind is BindingKind.OUTSIDE:
            bound = self._names.bindings
            builtin = name.id not in bound and name.id in _BUILTINS
            return f"builtins.{name.id}" if builtin else None
        if definition.kind is BindingKind.DEFINED:
            top = isinstance(self.parent(definition.node), ast.Module)
            return f"{self.view.module}.{name.id}" if top else None
        if definition.kind is BindingKind.ASSIGNED and definition.value is not None:
            alias = definition.value
            return self.qualified(alias) if isinstance(alias, (ast.Name, ast.Attribute)) else None
        if definition.kind is not BindingKind.IMPORT:
            return None
        statement = self.parent(definition.node)
        assert isinstance(statement, (ast.Import, ast.ImportFrom))
        return dict(imports_of(statement, self.view.module, self.view.is_package)).get(name.id)

    def decorator(self, node: ast.expr) -> str | None:
        """What a decorator is, by the names of the module: ``pkg.cached`` for ``@cached(3)``."""
        return self._names.resolve(node.func if isinstance(node, ast.Call) else node)

    def callee(self, node: ast.AST) -> str | None:
        """The qualified name that a call calls."""
        return self.qualified(node.func) if isinstance(node, ast.Call) else None

    def means_nothing(self, name: str, at: ast.AST) -> bool:
        """Whether a name is free at a place: neither bound in a scope around it nor a builtin."""
        return name not in _BUILTINS and not any(
            self._binds(scope, name) for scope in self._scopes(at)
        )

    def _scopes(self, at: ast.AST) -> Iterator[Scope]:
        """The scopes around a place, innermost first."""
        scope = self.scope(at)
        while not isinstance(scope, ast.Module):
            yield scope
            scope = self.scope(scope)
        yield scope

    def _binds(self, scope: Scope, name: str) -> bool:
        flow = self.definitions.flow(scope)
        return bool(flow.every(name)) or name in flow.shared

    def is_builtin(self, name: str, at: ast.AST) -> bool:
        """Whether a name surely is Python's own at a place: bound in no scope around it, by no
        ``import *``, and by no other file.
        """
        if any(self._binds(scope, name) for scope in [*self._scopes(at)][:-1]):
            return False
        bound = any(each == name or each.startswith("*") for each in self._names.bindings)
        named = (each for each in self.of_kind(ast.Name) if each.id == name)
        assigned = any(not isinstance(each.ctx, ast.Load) for each in named)
        assigned = assigned or any(name in each.names for each in self.definitions.declarations)
        patched = f"{self.view.module}.{name}" in self.view.patched
        return name in _BUILTINS and not bound and not assigned and not patched

    def spelling(self, qualified: str, at: ast.AST) -> str | None:
        """How what is imported as ``qualified``, perhaps on a condition, can be written here."""
        for name in self._imported.get(qualified, ()):
            read = ast.Name(name)
            found = {self._import_of(read, each) for each in self.definitions.reaching_at(name, at)}
            if found - {""} == {qualified}:
                return name
        return None

    @cached_property
    def _imported(self) -> dict[str, list[str]]:
        """The names that imports anywhere in the file give to what is imported."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for name, target in imports_of(node, self.view.module, self.view.is_package):
                    found.setdefault(target, []).append(name)
        return found

    # -- values

    @cached_property
    def _recording(self) -> recording.Recording:
        name, is_package = self.view.module, self.view.is_package
        return recording.Recording(self.tree, name, is_package, self._text)

    def _recorded(self, node: ast.AST) -> recording.Recorded:
        return self._recording.around((node, *self.path(node)))

    def known(self, node: ast.expr) -> Known:
        """What is known of the value of an expression."""
        if node not in self._known_nodes:
            value = self._recorded(node).values.get(node)
            self._known_nodes[node] = UNKNOWN, frozenset()
            self._known_nodes[node] = self._admitted(value, lambda it: proven(self, node, it))
        known, believed = self._known_nodes[node]
        self.believed |= believed
        return known

    def known_at(self, place: str, at: ast.AST) -> Known:
        """What is known, in front of the statement around ``at``, of what a name or ``self.x``
        holds; nothing of a name that may be unbound there.
        """
        statement = self.statement(at)
        env = self._recorded(statement).environments.get(statement, {})
        value = env.get(place)
        if value is None or ("." not in place and self.may_be_unbound(place, statement)):
            return UNKNOWN
        known, believed = self._admitted(value, lambda it: proven_at(self, place, statement, it))
        self.believed |= believed
        return known

    def _admitted(
        self, value: Value | None, certain_of: Callable[[Known], Known]
    ) -> tuple[Known, frozenset[str]]:
        """What is answered of a value, and what that rests on without proof, or would rest on."""
        found = UNKNOWN if value is None else of_value(value, self.view.tensors)
        before, self.believed = self.believed, set(found.believed)
        known = certain_of(found if self.believes or not found.believed else UNKNOWN)
        believed = frozenset(self.believed | known.believed)
        self.believed = before
        return known, believed

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor on every run."""
        return self.known(node).must_be(Type.TENSOR)

    def shaped_like(self, node: ast.expr) -> str | None:
        """The name whose shape an expression surely has: ``x`` for ``zeros_like(x)``, ``x > 0``,
        ``~(x == 1)``, ``x.abs()``; also through a local name. Behind a name stands where it got its
        value: ``x = x[None]`` has another shape than ``x`` before.
        """
        if isinstance(node, ast.Name):
            value = self.only_value(node)
            found = None if value is None else self.shaped_like(value)
            given = (getattr(each.node, "lineno", 0) for each in self.definitions.reaching(node))
            return found if found is not None else f"{node.id} {sorted(given)}"
        if isinstance(node, ast.UnaryOp):
            return self.shaped_like(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self.shaped_like(node.left), self.shaped_like(node.right)
            if self.known(node.right).must_be(Type.NUMBER):
                return left
            return left if left == right else None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            number = self.known(node.comparators[0]).must_be(Type.NUMBER)
            return self.shaped_like(node.left) if number else None
        if isinstance(node, ast.Attribute):
            return dotted(node)
        if isinstance(node, ast.Call):
            return self._call_shaped_like(node)
        return None

    def _call_shaped_like(self, call: ast.Call) -> str | None:
        name = self.callee(call) or ""
        if name.startswith("torch.") and name.removeprefix("torch.") in _SHAPE_KEEPING_CALLS:
            return self.shaped_like(call.args[0]) if call.args else None
        keeping = None if name else receiver(call, _SHAPE_KEEPING)
        return None if keeping is None else self.shaped_like(keeping)

    # -- definitions and order

    def only_definition(self, name: ast.Name) -> Definition | None:
        """The one definition that a read of a name sees on every run; None if it may see others,
        or may find the name unbound.
        """
        return self.definitions.only(name)

    def only_value(self, name: ast.Name) -> ast.expr | None:
        """The expression whose value a name surely holds."""
        found = self.only_definition(name)
        return None if found is None else found.value

    def values(self, name: ast.Name) -> list[ast.expr] | None:
        """The expressions whose values a name may hold; None if it may hold something else."""
        found = self.definitions.reaching(name)
        values = [each.value for each in found if each.value is not None]
        return values if found and len(values) == len(found) else None

    def may_be_unbound(self, name: str, at: ast.AST) -> bool:
        """Whether a local name may have no value at a place."""
        found = self.definitions.reaching_at(name, at)
        kinds = (BindingKind.UNBOUND, BindingKind.DELETED)
        return not found or any(each.kind in kinds for each in found)

    def uses(self, definition: Definition) -> list[ast.Name]:
        """The reads that may see a definition, functions inside included."""
        return self.definitions.uses(definition)

    def used_outside(self, name: str, inside: Iterable[ast.AST]) -> bool:
        """Whether a value that the nodes ``inside`` give a name may be read outside them."""
        within = {node for each in inside for node in ast.walk(each)}
        for node in within:
            if (
                isinstance(node, ast.Name)
                and node.id == name
                and not isinstance(node.ctx, ast.Load)
            ):
                definition = self.definitions.definition_at(node)
                if definition is None or any(use not in within for use in self.uses(definition)):
                    return True
        return False

    def runs_before(self, first: ast.AST, second: ast.AST) -> bool:
        """Whether ``first`` has surely been evaluated when ``second`` is, in the same function."""
        scope = self.scope(first)
        return scope is self.scope(second) and self.definitions.flow(scope).runs_before(
            first, second
        )

    def steps_before(self, node: ast.AST) -> list[ast.AST]:
        """The statements that surely ran when ``node`` is evaluated, nearest first; of a compound
        one its head.
        """
        return self.definitions.flow(self.scope(node)).steps_before(node)

    def same_value(self, node: ast.expr, at: ast.AST) -> bool:
        """Whether an expression without effects, evaluated at ``at`` instead, has the same value:
        each name in it has the same definitions there, and nothing between may change an object.
        """
        names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
        if not self.effects(node).none:
            return False
        for name in names:
            here, there = self.definitions.reaching(name), self.definitions.reaching_at(name.id, at)
            outside = {each.kind for each in (*here, *there)} == {BindingKind.OUTSIDE}
            if outside and any(name.id in each.names for each in self.of_kind(ast.Global)):
                return False
            if not outside and (set(here) != set(there) or self.may_be_unbound(name.id, at)):
                return False
        reads_objects = any(
            isinstance(part, (ast.Attribute, ast.Subscript, ast.Call)) for part in ast.walk(node)
        )
        return not reads_objects or self._untouched(node, at)

    def _untouched(self, node: ast.expr, at: ast.AST) -> bool:
        """Whether nothing that runs between two places of one block may change an object."""
        one, other = sorted((self.statement(node), self.statement(at)), key=lambda s: s.lineno)
        block = self.block(one)
        if other not in block:
            return one is other
        between = block[block.index(one) : block.index(other)]
        found = [self.effects(each) for each in between]
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        set_there = {place.partition(".") for each in found for place in each.rebinds}
        changed = any(rest and root in names for root, _, rest in set_there)
        return not changed and not any(each.mutates or each.unknown for each in found)

    # -- effects and holders

    def effects(self, node: ast.AST) -> Effects:
        """What evaluating a node may change, calls of the file's own functions looked through."""
        return EffectAnalysis(self.qualified, self.called_function, self._summaries).of(node)

    def is_pure(self, node: ast.AST) -> bool:
        """Whether evaluating a node once, twice, earlier or not at all makes no difference to
        anything else. It may still raise.
        """
        return self.effects(node).none

    def is_unaliased(self, name: ast.Name) -> bool:
        """Whether a name holds a tensor that nothing else can refer to: the result of arithmetic or
        of an operation that always makes a new one, which was not handed on before.
        """
        return aliases.is_unaliased(self, name)

    # -- functions of the file, and the rest of the project

    def called_function(self, call: ast.Call) -> Function | None:
        """The function of this file that a call by its name surely calls."""
        found = self.only_definition(call.func) if isinstance(call.func, ast.Name) else None
        node = found.node if found is not None else None
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
        outer = isinstance(self.parent(node), ast.Module)
        patched = outer and f"{self.view.module}.{node.name}" in self.view.patched
        return None if node.decorator_list or patched else node


_BUILTINS = frozenset(dir(__import__("builtins")))
# Elementwise: the result has the shape of the first operand, alone or with a number.
_SHAPE_KEEPING = frozenset(
    (
        *("abs", "neg", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "relu", "sign", "round"),
        *("floor", "ceil", "float", "half", "double", "long", "int", "bool", "bfloat16", "clone"),
        *("detach", "isnan", "isinf", "isfinite", "logical_not", "contiguous", "clamp", "softmax"),
        *("bitwise_not", "square", "reciprocal", "nan_to_num", "cumsum", "masked_fill", "to"),
    )
)
_SHAPE_KEEPING_CALLS = _SHAPE_KEEPING | frozenset(
    f"{name}_like" for name in ("zeros", "ones", "empty", "full", "rand", "randn", "randint")
)
