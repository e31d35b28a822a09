"""The abstract interpreter: which handler evaluates which syntax, and one function's run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pygraph_lint.analysis.control_flow.statement_graph import defaults as defaults_of
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter import branches, displays, operators, statements, subscripts
from pygraph_lint.analysis.interpreter.attributes import eval_attribute, eval_constant, eval_name
from pygraph_lint.analysis.interpreter.calls import eval_call
from pygraph_lint.analysis.interpreter.host_tensors import note_uses
from pygraph_lint.analysis.interpreter.incremental import ReusableRuns
from pygraph_lint.analysis.interpreter.state import Environment, Handlers, State
from pygraph_lint.analysis.program.annotations import annotated
from pygraph_lint.analysis.program.facts import FunctionFacts, Root
from pygraph_lint.analysis.program.memoisation import (
    is_cached_without_parameters,
    takes_only_modules,
)
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.program.names import FunctionNode
from pygraph_lint.analysis.program.parameters import (
    assigned_names,
    bind_parameters,
    parameter_names,
)
from pygraph_lint.analysis.syntax.nodes import Body, is_constant, last_stores, span_of, walk

_MAX_DEMANDS = 8
_IMPORT_LEVEL = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


def run_module(module: Module, has_roots: bool, kept: ReusableRuns | None = None) -> None:
    """Run every function of a module abstractly, constructors first: they say what objects hold.

    ``has_roots`` is whether the module's own statements, where scripts compile and capture, are
    run too. ``kept`` are runs of functions for an earlier text.
    """
    for _ in runs_of(module, has_roots, HANDLERS, kept):
        pass


def runs_of(
    module: Module, has_roots: bool, handlers: Handlers, kept: ReusableRuns | None = None
) -> Iterator[None]:
    """The same step by step: one function is run at each, and those that it asks for."""

    def run(name: str, node: FunctionNode, owner: str) -> None:
        if name in module.done:
            return
        if kept is None:
            run_function(module, name, node, owner, handlers)
        else:
            fresh = partial(run_function, module, name, node, owner, handlers)
            kept.run(module, (name, node, owner), fresh)

    try:
        module.run_first = _by_demand(module, run, methods=False)
        for name, node, owner in module.functions:
            if owner and node.name == "__init__":
                run(name, node, owner)
                yield
        module.run_first = _by_demand(module, run, methods=True)
        for name, node, owner in module.functions:
            run(name, node, owner)
            yield
        if has_roots:
            facts = FunctionFacts(f"{module.name}.<module>", "", 1, ())
            body = [node for node in module.tree.body if not isinstance(node, _IMPORT_LEVEL)]
            _run(State(module, facts, {}, handlers), Body(body))
    finally:
        module.run_first = None  # or the module and its tree stay until garbage is collected


def _by_demand(
    module: Module, run: Callable[[str, FunctionNode, str], None], methods: bool
) -> Callable[[str], None]:
    """Run a function of the module before its turn: a caller wants to know what it returns.
    ``methods`` are told apart, which need what constructors say.
    """
    definitions = {
        name: (node, owner) for name, node, owner in module.functions if methods or not owner
    }
    depth = 0

    def demand(name: str) -> None:
        nonlocal depth
        if name in definitions and name not in module.done and depth < _MAX_DEMANDS:
            depth += 1
            run(name, *definitions[name])
            depth -= 1

    return demand


def run_function(
    module: Module,
    name: str,
    node: FunctionNode,
    owner: str,
    handlers: Handlers,
    closure: Environment | None = None,
) -> None:
    """Run one function abstractly and keep what was seen. With ``closure`` it stands in another
    one, whose names are given.
    """
    if name in module.done:
        return
    module.done.add(name)
    if closure is not None:
        module.cannot_repeat()
    marks = {item.id for item in node.decorator_list if isinstance(item, ast.Name)}
    bound = bool(owner) and "staticmethod" not in marks
    facts = FunctionFacts(name, owner, node.lineno, parameter_names(node, bound))
    facts.takes_object = bound and "classmethod" not in marks
    facts.named_only = tuple(argument.arg for argument in node.args.kwonlyargs)
    facts.required = len(facts.parameters) - len(defaults_of(node))
    _read_decorators(module, node, facts)
    facts.is_cached_without_parameters = not owner and is_cached_without_parameters(
        node, module.names
    )
    body = module.body(node)
    facts.of_modules = bound and takes_only_modules(node, body, module.may_have)
    ordered = [*node.args.posonlyargs, *node.args.args]
    self_name = ordered[0].arg if bound and ordered else ""
    env = dict(closure or {})
    if self_name:
        env[self_name] = Value(v.CALLABLE if "classmethod" in marks else v.INSTANCE, cls=owner)
    env |= bind_parameters(module, facts, node, self_name, body)
    state = State(module, facts, env, handlers, "" if "classmethod" in marks else self_name)
    _note_parameters(state, node)
    _run(state, body)
    _read_declared(module, node, facts)


def _note_parameters(state: State, node: FunctionNode) -> None:
    """What a function does with the names of its parameters, and what they hold at its start."""
    facts, env = state.function, state.env
    state.locals |= (assigned := assigned_names(node))
    state.unchanged = frozenset(facts.parameters) - assigned
    own = (name for name in facts.parameters if name in env)  # objects of their own
    state.passed = {name: Value._make(env[name]) for name in own}
    env |= state.passed
    if facts.owner:
        state.last_stores = last_stores(node)


def _read_declared(module: Module, node: FunctionNode, facts: FunctionFacts) -> None:
    """What a function is annotated to return, where its body does not say it."""
    if node.returns is not None and facts.returns is not None:
        declared = annotated(module.names, node.returns, "")
        if not declared.kinds & v.UNKNOWN and facts.returns.kinds & v.UNKNOWN:
            why = f"{node.name}() is annotated to return a tensor"
            facts.returns = declared._replace(why=why) if declared.is_tensor else declared


def _run(state: State, body: Body) -> None:
    """Run a body; code nested beyond reason is left without facts rather than stopping the run."""
    state.body = body
    try:
        state.run(body.statements)
    except RecursionError:
        return
    note_uses(state)
    _doubt_empty_constructor(state)
    facts = state.function
    if state.yields is not None:
        facts.returns = Value(v.SEQUENCE, item=v.shallow(state.yields, 2))
    facts.events += state.events.values()
    facts.calls += state.calls.values()
    facts.trains = any(key[0] == "method" for key in state.events) and _trains(body)
    state.module.facts.functions[facts.name] = facts


def _trains(body: Body) -> bool:
    nodes = (node for statement in body.statements for node in walk(statement))
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return named.issuperset(("zero_grad", "backward", "step"))


def _doubt_empty_constructor(state: State) -> None:
    """An object that is made without parameters of its own costs nothing, unless torch.compile
    has to compile its constructor alone.
    """
    made = [key for key in state.events if key[0] == "effect.parameter-made"]
    own = [key for key in made if state.events[key].subject == "super().__init__()"]
    alone = Need("alone", state.owner, "")
    if len(own) == len(made):
        for key in own:
            event = state.events[key]
            state.events[key] = event._replace(needs=(*event.needs, alone))


def _read_decorators(module: Module, node: FunctionNode, facts: FunctionFacts) -> None:
    """What decorators say about regions."""
    names, above = [], False
    for decorator in node.decorator_list:
        inner = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = module.names.resolve(inner)
        if name == "functools.partial" and isinstance(decorator, ast.Call) and decorator.args:
            name = module.names.resolve(decorator.args[0])
        if name is None:
            continue
        if name in ops.COMPILERS and _is_given(decorator, "disable", True):
            continue
        if name in ops.COMPILERS:
            why = f"decorated with {name}"
            module.facts.roots.append(Root("function", facts.name, why, node.lineno))
            module.cannot_repeat()
        elif name in ops.REGION_ENDS or name == "functools.cached_property":
            facts.ends_region = True  # a cached property runs once, in the lock that breaks
            facts.disabled = name in ops.DISABLERS
            facts.only_itself = facts.disabled and _is_given(decorator, "recursive", False)
            facts.kept_out, above = "", facts.only_itself
        elif name == "functools.wraps":
            facts.wraps = True
        elif not name.startswith(("torch.", "functools.", "typing.")):
            names.append(name)
            facts.kept_out, above = (name, False) if above else (facts.kept_out, False)
    facts.decorators = tuple(names)


def _is_given(decorator: ast.expr, name: str, value: bool) -> bool:
    """Whether a decorator is given a constant: ``torch.compile(disable=True)`` leaves a function as
    it is.
    """
    given = decorator.keywords if isinstance(decorator, ast.Call) else []
    return any(item.arg == name and is_constant(item.value, value) for item in given)


def _exec_function(state: State, node: FunctionNode) -> None:
    """A function defined inside another one; it sees the names around it."""
    name = f"{state.function.name}.<locals>.{node.name}"
    for key in state.origins.values():  # the inner function may use what this one made
        state.loads.setdefault(key, set()).add((node.lineno, -1))
    run_function(state.module, name, node, "", state.handlers, state.env)
    state.env[node.name] = Value(v.CALLABLE, cls=name)
    state.mention(name, node)


def _exec_class(state: State, node: ast.ClassDef) -> None:
    """A class inside a function: its methods see the names around it."""
    prefix = f"{state.function.name}.<locals>"
    state.event("effect.untraced-call", span_of(node), f"class {node.name}", form="class")
    methods = state.module.add_class(node, prefix)
    state.env[node.name] = Value(v.CALLABLE, cls=f"{prefix}.{node.name}")
    for name, method, owner in sorted(methods, key=lambda each: each[1].name != "__init__"):
        run_function(state.module, name, method, owner, state.handlers, state.env)


_NESTED = 6


def _eval_lambda(state: State, node: ast.Lambda) -> Value:
    """A lambda: run where it stands, and on its own for who calls it, unless it holds so many that
    to run each twice takes long.
    """
    displays.eval_lambda(state, node)
    if sum(isinstance(each, ast.Lambda) for each in walk(node.body)) > _NESTED:
        return Value(v.CALLABLE)
    name = f"{state.function.name}.<locals>.<lambda:{node.lineno}:{node.col_offset}>"
    body = ast.copy_location(ast.Return(node.body), node.body)
    function = ast.FunctionDef(name="<lambda>", args=node.args, body=[body], decorator_list=[])
    run_function(
        state.module, name, ast.copy_location(function, node), "", state.handlers, state.env
    )
    return Value(v.CALLABLE, cls=name)


EXPRESSIONS: dict[type[ast.expr], Any] = {
    ast.Constant: eval_constant,
    ast.Name: eval_name,
    ast.Attribute: eval_attribute,
    ast.BinOp: operators.eval_binary,
    ast.UnaryOp: operators.eval_unary,
    ast.Compare: operators.eval_compare,
    ast.BoolOp: operators.eval_boolean,
    ast.IfExp: operators.eval_conditional,
    ast.Call: eval_call,
    ast.Subscript: subscripts.eval_subscript,
    ast.Slice: subscripts.eval_slice,
    ast.Tuple: displays.eval_sequence,
    ast.List: displays.eval_sequence,
    ast.Set: displays.eval_sequence,
    ast.Dict: displays.eval_dict,
    ast.ListComp: displays.eval_comprehension,
    ast.SetComp: displays.eval_comprehension,
    ast.GeneratorExp: displays.eval_comprehension,
    ast.DictComp: displays.eval_comprehension,
    ast.JoinedStr: displays.eval_joined,
    ast.Lambda: _eval_lambda,
    ast.Starred: displays.eval_inner,
    ast.NamedExpr: displays.eval_named,
    ast.Await: displays.eval_inner,
    ast.Yield: displays.eval_yield,
    ast.YieldFrom: displays.eval_yield,
}
STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Assign: statements.exec_assign,
    ast.AnnAssign: statements.exec_annotated,
    ast.AugAssign: statements.exec_augmented,
    ast.If: branches.exec_if,
    ast.While: branches.exec_while,
    ast.For: branches.exec_for,
    ast.AsyncFor: branches.exec_for,
    ast.With: branches.exec_with,
    ast.AsyncWith: branches.exec_with,
    ast.Try: branches.exec_try,
    ast.Match: branches.exec_match,
    ast.Return: statements.exec_return,
    ast.Raise: statements.exec_raise,
    ast.Expr: statements.exec_expression,
    ast.Assert: statements.exec_assert,
    ast.Delete: statements.exec_delete,
    ast.Break: statements.exec_stop,
    ast.Continue: statements.exec_stop,
    ast.Import: statements.exec_import,
    ast.ImportFrom: statements.exec_import,
    ast.FunctionDef: _exec_function,
    ast.AsyncFunctionDef: _exec_function,
    ast.ClassDef: _exec_class,
}
if hasattr(ast, "TryStar"):
    STATEMENTS[ast.TryStar] = branches.exec_try
HANDLERS = Handlers(EXPRESSIONS, STATEMENTS)
