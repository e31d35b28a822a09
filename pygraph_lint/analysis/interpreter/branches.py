"""Branches, loops, with, try and match: environments are split and joined."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import reduce
from typing import Any

from pygraph_lint.analysis.control_flow.rare_branches import (
    begins_with_warning,
    is_rare_outcome,
    is_without_gpu,
    only_reports,
)
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import EVERY, Needs
from pygraph_lint.analysis.domain.symbols import as_made
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.assignment import assign
from pygraph_lint.analysis.interpreter.conditions import (
    asked,
    guarded,
    narrow,
    only_if,
    truth,
)
from pygraph_lint.analysis.interpreter.displays import counted
from pygraph_lint.analysis.interpreter.lazy_initialisation import (
    is_before_set_up,
    missing_or_small,
    runs_once,
    sets_up_below,
)
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.interpreter.tensor_conditions import (
    asks_for_empty,
    asks_for_half_precision,
    asks_for_non_finite,
)
from pygraph_lint.analysis.program.facts import FunctionFacts, Root
from pygraph_lint.analysis.syntax.literal_tests import asks_for_none
from pygraph_lint.analysis.syntax.nodes import (
    dotted,
    last_part,
    method_name,
    receiver,
    span_of,
    walk,
    without_not,
)

# What gives a number, or one element, of a tensor.
_READ = frozenset(("all", "any", "item", "max", "mean", "min", "norm", "sum"))


def exec_if(state: State, node: ast.If) -> bool:
    """``if test: ... else: ...``: both arms are run, and what they leave is joined."""
    only_raises = not node.orelse and isinstance(node.body[-1], ast.Raise) and len(node.body) <= 2
    state.whole = node.test
    static = truth(state, node.test, "branch.raise" if only_raises else "branch.if")
    state.whole = None
    if static is False:
        return state.run(node.orelse)
    once = runs_once(state, node, node.test)
    if static is True:
        state.quiet += once
        ended = state.run(node.body)
        state.quiet -= once
        return ended
    start = state.env
    guards = _arm_guards(state, node, False), _arm_guards(state, node, True)
    state.quiet += once
    ended = _run_arm(state, node, True, guards[True])
    state.quiet -= once
    then, state.env = state.env, start
    other_ended = _run_arm(state, node, False, guards[False])
    if ended and other_ended:
        return True
    if ended or other_ended:
        state.env = then if other_ended else state.env
        state.guards = guards[other_ended]  # hold behind the statement, too
        state.quiet += ended and sets_up_below(state, node, node.test)
        small = missing_or_small(node.test, False)
        if ended and small is not None and sets_up_below(state, node, small):
            state.guards = (*state.guards, EVERY)
        return False
    needs = (asked(state.guards, guards[outcome]) for outcome in (True, False))
    state.env = join_environments(*_arms(then, state.env, *needs))
    return False


def _arm_guards(state: State, node: ast.If, outcome: bool) -> Needs:
    """What one arm of an if statement stands under."""
    guards = guarded(state, node.test, outcome)
    small = missing_or_small(node.test, True) if outcome else None
    fills = small is not None and runs_once(state, node, small)
    fills = fills or is_before_set_up(state, node.test, outcome)
    return (*guards, EVERY) if fills or is_rare_outcome(node.test, outcome) else guards


def _arms(
    then: dict[str, Value], other: dict[str, Value], then_needs: Needs, other_needs: Needs
) -> tuple[dict[str, Value], dict[str, Value]]:
    """What both arms leave behind, where calls decide which of them runs."""
    if not then_needs and not other_needs:
        return then, other
    for name in then.keys() & other.keys():
        one, two = then[name], other[name]
        if one is not two:
            then[name] = only_if(one, two, then_needs)
            other[name] = only_if(two, one, other_needs)
    return then, other


def _run_arm(state: State, node: ast.If, outcome: bool, guards: Needs) -> bool:
    """Run one arm of an if statement, knowing how the test came out."""
    body = node.body if outcome else node.orelse
    saved_guards, state.guards = state.guards, guards
    state.env = dict(state.env)
    narrow(state, node.test, outcome)
    if not body:
        state.guards = saved_guards
        return False
    broken = asks_for_non_finite(state, node.test, outcome)
    rare = broken or _is_rare(state, node, outcome)
    half = outcome and asks_for_half_precision(state, node.test)
    state.quiet += rare
    state.half += half
    state.odd += broken
    special = not _asks_what_is_given(state, node.test)
    state.unusual += special
    state.arms.append((node.test, outcome))
    ended = state.run(body)
    state.arms.pop()
    state.unusual -= special
    state.odd -= broken
    state.half -= half
    state.quiet -= rare
    state.guards = saved_guards
    return ended


def _is_rare(state: State, node: ast.If, outcome: bool) -> bool:
    """Whether an arm with a body runs in no usual call."""
    body = node.body if outcome else node.orelse
    return (
        isinstance(body[-1], ast.Raise)
        or asks_for_empty(state, node.test, outcome)
        or _is_without_device(state, node, outcome)
        or _is_for_watching(state, node.test, outcome)
        or _only_tells(state, node, outcome)
    )


def _asks_what_is_given(state: State, test: ast.expr) -> bool:
    """Whether a condition only asks which inputs there are, ``x is not None and y is None``, or
    also how long they are: ``self.fast and x.shape[1] <= 64``.
    """
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    return all(asks_for_none(each) is not None for each in parts) or any(
        isinstance(each, ast.Compare)
        and isinstance(each.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        and any(state.ev_quiet(side).flags & v.SIZE for side in (each.left, *each.comparators))
        for each in parts
    )


def _only_tells(state: State, node: ast.If, outcome: bool) -> bool:
    """Whether an arm is for numbers that are not meant to be, as it warns of them. The test itself,
    which reads a tensor, runs on every call.
    """
    body = node.body if outcome else node.orelse
    tells = begins_with_warning(body) or (
        only_reports(body) and not asks_for_non_finite(state, node.test, not outcome)
    )
    return tells and _reads_tensor(state, node.test)


def _reads_tensor(state: State, node: ast.expr) -> bool:
    """Whether a condition needs a tensor's numbers: ``x.max() > 3``, ``x.max().item() > 3``."""
    node, _ = without_not(node, True)
    if isinstance(node, ast.BoolOp):
        return any(_reads_tensor(state, each) for each in node.values)
    value = state.ev_quiet(node)
    if value.kinds == v.TENSOR and not value.needs:
        return True
    read = (receiver(each, _READ) for each in walk(node))
    return any(each is not None and state.ev_quiet(each).is_tensor for each in read)


