"""Which statements of a training loop run on each of its turns: those that are not behind
``step % n``, only in evaluation, or at the end of the loop.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pygraph_lint.analysis.control_flow.rare_branches import (
    STEP,
    begins_with_warning,
    is_rare_outcome,
    is_without_gpu,
)
from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS, BindingKind
from pygraph_lint.analysis.loops.calls import losses
from pygraph_lint.analysis.loops.data_loaders import OF_EVALUATION
from pygraph_lint.analysis.loops.hints import has_modulo
from pygraph_lint.analysis.loops.joins import path_to
from pygraph_lint.analysis.loops.steps import LOOPS
from pygraph_lint.analysis.loops.values import LoopValues
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, negated, walk, without_not


def statements_of_each_iteration(values: LoopValues, body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, and of blocks in it, that are not behind ``step % n`` and do not
    end the loop.
    """
    for statement in body:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Raise)):
            continue
        yield statement
        if isinstance(statement, ast.If):
            rare = is_rare(values, statement.test) or _runs_once(values, statement)
            rare = rare or is_rare_outcome(statement.test, True)
            usual = _has_gpu(statement.test)
            if usual is None:
                usual = _asks_if_finite(statement.test)
            if usual is None:
                usual = _asks_if_training(statement.test)
            if not rare and usual is not False and not _is_exception(statement.body):
                yield from statements_of_each_iteration(values, statement.body)
            if usual is not True and not _is_exception(statement.orelse):
                yield from statements_of_each_iteration(values, statement.orelse)
            if rare and _skips(statement.body) and _is_usual(statement.test):
                following = body[body.index(statement) + 1 :]
                if _is_hook(values, statement) or not _computes_gradients(values, following):
                    return  # `if step % n: continue`: what follows runs rarely
        elif isinstance(statement, (*LOOPS, ast.With, ast.AsyncWith)):
            yield from statements_of_each_iteration(values, statement.body)
        elif isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar":
            yield from statements_of_each_iteration(values, statement.body)  # type: ignore[attr-defined]
            yield from statements_of_each_iteration(values, statement.finalbody)  # type: ignore[attr-defined]
        elif isinstance(statement, ast.Match):
            for case in statement.cases:
                yield from statements_of_each_iteration(values, case.body)


def _has_gpu(test: ast.expr) -> bool | None:
    """How a condition comes out where there is a GPU, if it asks for one."""
    outcomes = [outcome for outcome in (True, False) if is_without_gpu(test, not outcome)]
    return outcomes[0] if outcomes else None


def _is_hook(values: LoopValues, statement: ast.stmt) -> bool:
    """Whether a statement is in what a framework calls before or behind a step."""
    return getattr(values.queries.scope(statement), "name", "").startswith("on_")


def _computes_gradients(values: LoopValues, statements: list[ast.stmt]) -> bool:
    """Whether statements, or functions of the file that they call, compute gradients: then they
    are the training step.
    """
    nodes = [node for statement in statements for node in walk(statement)]
    called = (values.function_of(node) for node in nodes if isinstance(node, ast.Call))
    inner = (node for function in called if function is not None for node in walk(function))
    return any(True for _ in losses((*nodes, *inner)))


def _runs_once(values: LoopValues, branch: ast.If) -> bool:
    """``if self.first: ...; self.first = False``, ``if self.table is None: self.table = ...``: a
    branch that makes its own condition fail, which nothing else of the class changes on every step.
    Of ``if self.table is None or len(self.table) != n`` the first part counts.
    """
    test, ends_false = branch.test, True
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        test = test.values[0]
    if (inner := negated(test)) is not None:
        test, ends_false = inner, False
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is):
        test, ends_false = test.left, False
    if not isinstance(test, ast.Attribute) or dotted(test.value) != "self":
        return False
    owner = values.queries.owner(branch)
    inside = {node for statement in branch.body for node in walk(statement)}
    ends = False
    for target, value in values.evidence.assigned_to_self.get((owner, test.attr), ()):
        if target in inside:
            ends |= (isinstance(value, ast.Constant) and not value.value) == ends_false
        elif _NOT_IN_STEPS.search(getattr(values.queries.scope(target), "name", "")) is None:
            return False
    return ends


# Names of functions that are not called on every step.
_NOT_IN_STEPS = re.compile(r"^__init__$|epoch|reset")


def _is_usual(test: ast.expr) -> bool:
    """Whether a condition that has to do with the number of a step holds on most steps."""
    if (inner := negated(test)) is not None:
        return not _is_usual(inner)
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.Or) and any(map(_is_usual, test.values))
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], (ast.NotEq, ast.Gt))
    return isinstance(test, ast.BinOp)


def _asks_if_finite(test: ast.expr) -> bool | None:
    """Whether a condition holds for finite values, True, or for others, False: these are rare."""
    test, plain = without_not(test, True)
    if isinstance(test, ast.BoolOp):
        parts = {_asks_if_finite(each) for each in test.values} - {None}
        return parts.pop() is plain if len(parts) == 1 else None
    for node in walk(test):
        last = last_part(node.func) if isinstance(node, ast.Call) else ""
        if last in ("isfinite", "isnan", "isinf"):
            return (last == "isfinite") is plain
    return None


