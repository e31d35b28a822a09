"""Training loops of one file: what each step of them does that makes the host wait.

A host loop is the innermost loop in which gradients are computed or a compiled module is called; a
function that computes gradients outside of a loop, and a step or hook that a trainer calls, is run
on every step as a whole. What stands behind ``step % n``, or leaves the loop, is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.events import Event, Need, Needs
from pygraph_lint.analysis.known import ProjectView
from pygraph_lint.analysis.literals import How, Tested, comparison
from pygraph_lint.analysis.loaders import OF_EVALUATION, unpinned
from pygraph_lint.analysis.loop_costs import Costs
from pygraph_lint.analysis.loop_edges import edges, maps
from pygraph_lint.analysis.loop_hints import has_modulo
from pygraph_lint.analysis.loop_joins import path_to
from pygraph_lint.analysis.loop_steps import (
    LOOPS,
    functions_of,
    is_in_inner_loop,
    steps,
)
from pygraph_lint.analysis.loop_values import LoopValues
from pygraph_lint.analysis.model import (
    ACTS,
    COLLATES,
    GIVES,
    MAY_CALL_STEP,
    MOVES,
    NO_BODIES,
    PER_BATCH,
    Call,
    FileLoops,
    LoopBody,
)
from pygraph_lint.analysis.nodes import children, dotted, walk
from pygraph_lint.analysis.queries import FileQueries
from pygraph_lint.analysis.statement_graph import FUNCTIONS, BindingKind

_ONLY_COPYING = frozenset((COLLATES, MOVES, GIVES))  # of which nothing else is said
_NOT_COMPUTING = PER_BATCH | {MAY_CALL_STEP, ACTS}


def loop_bodies(
    tree: ast.Module, module: str, is_package: bool, placed: Callable[[Event], Event]
) -> FileLoops:
    """What the steps of training loops do: one body a loop or step function, and one for each
    other function of the file, which counts where a step calls it. The latter are worked out when
    they are asked for. ``placed`` gives an event with its final span.
    """
    values = LoopValues(FileQueries(tree, ProjectView(module, is_package)))
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
    values = LoopValues(FileQueries(tree, ProjectView(module, is_package)))
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
        for node in functions_of(values.queries):
            self._nodes.setdefault(values.name_of(node) or "", []).append(node)

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
            return LoopBody(values.name_of(node) or "", 0, "", [], [])
        finally:
            values.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def _body(values: LoopValues, node: ast.AST, why: str) -> LoopBody:
    queries = values.queries
    function = node if isinstance(node, (*FUNCTIONS, ast.Module)) else queries.scope(node)
    statements = [] if isinstance(node, ast.Lambda) else list(node.body)  # type: ignore[attr-defined]
    name = values.name_of(function) or ""
    run = list(_run_each_time(values, statements))
    options = _options(values, run)
    tests = [node.test] if isinstance(node, ast.While) else []
    costs = Costs(values, bool(why) and why not in _NOT_COMPUTING, node)
    parts: list[tuple[ast.expr, Needs]] = [(part, ()) for part in tests]
    parts += [(part, options[each]) for each in run for part in _evaluated(each)]
    events: list[Event] = []
    calls: list[Call] = []
    inner_calls: list[Call] = []
    for statement in [node, *run] if isinstance(node, ast.While) else run:
        events += _given(costs.of_statement(statement), options.get(statement, ()))
    whole = why not in ("", MAY_CALL_STEP)
    for part, needs in parts:
        counts = whole or not is_in_inner_loop(queries, node, part)
        for inner in _expressions(values, part):
            events += _given(costs.of_expression(inner), needs)
            if isinstance(inner, ast.Call):
                (calls if counts else inner_calls).extend(edges(values, inner))
    returned = [statement.value for statement in run if isinstance(statement, ast.Return)]
    gives = [values.of(each) for each in returned if each is not None] if not why else []
    result = next((each for each in gives if each.kinds != v.UNKNOWN), None)
    line = getattr(node, "lineno", 1)
    moves = bool(why) and costs.moves_batches
    if moves:
        events += _unpinned(values)
    if why in _ONLY_COPYING:
        events = [event for event in events if event.kind == "loop.copy"]
    once = {(event.kind, event.span): event for event in events}
    kept = None if result is None else v.shallow(result, 2)
    return LoopBody(
        name, line, why, list(once.values()), calls, kept, node is function, inner_calls, moves
    )


def _unpinned(values: LoopValues) -> Iterator[Event]:
    """Data loaders of the file that do not pin the memory of their batches."""
    for node in values.queries.of_kind(ast.Call):
        name = dotted(node.func)
        if name is None or not name.endswith("DataLoader"):
            continue
        parent = values.queries.parent(node)
        targets = parent.targets if isinstance(parent, ast.Assign) else []
        event = unpinned(node)
        if event is not None and not any(
            OF_EVALUATION.search(dotted(target) or "") for target in targets
        ):
            yield event


# -- what runs on each step ------------------------------------------------------------------------


def _run_each_time(values: LoopValues, body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, and of blocks in it, that are not behind ``step % n`` and do not
    end the loop.
    """
    for statement in body:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Raise)):
            continue
        yield statement
        if isinstance(statement, ast.If):
            rare = _is_rare(values, statement.test) or _runs_once(values, statement)
            usual = _asks_if_finite(statement.test)
            if usual is None:
                usual = _asks_if_training(statement.test)
            if not rare and usual is not False and not _leaves(statement.body):
                yield from _run_each_time(values, statement.body)
            if usual is not True and not _leaves(statement.orelse):
                yield from _run_each_time(values, statement.orelse)
            if rare and _skips(statement.body) and _is_usual(statement.test):
                return  # `if step % n: continue`: what follows runs rarely
        elif isinstance(statement, (*LOOPS, ast.With, ast.AsyncWith)):
            yield from _run_each_time(values, statement.body)
        elif isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar":
            yield from _run_each_time(values, statement.body)  # type: ignore[attr-defined]
            yield from _run_each_time(values, statement.finalbody)  # type: ignore[attr-defined]
        elif isinstance(statement, ast.Match):
            for case in statement.cases:
                yield from _run_each_time(values, case.body)


