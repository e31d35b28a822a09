"""Where the steps of training loops are: the loops, and the functions that run on every step.

A step is the innermost loop in which gradients are computed, without loops over parts of one step:
micro-batches, or the losses of one batch. A function that computes gradients outside of a loop is
run on every step, and so is a function of the file that calls it outside of a loop.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.interpreter.displays import names_of
from pygraph_lint.analysis.loops.calls import (
    is_step_hook,
    is_trainer_part,
    losses,
    names_optimizer,
    over_batches,
)
from pygraph_lint.analysis.loops.per_batch_classes import per_batch
from pygraph_lint.analysis.loops.values import LoopValues
from pygraph_lint.analysis.program.facts import ACTS, MAY_CALL_STEP
from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.syntax.nodes import children, dotted, is_constant, last_part, walk

LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPILER_NAMES = frozenset(name.rpartition(".")[2] for name in ops.COMPILERS)
_TRAINS = re.compile(r"train|step|update|learn|fit|optimi|backward")
_COMPUTES = "computes gradients on every step"
_TO_EVALUATE = re.compile(r"_?(val|valid|validation|test|eval|evaluation)(_|$|dl|data|load|iter)")
_ONE_BATCH = re.compile(r"(?i)batch$")
_MEASURES = re.compile(r"(^|_)(benchmark|profile|autotune)(_|$)")
_ONCE = ("main", "__init__")
_WITHOUT_GRADIENTS = frozenset(("torch.no_grad", "torch.inference_mode"))


def steps(values: LoopValues) -> Iterator[tuple[ast.AST, str]]:
    """The loops, and the functions that are run on every step, with the reason."""
    queries = values.queries
    found = dict.fromkeys((*_of_losses(queries), *_of_updates(queries)))
    again = {each: None for each in found if not _runs_once(queries, each)}
    seen = dict.fromkeys((*_with_callers(values, again), *found))
    yield from ((node, _COMPUTES) for node in seen if not _runs_once(queries, node))
    loops = [node for node in queries.nodes if isinstance(node, LOOPS) and node not in seen]
    named = (*queries.of_kind(ast.Attribute), *queries.of_kind(ast.alias))
    compiles = any(map(names_a_compiler, named))
    around = set(_over_batches(queries, seen))
    for node in loops:
        if node in around:
            yield node, _COMPUTES
            continue
        compiled = compiles and _calls_compiled(values, node)
        acts = ACTS if acts_on_each_iteration(queries, node) else MAY_CALL_STEP
        if compiled or acts == ACTS or not _evaluates(queries, node):
            yield node, "calls compiled code on every step" if compiled else acts
    for each in (each for kind in COMPREHENSIONS for each in queries.of_kind(kind)):
        if is_over_batches(queries, each) and not _evaluates(queries, each):
            yield each, MAY_CALL_STEP
    for function in queries.definitions.functions:
        owner = queries.owner(function)
        hook = is_step_hook(getattr(function, "name", ""))
        if function in seen:
            continue
        if hook and owner is not None and is_trainer_part(owner):
            yield function, "is called by the trainer on every step"
            continue
        why = per_batch(function, owner)
        if why is not None:
            yield function, why


def _over_batches(queries: FileQueries, found: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The loops over batches around loops that compute gradients: of several updates a batch, or
    of parts of one.
    """
    for node in found:
        for each in queries.path(node) if isinstance(node, LOOPS) else ():
            if isinstance(each, FUNCTIONS):
                break
            if isinstance(each, (ast.For, ast.AsyncFor)) and over_batches(each.iter):
                yield each


def is_in_inner_loop(queries: FileQueries, loop: ast.AST, node: ast.AST) -> bool:
    """Whether a node is in a loop inside ``loop`` that is no part of one step."""
    for each in queries.path(node):
        if each is loop:
            return False
        if isinstance(each, LOOPS) and not _is_over_parts(each):
            return True
        if isinstance(each, COMPREHENSIONS) and is_over_batches(queries, each):
            return True
    return False


def is_over_batches(queries: FileQueries, node: ast.AST) -> bool:
    """Whether a comprehension is a loop of its own, which takes a step for each of all batches:
    ``[step(x) for x in loader]``, in no loop over batches.
    """
    iterated = node.generators[0].iter  # type: ignore[attr-defined]
    if not over_batches(iterated) or _ONE_BATCH.search(ast.unparse(iterated)) is not None:
        return False
    for each in queries.path(node):
        if isinstance(each, FUNCTIONS):
            break
        if isinstance(each, (ast.For, ast.AsyncFor)) and over_batches(each.iter):
            return False
    return True


