"""Training loops of one file: what each step of them does that makes the host wait.

A host loop is the innermost loop in which gradients are computed or a compiled module is called; a
function that computes gradients outside of a loop, and a step or hook that a trainer calls, is run
on every step as a whole. What stands behind ``step % n``, or leaves the loop, is not.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.class_tests import class_test
from pygraph_lint.analysis.domain.events import Event, Need, Needs
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.loops.call_edges import edges, generated, maps, parameter, turns
from pygraph_lint.analysis.loops.calls import PREPARED, over_batches
from pygraph_lint.analysis.loops.costs import Costs
from pygraph_lint.analysis.loops.data_loaders import OF_EVALUATION, is_read_once, unpinned
from pygraph_lint.analysis.loops.evidence import LoopQueries
from pygraph_lint.analysis.loops.iterations import is_rare, statements_of_each_iteration
from pygraph_lint.analysis.loops.steps import (
    COMPREHENSIONS,
    LOOPS,
    is_in_inner_loop,
    steps,
)
from pygraph_lint.analysis.loops.values import LoopValues
from pygraph_lint.analysis.program.facts import (
    ACTS,
    COLLATES,
    GIVES,
    MAY_CALL_STEP,
    MOVES,
    NO_BODIES,
    Call,
    FileLoops,
    LoopBody,
)
from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.queries.interface import ProjectView
from pygraph_lint.analysis.syntax.literal_tests import (
    LiteralTest,
    ParameterTest,
    TestKind,
    comparison,
)
from pygraph_lint.analysis.syntax.nodes import children, dotted, last_part, walk, without_not

_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_ONLY_COPYING = frozenset((COLLATES, MOVES, GIVES))  # of which nothing else is said


def loop_bodies(
    tree: ast.Module, module: str, is_package: bool, placed: Callable[[Event], Event]
) -> FileLoops:
    """What the steps of training loops do: one body a loop or step function, and one for each
    other function of the file, which counts where a step calls it. The latter are worked out when
    they are asked for. ``placed`` gives an event with its final span.
    """
    values = LoopValues(LoopQueries(tree, ProjectView(module, is_package)))
    try:
        bodies = [_body(values, node, why) for node, why in steps(values)]
        found = [_placed(body, placed) for body in bodies if not body.is_empty]
    except RecursionError:
        return NO_BODIES  # nested beyond reason
    finally:
        values.close()
    return FileLoops(found, Helpers(values, placed))


def helpers(
    tree: ast.Module, module: str, is_package: bool, placed: Callable[[Event], Event]
) -> Mapping[str, LoopBody]:
    """The helpers that ``loop_bodies`` gives, without the bodies of steps."""
    values = LoopValues(LoopQueries(tree, ProjectView(module, is_package)))
    try:
        return Helpers(values, placed)
    finally:
        values.close()


def _placed(body: LoopBody, placed: Callable[[Event], Event]) -> LoopBody:
    return replace(body, events=list(map(placed, body.events)))


class Helpers(Mapping[str, LoopBody]):
    """What each function of a file does, by name."""

    def __init__(self, values: LoopValues, placed: Callable[[Event], Event]) -> None:
        """``values`` are of the file's steps: only the evidence for them is used."""
        self._placed = placed
        self._queries, self._evidence = values.queries, values.evidence
        self._nodes: dict[str, list[ast.AST]] = {}
        self._known: dict[str, LoopBody] = {}
        for node in values.queries.definitions.functions:
            self._nodes.setdefault(values.parameters.name_of(node) or "", []).append(node)

    def __getitem__(self, name: str) -> LoopBody:
        if name not in self._known:
            found = list(map(self._body, self._nodes[name]))
            # Of several definitions the last one counts; all are in the file.
            last = next((body for body in reversed(found) if not body.is_empty), found[-1])
            events = [self._placed(event) for body in found for event in body.events]
            self._known[name] = replace(last, events=events)
        return self._known[name]

    def _body(self, node: ast.AST) -> LoopBody:
        """What a function does. It does not depend on what was asked before: values that rest on
        themselves do.
        """
        values = LoopValues(self._queries, self._evidence)
        try:
            return _body(values, node, "")
        except RecursionError:
            return LoopBody(values.parameters.name_of(node) or "", 0, "", [], [])
        finally:
            values.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def _body(values: LoopValues, node: ast.AST, why: str) -> LoopBody:
    queries = values.queries
    function = node if isinstance(node, (*FUNCTIONS, ast.Module)) else queries.scope(node)
    empty = isinstance(node, _NO_BODY) or _does_little(node)
    statements = [] if empty else list(node.body)  # type: ignore[attr-defined]
    turn = _turn(queries, node) if why in ("", GIVES) else None
    statements = statements if turn is None else turn
    name = values.parameters.name_of(function) or ""
    run = list(statements_of_each_iteration(values, statements))
    options = _options(values, run)
    tests = [node.test] if isinstance(node, ast.While) else _of_each_turn(node)
    costs = Costs(values, node, why)
    parts: list[tuple[ast.expr, Needs]] = [(part, ()) for part in tests]
    parts += [(part, options[each]) for each in run for part in _evaluated(each)]
    events: list[Event] = []
    rare_calls = list(_rare_calls(values, node, parts)) if why == ACTS else []
    for statement in [node, *run] if isinstance(node, ast.While) else run:
        events += _given(costs.of_statement(statement), options.get(statement, ()))
    calls: list[Call] = []
    inner_calls = [each for loop in (node, *run) for each in turns(values, loop)]
    iterates = [each for loop in (node, *run) for each in generated(values, loop)]
    whole = why not in ("", MAY_CALL_STEP)
    for part, needs in parts:
        counts = whole or not is_in_inner_loop(queries, node, part)
        for inner in _expressions(values, part):
            events += _given(costs.of_expression(inner), needs)
            if isinstance(inner, ast.Call):
                made = (call._replace(needs=needs) for call in edges(values, inner))
                own = counts and (whole or not is_in_inner_loop(queries, node, inner))
                (calls if own else inner_calls).extend(made)
    events = _told_once(values, costs, why, events)
    given = _result(values, run) if not why else None
    found = LoopBody(name, getattr(node, "lineno", 1), why, events, calls, given, node is function)
    found.inner_calls, found.rare_calls, found.iterates = inner_calls, rare_calls, iterates
    found.moves_batches, found.yields = costs.copies.moves_batches, turn is not None
    found.passes = bool(why) and _goes_over_batches(node)
    return found


