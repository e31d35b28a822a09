"""A module's scopes as the capture checks see them: what names hold, where graphs are captured."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.program.names import FunctionNode, Names, own_nodes
from pygraph_lint.analysis.syntax.nodes import (
    always_run,
    dotted,
    is_constant,
    keyword,
    source_of,
    span_of,
)

_GRAPH_CONTEXTS = ("torch.cuda.graph", "torch.cuda.graphs.graph")
MAKERS = {
    "torch.cuda.CUDAGraph": "graph",
    "torch.cuda.graphs.CUDAGraph": "graph",
    "torch.cuda.make_graphed_callables": "graphed",
    "torch.cuda.graphs.make_graphed_callables": "graphed",
    "torch.compile": "compiled",
    "torch.Generator": "generator",
    "torch.cuda.Stream": "stream",
    "torch.amp.GradScaler": "scaler",
    "torch.amp.grad_scaler.GradScaler": "scaler",
    "torch.cuda.amp.GradScaler": "scaler",
    "torch.cuda.amp.grad_scaler.GradScaler": "scaler",
}
_GRAPH_MODES = ("reduce-overhead", "max-autotune")


@dataclass(frozen=True)
class Made:
    """What a name was bound to: ``kind`` is one of ``MAKERS``, ``optimizer``, or else ``call``."""

    kind: str
    name: str
    call: ast.Call
    graphs: bool = False

    def has(self, keyword: str, value: object) -> bool:
        """Whether the call has ``keyword=value``, or may have: ``**options``, a value not shown."""
        for given in self.call.keywords:
            if given.arg is None:
                return True
            if given.arg == keyword:
                return not isinstance(given.value, ast.Constant) or given.value.value == value
        return False


@dataclass(frozen=True)
class Binding:
    """One assignment: ``value`` is None if it is no plain one; ``firm`` if it always runs."""

    start: tuple[int, int]
    value: ast.expr | None
    firm: bool


@dataclass(frozen=True)
class Capture:
    """One ``with torch.cuda.graph(...)`` block; ``call`` is the one of ``torch.cuda.graph``."""

    block: ast.With
    call: ast.Call
    graph: str | None
    nodes: tuple[ast.AST, ...]

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call in the block."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Names and attributes bound in the block."""
        return frozenset(key for node in self.nodes for key, _ in bindings(node))

    def is_argument(self, key: str) -> bool:
        """Whether the block reads ``key`` other than to call it or to reach into it."""
        used = [node for node in self.nodes if dotted(node) == key and is_load(node)]
        heads = set()
        for node in self.nodes:
            if isinstance(node, ast.Call):
                heads.add(id(node.func))
            elif isinstance(node, ast.Attribute):
                heads.add(id(node.value))
        return any(id(node) not in heads for node in used)