def _is_for_watching(state: State, test: ast.expr, outcome: bool) -> bool:
    """Whether a condition that comes out so asks for messages or figures about the run:
    ``if self.verbose:``.
    """
    test, outcome = without_not(test, outcome)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and outcome:
        return any(_is_for_watching(state, each, True) for each in test.values)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE)):
        test = test.left
    shown = outcome and _WATCHING.search(last_part(test)) is not None
    return shown and not (isinstance(test, ast.Name) and test.id in state.function.switched_on)


_WATCHING = re.compile(r"(^|_)(verbose|debug|profile|profiling|record_\w*stats)(_|$)")


def _is_without_device(state: State, node: ast.If, outcome: bool) -> bool:
    """Whether one arm of an if statement is for programs without a device: the condition says so,
    or the other one has calls of ``.cuda()``.
    """
    if is_without_gpu(node.test, outcome):
        return True
    arms = node.body, node.orelse
    this, other = arms if outcome else arms[::-1]
    if not node.orelse or not state.module.may_have("cuda"):
        return False
    return _moves_to_cuda(other) and not _moves_to_cuda(this)


def _moves_to_cuda(body: list[ast.stmt]) -> bool:
    return any(method_name(each) == "cuda" for statement in body for each in walk(statement))


_COUNTING = frozenset(("torch.arange", "torch.randperm", "torch.linspace"))


def exec_while(state: State, node: ast.While) -> bool:
    """``while test: ...``, up to a fixed point."""
    return loop(
        state, node.body, node.orelse, lambda: truth(state, node.test, "branch.while") is False
    )


def exec_for(state: State, node: ast.For | ast.AsyncFor) -> bool:
    """``for target in iterated: ...``, up to a fixed point."""
    iterated = state.ev(node.iter)
    state.note_known(counted(state, node.iter))
    called = node.iter.func if isinstance(node.iter, ast.Call) else None
    if called is not None and state.qualified(called) in _COUNTING:
        # Places: a host tensor of one place is read as a number is.
        state.events.pop(("host.factory", node.iter.lineno, node.iter.col_offset), None)
    if iterated.cls.startswith("tqdm.") and not isinstance(node.iter, ast.Call):
        state.event("call", span_of(node.iter), iterated.cls)

    def bind() -> bool:
        assign(state, node.target, v.iterate(iterated), None)
        return iterated.items == ()

    return loop(state, node.body, node.orelse, bind)


def loop(
    state: State, body: list[ast.stmt], orelse: list[ast.stmt], enter: Callable[[], bool]
) -> bool:
    """Run a loop's body until the environment at its start does not change any more.

    Each round joins into that environment, so it only grows, and values have finite height.
    ``enter`` evaluates the test or binds the target, and returns True where the body never runs.
    """
    outer_stops, guards = state.stops, state.guards
    while True:
        start = state.env
        state.env = dict(start)
        state.stops = []
        if enter():
            state.env = start
            break
        ends = [] if state.run(body) else [state.env]
        state.env = reduce(join_environments, [*ends, *state.stops], start)
        if state.env == start:
            break
        state.guards = guards
    state.stops, state.guards = outer_stops, guards
    return state.run(orelse)


