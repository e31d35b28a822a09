"""The control flow of one function: its steps, what each of them binds, and what may follow what.

A step is a simple statement, or the part of a compound one that is run at one place: the test of
an ``if``, the target of a ``for``. Every possible path is a path of the graph; where exceptions
are caught the graph has more paths than the program, never fewer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from pygraph_lint.analysis.control_flow.flow_graph import ENTRY, FlowGraph
from pygraph_lint.analysis.syntax.nodes import children, walk

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Context managers that may swallow an exception: what follows may run after half of the block.
_SWALLOWING = frozenset(("suppress", "ExitStack", "AsyncExitStack", "raises", "assertRaises"))


class BindingKind(Enum):
    """How a name gets its value."""

    PARAMETER = auto()
    ASSIGNED = auto()  # name = value: `value` is the expression
    NAMED = auto()  # (name := value)
    UNPACKED = auto()  # a part of what is assigned
    AUGMENTED = auto()  # name += value
    LOOP = auto()  # the target of a for
    WITH = auto()
    IMPORT = auto()
    DEFINED = auto()  # def or class
    CAUGHT = auto()  # except ... as name
    PATTERN = auto()  # captured by a case
    DELETED = auto()
    UNBOUND = auto()  # the function began, and the local name has no value yet
    COMPREHENSION = auto()  # the target of a comprehension's for
    OUTSIDE = auto()  # something that is not followed: a builtin, another module, a class body


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """One place that gives a name a value, or takes it away. ``value`` is the expression whose
    value it surely gets, where there is one. ``certain`` is False where the place may be passed
    without binding (a ``:=`` behind ``and``).
    """

    name: str
    kind: BindingKind
    node: ast.AST
    value: ast.expr | None = None
    certain: bool = True


@dataclass(slots=True)
class Step:
    """What is run at one place: expressions are evaluated, then names are bound."""

    node: ast.AST
    definitions: tuple[Definition, ...] = ()


@dataclass
class _Jumps:
    """Where break, continue and exceptions go: the innermost loop or ``try`` around a statement."""

    breaks: list[int] = field(default_factory=list)
    continues: list[int] = field(default_factory=list)
    returns: list[int] = field(default_factory=list)


class StatementGraph:
    """The graph of a function's, a lambda's or a module's steps. ``steps[i]`` is node i; the entry
    is step 0, which binds the parameters; ``exit`` is where the function ends.
    """

    def __init__(self, scope: Function | ast.Module) -> None:
        self.scope = scope
        self.graph = FlowGraph()
        self.steps = [Step(scope)]
        self._jumps = [_Jumps()]
        self._protected: list[list[int]] = []  # steps in each `try` around, while it is built
        self.of_node: dict[ast.AST, int] = {}
        if isinstance(scope, FUNCTIONS):
            self.steps[ENTRY].definitions = tuple(_parameters(scope))
        if isinstance(scope, ast.Lambda):
            ends = [self._step(scope, [ENTRY], [scope.body])]
        else:
            ends = self._block(scope.body, [ENTRY])
        self.exit = self._step(scope, [*ends, *self._jumps[0].returns])

    # -- building

    def _step(
        self,
        node: ast.AST,
        before: list[int],
        evaluated: list[ast.AST] | None = None,
        definitions: list[Definition] | None = None,
    ) -> int:
        index = self.graph.add_node()
        bound = [*self._evaluated(evaluated or (), index), *(definitions or ())]
        self.steps.append(Step(node, tuple(bound)))
        for each in definitions or ():
            self.of_node.setdefault(each.node, index)
        if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            self.of_node.setdefault(node, index)
        for earlier in before:
            self.graph.add_edge(earlier, index)
        for steps in self._protected:
            steps.append(index)
        return index

    def _evaluated(self, parts: Sequence[ast.AST], index: int) -> Iterator[Definition]:
        """Note the nodes that are run with the parts of a step, or that see its names: those of
        functions inside are not. Gives what ``:=`` binds in them.
        """
        for part in parts:
            found, names = [part], False
            for node in found:
                self.of_node.setdefault(node, index)
                names = names or node.__class__ is ast.NamedExpr
                if node.__class__ not in FUNCTIONS:
                    found += children(node)
            if names:
                yield from _named(part)

    def _block(self, body: list[ast.stmt], before: list[int]) -> list[int]:
        """The steps of a block; gives the steps after which its end is reached."""
        for statement in body:
            before = self._statement(statement, before)
        return before

    def _statement(self, node: ast.stmt, before: list[int]) -> list[int]:
        if isinstance(node, ast.If):
            test = self._step(node, before, [node.test])
            return [*self._block(node.body, [test]), *self._block(node.orelse, [test])]
        if isinstance(node, ast.While):
            return self._while(node, before)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self._for(node, before)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._with(node, before)
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, before)  # type: ignore[arg-type]
        if isinstance(node, ast.Match):
            return self._match(node, before)
        here = self._step(node, before, _expressions(node), list(_bound_by(node)))
        if isinstance(node, (ast.Return, ast.Raise)):
            self._jumps[-1].returns.append(here)
            return []
        if isinstance(node, ast.Break):
            self._jumps[-1].breaks.append(here)
            return []
        if isinstance(node, ast.Continue):
            self._jumps[-1].continues.append(here)
            return []
        return [here]

    def _while(self, node: ast.While, before: list[int]) -> list[int]:
        test = self._step(node, before, [node.test])
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        breaks = self._turns(node.body, [test], test)
        return [*self._block(node.orelse, [] if endless else [test]), *breaks]

    def _for(self, node: ast.For | ast.AsyncFor, before: list[int]) -> list[int]:
        taken = self._step(node, before, [node.iter])
        head = self._step(node, [taken])
        bound = self._step(
            node, [head], [node.target], list(_of_target(node.target, BindingKind.LOOP))
        )
        breaks = self._turns(node.body, [bound], head)
        return [*self._block(node.orelse, [head]), *breaks]

    def _turns(self, body: list[ast.stmt], before: list[int], head: int) -> list[int]:
        """A loop's body, its end joined to the head. Gives the steps that break out of it."""
        self._jumps.append(_Jumps())
        ends = self._block(body, before)
        jumps = self._jumps.pop()
        for end in (*ends, *jumps.continues):
            self.graph.add_edge(end, head)
        self._jumps[-1].returns += jumps.returns
        return jumps.breaks

    def _with(self, node: ast.With | ast.AsyncWith, before: list[int]) -> list[int]:
        for item in node.items:
            target = item.optional_vars
            bound = [] if target is None else list(_of_target(target, BindingKind.WITH))
            parts: list[ast.AST] = [item.context_expr, *([target] if target is not None else [])]
            before = [self._step(node, before, parts, bound)]
        if not any(_may_swallow(item.context_expr) for item in node.items):
            return self._block(node.body, before)
        self._protected.append([])
        ends = self._block(node.body, before)
        return [*ends, *before, *self._protected.pop()]

    def _try(self, node: ast.Try, before: list[int]) -> list[int]:
        self._jumps.append(_Jumps())
        every: list[int] = []
        self._protected.append(every)
        self._protected.append([])
        ends = self._block(node.body, before)
        raising = [*before, *self._protected.pop()]
        ends = self._block(node.orelse, ends)
        for handler in node.handlers:
            ends += self._handler(handler, raising)
        self._protected.pop()
        jumps = self._jumps.pop()
        if not node.finalbody:
            self._jumps[-1].breaks += jumps.breaks
            self._jumps[-1].continues += jumps.continues
            self._jumps[-1].returns += jumps.returns
            return ends
        left = [*jumps.breaks, *jumps.continues, *jumps.returns]
        behind = self._block(node.finalbody, list(dict.fromkeys([*before, *every, *ends, *left])))
        if jumps.breaks:
            self._jumps[-1].breaks += behind
        if jumps.continues:
            self._jumps[-1].continues += behind
        self._jumps[-1].returns += behind
        return behind if ends else []

    def _handler(self, handler: ast.ExceptHandler, raising: list[int]) -> list[int]:
        evaluated: list[ast.AST] = [handler.type] if handler.type is not None else []
        name = handler.name
        bound = [Definition(name, BindingKind.CAUGHT, handler)] if name else []
        ends = self._block(handler.body, [self._step(handler, raising, evaluated, bound)])
        if not name:
            return ends
        return [self._step(handler, ends, [], [Definition(name, BindingKind.DELETED, handler)])]

    def _match(self, node: ast.Match, before: list[int]) -> list[int]:
        before = [self._step(node, before, [node.subject])]
        ends: list[int] = []
        for case in node.cases:
            named = [
                (inner, inner.rest if isinstance(inner, ast.MatchMapping) else inner.name)
                for inner in walk(case.pattern)
                if isinstance(inner, (ast.MatchAs, ast.MatchStar, ast.MatchMapping))
            ]
            bound = [
                Definition(name, BindingKind.PATTERN, inner, certain=case.guard is None)
                for inner, name in named
                if name
            ]
            tested = self._step(case, before, [case.pattern], bound)
            guarded = [tested]
            if case.guard is not None:
                guarded = [self._step(case, guarded, [case.guard])]
            ends += self._block(case.body, guarded)
            always = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            if not always or case.guard is not None:
                before = [*before, *guarded]
            else:
                before = []
        return [*ends, *before]