def _asks_if_training(test: ast.expr) -> bool | None:
    """Whether a condition holds in training, True, or only outside of it, False."""
    if (negative := negated(test)) is not None:
        inner = _asks_if_training(negative)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        # One part that fails in training is enough for `and`; others may be anything.
        parts = {_asks_if_training(each) for each in test.values}
        return False if isinstance(test.op, ast.And) and False in parts else None
    texts = _texts(test)
    if texts:
        train = any(each.lower() in ("train", "training", "fit") for each in texts)
        return True if train else False if all(map(OF_EVALUATION.search, texts)) else None
    last = last_part(test)
    return True if last in ("train", "training", "is_train", "is_training") else None


def _texts(test: ast.expr) -> list[str]:
    """The texts of which a condition asks for one: ``phase == "train"``."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.In)):
        return []
    right = test.comparators[0]
    parts = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else [right]
    known = (each.value for each in parts if isinstance(each, ast.Constant))
    return [each for each in known if isinstance(each, str)]


def is_rare(values: LoopValues, test: ast.expr, depth: int = 3) -> bool:
    """Whether a condition holds every n steps only, or on one step."""
    if has_modulo(test):
        return True
    if _is_switch(test):
        return False
    for node in walk(test):
        if isinstance(node, ast.Compare) and _counts(values, node):
            return True
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call)) and depth:
            said = (dotted(node.func if isinstance(node, ast.Call) else node) or "").lower()
            last = said.rpartition(".")[2]
            if _RARE.search(last) is not None or _ENDS_EPISODE.fullmatch(last):
                return True
            if any(is_rare(values, each, depth - 1) for each in _stands_for(values, node)):
                return True
    return False


def _stands_for(values: LoopValues, node: ast.expr) -> Iterator[ast.expr]:
    """The expression that a name stands for, or those that a function of the file returns."""
    if isinstance(node, ast.Name):
        value = values.queries.only_value(node)
        yield from () if value is None else (value,)
    elif isinstance(node, ast.Call):
        function = values.function_of(node)
        for inner in walk(function) if function is not None else ():
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield inner.value


def _is_switch(test: ast.expr) -> bool:
    """``interval > 0``, ``every is not None``: a setting that is on or off for all steps."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, (ast.Name, ast.Attribute))
        and isinstance(test.ops[0], (ast.Gt, ast.NotEq, ast.IsNot))
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value in (0, None)
    )


# Parts of the names of conditions that hold on some steps only.
_RARE = re.compile(
    r"interval|every|freq|is_last|last_batch|debug|verbose|sync_gradients|log_step|profil|trigger"
    r"|(should|do|needs?|time_to)_(log|save|eval|print|display|show|report|plot|record)"
)


_ENDS_EPISODE = re.compile(r"(is_|episode_|env_)?(done|terminated|truncated|terminal)")
_COUNTERS = re.compile(rf"i|ni|idx|index|(?!max_|num_|n_|total_){STEP}")
_FIRST_STEPS = 10


def _counts(values: LoopValues, test: ast.Compare) -> bool:
    """``step == 0``, ``i == len(loader) - 1``, ``step in shown``, ``i < 3``, ``len(losses) == 12``:
    a count that is one of few numbers.
    """
    if len(test.ops) != 1 or _texts(test):
        return False
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(operator, ast.In):
        return _is_counter(values, left)
    if isinstance(operator, (ast.Lt, ast.LtE)):
        few = isinstance(right, ast.Constant) and isinstance(right.value, int)
        return few and right.value <= _FIRST_STEPS and _is_counter(values, left)  # type: ignore[attr-defined]
    if not isinstance(operator, ast.Eq):
        return False
    if isinstance(left, ast.Call) and dotted(left.func) == "len":
        return not _is_parameter(values, left)
    return _is_counter(values, left) or _is_counter(values, right)


def _is_parameter(values: LoopValues, call: ast.Call) -> bool:
    """Whether a function gets a parameter as it is: a batch, which does not grow by steps."""
    name = call.args[0] if call.args else None
    found = values.queries.only_definition(name) if isinstance(name, ast.Name) else None
    return found is not None and found.kind is BindingKind.PARAMETER


def _is_counter(values: LoopValues, node: ast.expr) -> bool:
    """Whether an expression is the number of a step, or is computed from it: by its name, or by
    ``for i, batch in enumerate(loader)``.
    """
    if _COUNTERS.fullmatch(last_part(node)) is not None:
        return True
    if isinstance(node, ast.BinOp):
        return _is_counter(values, node.left) or _is_counter(values, node.right)
    definition = values.queries.only_definition(node) if isinstance(node, ast.Name) else None
    if definition is None:
        return False
    if definition.value is not None:
        return isinstance(definition.value, ast.BinOp) and _is_counter(values, definition.value)
    if definition.kind is not BindingKind.LOOP:
        return False
    loop = values.queries.statement(definition.node)
    return (
        isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and dotted(loop.iter.func) == "enumerate"
        and path_to(loop.target, definition.node) == (0,)
    )


def _is_exception(body: list[ast.stmt]) -> bool:
    """Whether a block is not meant to run on usual steps: it ends the loop, or warns first."""
    return _leaves(body) or begins_with_warning(body)


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block ends the loop or the program: it runs once at most."""
    last = body[-1] if body else None
    if isinstance(last, (ast.Raise, ast.Break)):
        return True
    call = last.value if isinstance(last, ast.Expr) else None
    return isinstance(call, ast.Call) and dotted(call.func) in ("sys.exit", "exit", "quit")


def _skips(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Continue, ast.Return))