def exec_with(state: State, node: ast.With | ast.AsyncWith) -> bool:
    """``with manager as name: ...``."""
    contexts = 0
    for item in node.items:
        value = state.ev(item.context_expr)
        if item.optional_vars is not None:
            assign(state, item.optional_vars, v.UNKNOWN_VALUE, None)
        if value.kinds & v.DEVICE:
            contexts += 1
            state.event("effect.context", span_of(item.context_expr), "torch.device")
        elif value.cls in ops.UNTRACED_CONTEXTS:
            state.event("effect.context", span_of(item.context_expr), value.cls)
        elif value.cls in ops.LOCKS:
            written = dotted(item.context_expr) or value.cls
            state.event("effect.lock", span_of(item.context_expr), written)
    state.device_context += contexts
    captured = isinstance(node, ast.With) and captures_with(node, state.qualified)
    before = (set(state.events), set(state.calls))
    ended = state.run(node.body)
    state.device_context -= contexts
    if captured and not state.quiet:
        split_capture(state, node, *before)
    return ended


def split_capture(
    state: State, node: ast.With | ast.AsyncWith, events: set[Any], calls: set[Any]
) -> None:
    """What happens under ``with torch.cuda.graph(...)`` is a region of its own."""
    name = f"{state.function.name}.<capture>"
    facts = state.module.facts.functions.setdefault(name, FunctionFacts(name, "", node.lineno, ()))
    facts.events += [state.events.pop(key) for key in list(state.events) if key not in events]
    facts.calls += [state.calls.pop(key) for key in list(state.calls) if key not in calls]
    why = "captured by torch.cuda.graph"
    state.module.facts.roots.append(Root("function", name, why, node.lineno))
    state.module.cannot_repeat()


def exec_try(state: State, node: ast.Try) -> bool:
    """``try: ... except ...: ...``: handlers begin with what any part of the body may leave."""
    start, guards = dict(state.env), state.guards
    ended = state.run(node.body)
    after, state.guards = state.env, guards
    ends = [ended]
    results = [] if ended else [after]
    for handler in node.handlers:
        state.env = join_environments(start, dict(after))
        if handler.name:
            state.env[handler.name] = v.OTHER_VALUE
        state.quiet += 1
        handler_ended = state.run(handler.body)
        state.quiet -= 1
        ends.append(handler_ended)
        if not handler_ended:
            results.append(state.env)
    state.env = after
    if not ended and node.orelse:
        if state.run(node.orelse):
            results = [result for result in results if result is not after]
            ends[0] = True
        else:
            results[0] = state.env
    if results:
        state.env = reduce(join_environments, results)
    return state.run(node.finalbody) or all(ends)


def exec_match(state: State, node: ast.Match) -> bool:
    """``match subject: case ...: ...``."""
    subject = state.ev(node.subject)
    if subject.is_tensor and any(_compares(case.pattern) for case in node.cases):
        state.event("branch.if", span_of(node.subject), "match", subject)
    start = state.env
    results = [start]
    for case in node.cases:
        state.env = dict(start)
        _bind_pattern(state, case.pattern)
        if case.guard is not None:
            truth(state, case.guard, "branch.if")
        guards = state.guards
        if not state.run(case.body):
            results.append(state.env)
        state.guards = guards
    state.env = reduce(join_environments, results)
    return False


def _compares(pattern: ast.pattern) -> bool:
    """Whether a pattern compares what is matched itself with a value."""
    if isinstance(pattern, ast.MatchAs):
        return pattern.pattern is not None and _compares(pattern.pattern)
    if isinstance(pattern, ast.MatchOr):
        return any(map(_compares, pattern.patterns))
    return isinstance(pattern, ast.MatchValue)


def _bind_pattern(state: State, pattern: ast.pattern) -> None:
    """Bind the names that a pattern captures: nothing is known of the parts of what it matches."""
    for node in walk(pattern):
        name = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name", None)
        if name:
            state.env[name] = v.UNKNOWN_VALUE


def join_environments(a: dict[str, Value], b: dict[str, Value]) -> dict[str, Value]:
    """The environment after two paths meet; a name bound on one path keeps what it is there."""
    joined = dict(a)
    for name, value in b.items():
        old = joined.get(name)
        if old is None:
            joined[name] = value._replace(const=None) if value.const is not None else value
        elif old is not value:
            joined[name] = v.join(as_made(old, value), as_made(value, old))
    for name in a:
        if name not in b and joined[name].const is not None:
            joined[name] = joined[name]._replace(const=None)
    return joined


def captures_with(node: ast.With, qualified: Callable[[ast.expr], str | None]) -> bool:
    """Whether a with statement captures a CUDA graph."""
    calls = (each.context_expr for each in node.items if isinstance(each.context_expr, ast.Call))
    return any(qualified(each.func) in ops.CAPTURES for each in calls)