def _evaluates(queries: FileQueries, loop: ast.AST) -> bool:
    """Whether a loop computes no gradients, or goes over data to evaluate with: what steps it calls
    do not train.
    """
    over = loop.generators[0] if isinstance(loop, COMPREHENSIONS) else loop
    parts = [over.iter] if isinstance(over, (ast.For, ast.AsyncFor, ast.comprehension)) else []
    inner = (node for part in parts for node in walk(part))
    names = [node for node in inner if isinstance(node, (ast.Name, ast.Attribute))]
    said = [(node.id if isinstance(node, ast.Name) else node.attr).lower() for node in names]
    if any(map(_TO_EVALUATE.match, said)) and not any("train" in each for each in said):
        return True
    for each in queries.path(loop):
        if isinstance(each, FUNCTIONS):
            marks = getattr(each, "decorator_list", ())
            return any(_is_without_gradients(queries, mark) for mark in marks)
        contexts = each.items if isinstance(each, (ast.With, ast.AsyncWith)) else ()
        if any(_is_without_gradients(queries, item.context_expr) for item in contexts):
            return True
    return False


def _is_without_gradients(queries: FileQueries, node: ast.expr) -> bool:
    """Whether an expression turns gradients off: ``torch.no_grad()``."""
    called = node.func if isinstance(node, ast.Call) else node
    name = queries.qualified(called) if isinstance(called, (ast.Name, ast.Attribute)) else None
    given = node.args[:1] if isinstance(node, ast.Call) else []
    turned_off = [is_constant(each, False) for each in given]
    if name == "torch.set_grad_enabled":
        return turned_off == [True]
    return name in _WITHOUT_GRADIENTS and turned_off != [True]


def acts_on_each_iteration(queries: FileQueries, loop: ast.AST) -> bool:
    """Whether a loop itself acts in an environment: ``env.step(action)``, or in one of another
    process: ``pipe.send(("step", action))``.
    """
    for node in walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            of = last_part(node.func.value).lower()
            sent = isinstance(node.args[0], ast.Tuple) and node.args[0].elts[:1]
            asked = [getattr(each, "value", None) for each in sent or ()]
            sends = node.func.attr == "send" and asked == ["step"]
            if sends or (node.func.attr == "step" and "env" in of):
                return not is_in_inner_loop(queries, loop, _to_each(queries, node, of))
    return False


def _to_each(queries: FileQueries, call: ast.AST, receiver: str) -> ast.AST:
    """The loop that makes a call for each of several receivers; without one, the call."""
    for each in queries.path(call):
        if isinstance(each, ast.For) and receiver in map(str.lower, names_of(each.target)):
            return each
    return call


# -- where gradients are computed ------------------------------------------------------------------


def _of_losses(queries: FileQueries) -> Iterator[ast.AST]:
    for loss in losses(queries.of_kind(ast.Call)):
        place = _step_around(queries, loss, loss)
        whole = isinstance(place, FUNCTIONS)
        if not whole or _TRAINS.search(getattr(place, "name", "")) or _steps_weights(queries):
            yield place
        if whole:
            for call in _passed_to_step(queries, place):
                yield _step_around(queries, call, loss)