@dataclass
class Scope:
    """A function's or the module's own statements, and what its names hold.

    ``nodes`` are in order of the source, without what is in nested functions and classes.
    """

    names: Names
    body: list[ast.stmt]
    nodes: list[ast.AST]
    outer: dict[str, Made] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    owner: ClassFacts | None = None

    @classmethod
    def of_module(cls, tree: ast.Module, names: Names) -> Scope:
        """The module's own scope."""
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        scope = cls(names, tree.body, list(own_nodes(tree)), classes=classes)
        scope.outer = _decorated(tree.body, names)
        return scope

    def child(self, function: FunctionNode) -> Scope:
        """The scope of a function directly inside this one."""
        names = self.names.scope(function)
        outer = {**self.outer, **self.final, **_decorated(function.body, names)}
        return Scope(
            names,
            function.body,
            list(own_nodes(function)),
            outer,
            frozenset(each.arg for each in parameters(function)),
            self.classes,
            self.owner,
        )

    @cached_property
    def bound(self) -> dict[str, list[Binding]]:
        """Every assignment of names and attributes in this scope, in order."""
        firm = {id(statement) for statement in always_run(self.body)}
        bound: dict[str, list[Binding]] = {}
        for node in self.nodes:
            for key, value in bindings(node):
                binding = Binding(start(node), value, id(node) in firm)
                bound.setdefault(key, []).append(binding)
        return bound

    @cached_property
    def loops(self) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Where the loops of this scope start and end."""
        kinds = (ast.For, ast.AsyncFor, ast.While)
        return [(start(node), end(node)) for node in self.nodes if isinstance(node, kinds)]

    @cached_property
    def final(self) -> dict[str, Made]:
        """What names hold once this scope has run, where that is certain."""
        found = {key: self._made_by(assigned) for key, assigned in self.bound.items()}
        return {key: made for key, made in found.items() if made is not None}

    def _made_by(self, assigned: list[Binding]) -> Made | None:
        """What the last of some assignments leaves behind, if it always runs or is the only one."""
        if not assigned:
            return None
        last = assigned[-1]
        if not isinstance(last.value, ast.Call) or not (last.firm or len(assigned) == 1):
            return None
        return _made(last.value, self.names)

    @cached_property
    def captures(self) -> list[Capture]:
        """The captures in this scope, in order."""
        return [
            Capture(block, call, dotted(argument(call, 0, "cuda_graph")), tuple(own_nodes(block)))
            for block, call in self.contexts
            if self.is_call(call, *_GRAPH_CONTEXTS)
        ]

    @cached_property
    def contexts(self) -> list[tuple[ast.With, ast.Call]]:
        """The calls that make context managers, each with its statement."""
        return [
            (node, item.context_expr)
            for node in self.nodes
            if isinstance(node, ast.With)
            for item in node.items
            if isinstance(item.context_expr, ast.Call)
        ]

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call in this scope."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    def made(self, node: ast.AST | None) -> Made | None:
        """What the name or attribute ``node`` holds where it stands, if that came from a call."""
        key = dotted(node)
        if node is None or key is None:
            return None
        if key in self.bound:
            return self._made_at(start(node), self.bound[key])
        if key.partition(".")[0] in self.parameters and not key.startswith("self."):
            return None
        return self.outer.get(key)

    def _made_at(self, place: tuple[int, int], assigned: list[Binding]) -> Made | None:
        around = [(first, last) for first, last in self.loops if first <= place <= last]
        for binding in assigned:
            if binding.start > place and any(a <= binding.start <= b for a, b in around):
                return None
        return self._made_by([binding for binding in assigned if binding.start < place])

    def is_call(self, node: ast.AST, *qualified: str) -> bool:
        """Whether ``node`` calls one of the functions named."""
        return isinstance(node, ast.Call) and self.names.resolve(node.func) in qualified


@dataclass
class ClassFacts:
    """What the methods of one class share: attributes of self, and captures made with them."""

    made: dict[str, Made] = field(default_factory=dict)
    captures: list[Capture] = field(default_factory=list)


def scopes(scope: Scope) -> Iterator[Scope]:
    """``scope`` and every scope below it; methods know what their class shares."""
    yield scope
    for node in scope.nodes:
        if isinstance(node, ast.ClassDef):
            yield from _scopes_of_class(scope, node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from scopes(scope.child(node))


def _scopes_of_class(outer: Scope, node: ast.ClassDef) -> Iterator[Scope]:
    inside = list(own_nodes(node))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    methods = [outer.child(each) for each in inside if isinstance(each, kinds)]
    facts = _class_facts(methods)
    for method in methods:
        method.owner = facts
        method.outer.update(facts.made)
        yield from scopes(method)
    for each in inside:
        if isinstance(each, ast.ClassDef):
            yield from _scopes_of_class(outer, each)


def _class_facts(methods: list[Scope]) -> ClassFacts:
    facts = ClassFacts()
    bound: dict[str, list[Scope]] = {}
    for scope in methods:
        facts.captures.extend(scope.captures)
        for key, assigned in scope.bound.items():
            if key.startswith("self.") and not all(
                is_constant(each.value, None) for each in assigned
            ):
                bound.setdefault(key, []).append(scope)
    for key, assigning in bound.items():
        made = assigning[0].final.get(key)
        if len(assigning) == 1 and made is not None:
            facts.made[key] = made
    return facts


def is_load(node: ast.AST) -> bool:
    """Whether a name, attribute or subscript is read."""
    return isinstance(getattr(node, "ctx", None), ast.Load)


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Names and attributes a statement binds, with the value where it is a plain assignment."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from targets_of(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            yield from targets_of(node.target, node.value)
    elif isinstance(node, (ast.AugAssign, ast.For, ast.AsyncFor, ast.comprehension)):
        yield from targets_of(node.target, None)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from targets_of(node.optional_vars, None)


def targets_of(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    """The names and attributes that an assignment to ``target`` binds; with ``value`` where one
    gets it.
    """
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from targets_of(element, None)
    elif isinstance(target, ast.Starred):
        yield from targets_of(target.value, None)
    else:
        key = dotted(target)
        if key is not None:
            yield key, value


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """The argument of a call at a position, or by its name."""
    named = keyword(call, name)
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    if named is not None or starred or position >= len(call.args):
        return named
    return call.args[position]


def _made(call: ast.Call, names: Names) -> Made:
    name = names.resolve(call.func) or ""
    kind = MAKERS.get(name, "call")
    if kind == "compiled":
        return Made(kind, name, call, _uses_graphs(call))
    if isinstance(call.func, ast.Call) and names.resolve(call.func.func) == "torch.compile":
        return Made("compiled", "torch.compile", call, _uses_graphs(call.func))
    if name.startswith("torch.optim.") and name.rpartition(".")[2][:1].isupper():
        kind = "optimizer"
    return Made(kind, name, call)


def _uses_graphs(compile_call: ast.Call) -> bool:
    mode = keyword(compile_call, "mode")
    if isinstance(mode, ast.Constant):
        return mode.value in _GRAPH_MODES
    options = keyword(compile_call, "options")
    if isinstance(options, ast.Dict):
        for key, value in zip(options.keys, options.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "triton.cudagraphs":
                return is_constant(value, True)
    return False


def _decorated(body: list[ast.stmt], names: Names) -> dict[str, Made]:
    """Functions decorated with torch.compile, by name."""
    made = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if not isinstance(decorator, ast.Call):
                    continue
                if names.resolve(decorator.func) == "torch.compile":
                    graphs = _uses_graphs(decorator)
                    made[node.name] = Made("compiled", "torch.compile", decorator, graphs)
    return made


def start(node: ast.AST) -> tuple[int, int]:
    """Where a node begins: line and column."""
    return (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def end(node: ast.AST) -> tuple[int, int]:
    """Where a node ends: line and column."""
    return (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))


def make_event(kind: str, node: ast.expr | ast.stmt, *evidence: str) -> Event:
    """The event of a hazard at a node."""
    return Event(kind, span_of(node), source_of(node), evidence=evidence)