def _options(values: LoopValues, run: list[ast.stmt]) -> dict[ast.AST, Needs]:
    """Which parts of an object have to be there for statements to run: ``if self.head is not
    None``. What may be switched on says how a loop costs then.
    """
    found: dict[ast.AST, Needs] = {}
    for statement in run:
        above = found.get(values.queries.parent(statement) or statement, ())
        around = values.queries.parent(statement)
        if isinstance(around, ast.If):
            above = (*above, *_asked(values, around.test, statement in around.body))
        found[statement] = above
    return found


def _asked(values: LoopValues, test: ast.expr, outcome: bool) -> Needs:
    """What options have to be where a condition comes out so."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, outcome = test.operand, not outcome
    if isinstance(test, ast.BoolOp):
        all_said = isinstance(test.op, ast.And) == outcome
        parts = test.values if all_said else []
        return tuple(need for each in parts for need in _asked(values, each, outcome))
    compared, owner = comparison(test), values.queries.owner(test)
    node = compared[0] if compared is not None else test
    of_parts = compared is not None and compared[1].how is How.NONE
    if compared is None or not of_parts or owner is None or not isinstance(node, ast.Attribute):
        return ()
    stored = values.evidence.assigned_to_self.get((owner, node.attr), ())
    inside = any(
        getattr(values.queries.scope(target), "name", "") != "__init__" for target, _ in stored
    )
    if dotted(node.value) != "self" or inside:
        return ()
    tests = (Tested(node.attr, compared[1], compared[2] == outcome),)
    return (Need("set", f"{values.module}.{owner.name}", "", tests=tests),)


def _given(events: Iterable[Event], needs: Needs) -> Iterator[Event]:
    """Events that happen only where options are so."""
    for event in events:
        yield event._replace(needs=(*needs, *event.needs)) if needs else event


def _runs_once(values: LoopValues, branch: ast.If) -> bool:
    """``if self.first: ...; self.first = False``, ``if self.table is None: self.table = ...``: a
    branch that makes its own condition fail, which nothing else of the class does but ``__init__``.
    """
    test, ends_false = branch.test, True
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, ends_false = test.operand, False
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
        elif getattr(values.queries.scope(target), "name", "") != "__init__":
            return False
    return ends


def _is_usual(test: ast.expr) -> bool:
    """Whether a condition that has to do with the number of a step holds on most steps."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not _is_usual(test.operand)
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.Or) and any(map(_is_usual, test.values))
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], (ast.NotEq, ast.Gt))
    return isinstance(test, ast.BinOp)