# -- what statements bind --------------------------------------------------------------------------


def parameters(function: Function) -> list[ast.arg]:
    """Every parameter of a function, in order of its signature."""
    given = function.args
    ordered = [*given.posonlyargs, *given.args]
    if given.vararg is not None:
        ordered.append(given.vararg)
    ordered += given.kwonlyargs
    return [*ordered, given.kwarg] if given.kwarg is not None else ordered


def defaults(function: Function) -> dict[str, ast.expr]:
    """The defaults of the parameters that have one, by name."""
    given = function.args
    ordered = [*given.posonlyargs, *given.args]
    placed = zip(reversed(ordered), reversed(given.defaults), strict=False)
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return {each.arg: value for each, value in (*placed, *named) if value is not None}


def _parameters(function: Function) -> Iterator[Definition]:
    for argument in parameters(function):
        yield Definition(argument.arg, BindingKind.PARAMETER, argument)


def _of_target(
    target: ast.expr, kind: BindingKind, value: ast.expr | None = None
) -> Iterator[Definition]:
    if isinstance(target, ast.Name):
        yield Definition(target.id, kind, target, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        written = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        plain = len(written) == len(target.elts) and not any(
            isinstance(item, ast.Starred) for item in (*written, *target.elts)
        )
        for index, item in enumerate(target.elts):
            if plain:
                yield from _of_target(item, BindingKind.ASSIGNED, written[index])
            else:
                yield from _of_target(
                    item, BindingKind.UNPACKED if kind is BindingKind.ASSIGNED else kind
                )
    elif isinstance(target, ast.Starred):
        yield from _of_target(
            target.value, BindingKind.UNPACKED if kind is BindingKind.ASSIGNED else kind
        )


def _bound_by(node: ast.stmt) -> Iterator[Definition]:
    """What a simple statement binds."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _of_target(target, BindingKind.ASSIGNED, node.value)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield from _of_target(node.target, BindingKind.ASSIGNED, node.value)
    elif isinstance(node, ast.AugAssign):
        yield from _of_target(node.target, BindingKind.AUGMENTED)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            if alias.name != "*":
                name = alias.asname or alias.name.partition(".")[0]
                yield Definition(name, BindingKind.IMPORT, alias)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield Definition(node.name, BindingKind.DEFINED, node)
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            yield from _of_target(target, BindingKind.DELETED)


def _expressions(node: ast.stmt) -> list[ast.AST]:
    """What a simple statement evaluates, targets included: ``a[i] = b`` reads ``a`` and ``i``."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [*node.decorator_list, *defaults(node).values()]
    return children(node)


def _named(part: ast.AST, certain: bool = True) -> Iterator[Definition]:
    """What ``:=`` binds in an expression, in the order of evaluation."""
    if isinstance(part, _SCOPES):
        return
    for child in children(part):
        maybe = isinstance(part, (ast.BoolOp, ast.IfExp, ast.Compare, *_COMPREHENSIONS))
        yield from _named(child, certain and (not maybe or child is _first_evaluated(part)))
    if isinstance(part, ast.NamedExpr):
        yield Definition(part.target.id, BindingKind.NAMED, part.target, part.value, certain)


def _first_evaluated(part: ast.AST) -> ast.AST | None:
    """The operand that is evaluated whatever the others give."""
    if isinstance(part, ast.BoolOp):
        return part.values[0]
    if isinstance(part, ast.IfExp):
        return part.test
    return part.left if isinstance(part, ast.Compare) else None


def _may_swallow(context: ast.expr) -> bool:
    callee = context.func if isinstance(context, ast.Call) else context
    last = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
    return last in _SWALLOWING