def _told_once(values: LoopValues, costs: Costs, why: str, events: list[Event]) -> list[Event]:
    """The costs that are told of a body, each place once."""
    if why and costs.copies.moves_batches:
        events = [*events, *_unpinned(values)]
    if why in _ONLY_COPYING:
        events = [event for event in events if event.kind == "loop.copy"]
    return list({(event.kind, event.span): event for event in events}.values())


_NO_BODY = (ast.Lambda, *COMPREHENSIONS)
_OF_PLOTS = frozenset(("ax", "axs", "fig"))
_CACHES = ("cache", "lru_cache")


def _does_little(node: ast.AST) -> bool:
    """Whether a function draws a plot, for people to look at, or keeps what it gave for the same
    arguments: it does nothing on most steps.
    """
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    named = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
    by = (getattr(each, "func", each) for each in node.decorator_list)
    return not _OF_PLOTS.isdisjoint(named) or any(last_part(each) in _CACHES for each in by)


def _goes_over_batches(node: ast.AST) -> bool:
    """Whether each turn of a loop or a comprehension has a batch of its own."""
    loop = isinstance(node, ast.For) and over_batches(node.iter)
    return loop or isinstance(node, COMPREHENSIONS)


def _of_each_turn(node: ast.AST) -> list[ast.expr]:
    """What a comprehension evaluates for each element; nothing of other code."""
    if not isinstance(node, COMPREHENSIONS):
        return []
    first, *others = node.generators
    made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return [*first.ifs, *(part for each in others for part in (each.iter, *each.ifs)), *made]


def _turn(queries: FileQueries, function: ast.AST) -> list[ast.stmt] | None:
    """What a generator does for each value that it gives: the innermost loop around a `yield`."""
    for node in walk(function):
        if isinstance(node, ast.Yield) and queries.scope(node) is function:
            loop = next((each for each in queries.path(node) if isinstance(each, LOOPS)), None)
            return list(loop.body) if loop is not None else None
    return None


def _result(values: LoopValues, run: list[ast.stmt]) -> Value | None:
    """What the first `return` of a function gives of which something is known."""
    returned = [statement.value for statement in run if isinstance(statement, ast.Return)]
    found = (values.of(each) for each in returned if each is not None)
    result = next((each for each in found if each.kinds != v.UNKNOWN), None)
    return None if result is None else v.shallow(result, 2)


def _rare_calls(
    values: LoopValues, loop: ast.AST, parts: list[tuple[ast.expr, Needs]]
) -> Iterator[Call]:
    """The calls of a loop that are not made on each of its turns."""
    usual = {inner for part, _ in parts for inner in walk(part)}
    for node in walk(loop):
        if isinstance(node, ast.Call) and node not in usual:
            yield from edges(values, node)