def _asks_if_finite(test: ast.expr) -> bool | None:
    """Whether a condition holds for finite values, True, or for others, False: these are rare."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _asks_if_finite(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = {_asks_if_finite(each) for each in test.values} - {None}
        return parts.pop() if len(parts) == 1 else None
    for node in walk(test):
        last = (dotted(node.func) or "").rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if last in ("isfinite", "isnan", "isinf"):
            return last == "isfinite"
    return None


def _asks_if_training(test: ast.expr) -> bool | None:
    """Whether a condition holds in training, True, or only outside of it, False."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _asks_if_training(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        # One part that fails in training is enough for `and`; others may be anything.
        parts = {_asks_if_training(each) for each in test.values}
        return False if isinstance(test.op, ast.And) and False in parts else None
    texts = _texts(test)
    if texts:
        train = any(each.lower() in ("train", "training", "fit") for each in texts)
        return True if train else False if all(map(OF_EVALUATION.search, texts)) else None
    last = (dotted(test) or "").rpartition(".")[2]
    return True if last in ("train", "training", "is_train", "is_training") else None


def _texts(test: ast.expr) -> list[str]:
    """The texts of which a condition asks for one: ``phase == "train"``."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.In)):
        return []
    right = test.comparators[0]
    parts = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else [right]
    known = (each.value for each in parts if isinstance(each, ast.Constant))
    return [each for each in known if isinstance(each, str)]


def _is_rare(values: LoopValues, test: ast.expr, depth: int = 3) -> bool:
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
            if any(word in last for word in _RARE_WORDS) or _ENDS_EPISODE.fullmatch(last):
                return True
            if any(_is_rare(values, each, depth - 1) for each in _stands_for(values, node)):
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
_RARE_WORDS = (
    *("interval", "every", "freq", "should_log", "is_last", "last_batch", "debug", "verbose"),
    *("sync_gradients", "should_save", "should_eval", "log_step", "do_log", "profil", "trigger"),
)


_ENDS_EPISODE = re.compile(r"(is_|episode_|env_)?(done|terminated|truncated|terminal)")
_COUNTERS = re.compile(
    r"i|ni|idx|index|(?!max_|num_|n_|total_)(\w+_)?(step|iter|itr|iteration|batch_(i|idx|index|id|nb))"
)
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
    if _COUNTERS.fullmatch((dotted(node) or "").rpartition(".")[2]) is not None:
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


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block ends the loop or the program: it runs once at most."""
    last = body[-1] if body else None
    if isinstance(last, (ast.Raise, ast.Break)):
        return True
    call = last.value if isinstance(last, ast.Expr) else None
    return isinstance(call, ast.Call) and dotted(call.func) in ("sys.exit", "exit", "quit")


def _skips(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Continue, ast.Return))


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
                if any(_is_rare(values, each) for each in before):
                    return
            if isinstance(part, ast.IfExp) and child is part.body and _is_rare(values, part.test):
                continue
            yield from _expressions(values, child)
        elif isinstance(child, (ast.keyword, ast.comprehension)):
            for inner in children(child):
                if isinstance(inner, ast.expr):
                    yield from _expressions(values, inner)