def _of_updates(queries: FileQueries) -> Iterator[ast.AST]:
    """Where optimizers step: ``self.optimizer.step()``."""
    for node in queries.of_kind(ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "step":
            place = _step_around(queries, node, node)
            around = getattr(place, "name", "") == "step"  # of an optimizer around another
            if names_optimizer(function.value) and not around:
                yield place


def _steps_weights(queries: FileQueries) -> bool:
    """Whether the file changes weights by gradients, which may be for something else."""
    for node in queries.of_kind(ast.Call):
        if isinstance(node.func, ast.Attribute):
            method, of = node.func.attr, (dotted(node.func.value) or "").lower()
            if method == "step" or (method == "zero_grad" and "optim" in of):
                return True
    return False


def _step_around(queries: FileQueries, node: ast.AST, loss: ast.AST) -> ast.AST:
    """The innermost loop around a node that is a step, else the function, else the module."""
    for each in queries.path(node):
        if isinstance(each, FUNCTIONS):
            return each
        if isinstance(each, LOOPS) and not _is_over_parts(each, loss):
            return each
    return queries.tree


def _is_over_parts(loop: ast.For | ast.AsyncFor | ast.While, loss: ast.AST | None = None) -> bool:
    """Whether a loop goes over the micro-batches of one step, or over its losses, or tries again
    what failed.
    """
    if isinstance(loop, ast.While):
        endless = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        return endless and isinstance(loop.body[-1], (ast.Return, ast.Break))
    written = ast.unparse(loop.iter).lower()
    targets = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
    used = set(_not_passed(loss)) if loss is not None else set()
    return "accum" in written or "micro" in written or not targets.isdisjoint(used)


def _not_passed(node: ast.AST) -> Iterator[str]:
    """The names in an expression that no call gets: ``loss`` itself, not the batch of a model."""
    if isinstance(node, ast.Name):
        yield node.id
    inner = [node.func] if isinstance(node, ast.Call) else children(node)
    for each in inner:
        yield from _not_passed(each)


def _passed_to_step(queries: FileQueries, function: ast.AST) -> Iterator[ast.Call]:
    """Calls of ``optimizer.step(closure)`` that get a function."""
    name = getattr(function, "name", None)
    for node in queries.of_kind(ast.Call):
        if isinstance(node.func, ast.Attribute):
            given = [*node.args, *(item.value for item in node.keywords)]
            if node.func.attr == "step" and any(
                each is function or (name and dotted(each) == name) for each in given
            ):
                yield node


def _runs_once(queries: FileQueries, place: ast.AST) -> bool:
    """Whether gradients are computed there for a test, to measure their time, or once by a script,
    not to train.
    """
    around = (each for each in (place, *queries.path(place)) if isinstance(each, FUNCTIONS))
    names = [getattr(each, "name", "") for each in around]
    tests = any(name.startswith("test_") or _MEASURES.search(name) for name in names)
    once = isinstance(place, FUNCTIONS) and names[0] in _ONCE
    return tests or once or isinstance(place, ast.Module) or _makes_its_optimizer(queries, place)


def _makes_its_optimizer(queries: FileQueries, place: ast.AST) -> bool:
    """Whether a function makes the optimizer whose only step it takes: none is left for another
    call. Of ``optimizer.step(closure)`` the steps are what the closure does.
    """
    if not isinstance(place, FUNCTIONS):
        return False
    for node in walk(place):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            holder, inside = node.func.value, is_in_inner_loop(queries, place, node)
            if node.func.attr == "step" and not inside:
                made = queries.only_value(holder) if isinstance(holder, ast.Name) else None
                name = (dotted(made.func) or "") if isinstance(made, ast.Call) else ""
                is_class = name.rpartition(".")[2][:1].isupper()
                return made is not None and is_class and queries.scope(made) is place
    return False


# -- functions that call a step --------------------------------------------------------------------


def _with_callers(values: LoopValues, found: dict[ast.AST, None]) -> Iterator[ast.AST]:
    """Steps, and functions of the file that call one outside of a loop, and so on."""
    callers: dict[ast.AST, list[ast.AST]] = {}
    if any(isinstance(each, FUNCTIONS) for each in found):
        for function in values.queries.definitions.functions:
            for called in _called_once(values, function):
                callers.setdefault(called, []).append(function)
    front = list(found)
    yield from front
    while front:
        for caller in callers.get(front.pop(), ()):
            if caller not in found:
                found[caller] = None
                front.append(caller)
                yield caller


def _called_once(values: LoopValues, function: Function) -> Iterator[ast.AST]:
    """Functions of the file that a function calls outside of loops."""
    if function.name in _ONCE:
        return
    queries = values.queries
    for node in walk(function):
        if not isinstance(node, ast.Call) or not _runs_in(queries, node, function):
            continue
        called = values.function_of(node)
        if called is not None and not is_in_inner_loop(queries, function, node):
            yield called


def _runs_in(queries: FileQueries, node: ast.AST, function: Function) -> bool:
    """Whether a node is in a function, or in one inside of it that an optimizer's step gets."""
    scope = queries.scope(node)
    if scope is function:
        return True
    name = getattr(scope, "name", None)
    return name is not None and any(
        isinstance(call, ast.Call)
        and "step" in last_part(call.func)
        and any(dotted(each) == name for each in call.args)
        for call in walk(function)
    )


# -- compiled code ---------------------------------------------------------------------------------


def names_a_compiler(node: ast.AST) -> bool:
    """Whether a node may mean ``torch.compile`` or what stands for it: no other value is one."""
    name = node.attr if isinstance(node, ast.Attribute) else None
    name = node.name if isinstance(node, ast.alias) else name
    return name is not None and name.rpartition(".")[2] in _COMPILER_NAMES


def _calls_compiled(values: LoopValues, loop: ast.AST) -> bool:
    for node in _own_statements(loop):
        for call in walk(node):
            if isinstance(call, ast.Call) and values.of(call.func).cls == "torch.compile":
                return values.queries.qualified(call.func) not in ops.COMPILERS
    return False


def _own_statements(loop: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a loop that are in no loop inside it."""
    for statement in getattr(loop, "body", []):
        if not isinstance(statement, LOOPS):
            yield statement