def _unpinned(values: LoopValues) -> Iterator[Event]:
    """Data loaders of the file that do not pin the memory of their batches."""
    for node in values.queries.of_kind(ast.Call):
        name = values.queries.qualified(node.func) or dotted(node.func) or ""
        if not name.endswith("DataLoader") or values.of(node) == PREPARED:
            continue
        parent = values.queries.parent(node)
        targets = parent.targets if isinstance(parent, ast.Assign) else []
        event = unpinned(node)
        scope = values.queries.scope(node)
        if event is not None and not any(
            OF_EVALUATION.search(dotted(target) or "") or is_read_once(target, scope)
            for target in targets
        ):
            yield event


def _options(values: LoopValues, run: list[ast.stmt]) -> dict[ast.AST, Needs]:
    """Which options of an object have to be set, and what callers have to pass, for statements to
    run: ``if self.head is not None``, ``if mode == "train"``, below ``if mask is None: return``.
    """
    found: dict[ast.AST, Needs] = {}
    for statement in run:
        around = values.queries.parent(statement) or statement
        above = found.get(around, ())
        if isinstance(around, ast.If):
            above = (*above, *_asked(values, around.test, statement in around.body))
        block = values.queries.block(statement)
        for each in block[: block.index(statement)] if block else ():
            if isinstance(each, ast.If) and not each.orelse and isinstance(each.body[-1], _LEAVING):
                above = (*above, *_asked(values, each.test, False))
        found[statement] = above
    return found


def _asked(values: LoopValues, test: ast.expr, outcome: bool) -> Needs:
    """What options have to be where a condition comes out so."""
    test, outcome = without_not(test, outcome)
    if isinstance(test, ast.BoolOp):
        found = [_asked(values, each, outcome) for each in test.values]
        if isinstance(test.op, ast.And) == outcome:
            return tuple(need for each in found for need in each)
        choices = tuple(tuple(need for need in each if need.kind == "may") for each in found)
        return (Need("any", "", "", choices),) if all(choices) else ()
    of_class = class_test(values.queries.qualified, test)
    compared, owner = comparison(test), values.queries.owner(test)
    if of_class is not None:
        compared = of_class[0], LiteralTest(TestKind.KIND, (), of_class[1]), of_class[2]
    if compared is None:
        return ()
    node, asked = compared[0], compared[1]
    given = parameter(values, node)
    if given is not None:
        tests = (ParameterTest(given.name, asked, compared[2] == outcome),)
        return (Need("may", given.owner, "", tests=tests),)
    if owner is None or not isinstance(node, ast.Attribute) or dotted(node.value) != "self":
        return ()
    if of_class is not None:
        return ()  # a default says little of the kinds that an option may have
    stored = values.evidence.assigned_to_self.get((owner, node.attr), ())
    scopes = (values.queries.scope(target) for target, _ in stored)
    if any(getattr(scope, "name", "") != "__init__" for scope in scopes):
        return ()
    tests = (ParameterTest(node.attr, asked, compared[2] == outcome),)
    return (Need("set", f"{values.module}.{owner.name}", "", tests=tests),)


def _given(events: Iterable[Event], needs: Needs) -> Iterator[Event]:
    """Events that happen only where options are so."""
    for event in events:
        yield event._replace(needs=(*needs, *event.needs)) if needs else event


def _evaluated(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement alone, without those of blocks in it."""
    for name, field in ast.iter_fields(statement):
        if name == "msg":
            continue  # of an assert that fails
        for each in field if isinstance(field, list) else [field]:
            if isinstance(each, ast.expr):
                yield each
            elif isinstance(each, ast.withitem):
                yield each.context_expr


def _expressions(values: LoopValues, part: ast.expr) -> Iterator[ast.expr]:
    """An expression and those in it that are evaluated with it on every step."""
    yield part
    if isinstance(part, ast.Lambda):
        call = values.queries.parent(part)
        if not isinstance(call, ast.Call) or not maps(call):
            return
    for child in children(part):
        if isinstance(child, ast.expr):
            if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.And):
                before = part.values[: part.values.index(child)]
                if any(is_rare(values, each) for each in before):
                    return
            if isinstance(part, ast.IfExp) and child is part.body and is_rare(values, part.test):
                continue
            yield from _expressions(values, child)
        elif isinstance(child, (ast.keyword, ast.comprehension)):
            for inner in children(child):
                if isinstance(inner, ast.expr):
                    yield from _expressions(values, inner)
