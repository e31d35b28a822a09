"""Control flow: reaching definitions and dominators, compared with what happens when made-up
functions are run on every possible sequence of choices.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_lint.analysis.control_flow.flow_graph import (
    FlowGraph,
    dominators,
    immediate_dominators,
)
from pygraph_lint.analysis.control_flow.reaching_definitions import FileDefinitions, ScopeFlow
from pygraph_lint.analysis.control_flow.statement_graph import BindingKind

NAMES = ("a", "b")
CHOICES = 7
HELPERS = ("choose", "see", "turns", "fail")


class OutOfChoices(BaseException):
    """The sequence of choices is used up."""


class Failed(Exception):
    """What a made-up function raises."""


class Run:
    """One run of a made-up function, on one sequence of choices."""

    def __init__(
        self, left: list[bool], seen: dict[tuple[int, str], set[int]], passed: dict[int, set[int]]
    ) -> None:
        self.left, self.seen, self.passed = left, seen, passed
        self.trace: list[int] = []

    def choose(self) -> bool:
        if not self.left:
            raise OutOfChoices
        return self.left.pop()

    def see(self, line: int, a: int, b: int) -> None:
        self.seen[line, "a"].add(a)
        self.seen[line, "b"].add(b)
        self.passed[line] = self.passed.get(line, set(self.trace)) & set(self.trace)
        self.trace.append(line)

    def turns(self, line: int) -> Iterator[int]:
        while self.choose():
            yield line

    def fail(self) -> None:
        if self.choose():
            raise Failed

    def whole(self, code: CodeType) -> bool:
        """Run to the end; False where the choices did not last."""
        scope: dict[str, Any] = {name: getattr(self, name) for name in HELPERS}
        scope["Failed"] = Failed
        exec(code, scope)
        try:
            scope["f"](1, 1)
        except Failed:
            pass
        except OutOfChoices:
            return False
        return True


def _blocks(depth: int, exceptions: bool) -> st.SearchStrategy[list[str]]:
    """The lines of a block. Every statement has its mark: ``see(<names>)`` is filled in later."""
    name = st.sampled_from(NAMES)
    simple = [name.map(lambda n: [f"{n} = DEFINE"]), st.just(["SEE"])]
    jumps = [st.just(["if choose():", "    return"])]
    if exceptions:
        jumps.append(st.just(["fail()"]))
    if depth == 0:
        return st.lists(st.one_of(*simple), min_size=1, max_size=2).map(_joined)
    inner = _blocks(depth - 1, exceptions)
    compound = [
        st.tuples(inner, inner).map(lambda p: ["if choose():", *_in(p[0]), "else:", *_in(p[1])]),
        inner.map(lambda p: ["while choose():", *_in(p)]),
        st.tuples(inner, st.sampled_from(("break", "continue"))).map(
            lambda p: [
                "while choose():",
                *_in(p[0]),
                "    if choose():",
                f"        {p[1]}",
                "    SEE",
            ]
        ),
        st.tuples(name, inner, inner).map(
            lambda p: [f"for {p[0]} in turns(LOOP):", *_in(p[1]), "else:", *_in(p[2])]
        ),
    ]
    if exceptions:
        compound += [
            st.tuples(inner, inner).map(
                lambda p: ["try:", *_in(p[0]), "except Failed:", *_in(p[1])]
            ),
            st.tuples(inner, inner, inner).map(
                lambda p: ["try:", *_in(p[0]), "except Failed:", *_in(p[1]), "finally:", *_in(p[2])]
            ),
        ]
    return st.lists(st.one_of(*simple, *jumps, *compound), min_size=1, max_size=3).map(_joined)


def _joined(parts: list[list[str]]) -> list[str]:
    return [line for part in parts for line in part]


def _in(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _program(lines: list[str]) -> str:
    """Number the marks: a definition binds its own line number, a use tells its line number."""
    text = ["def f(a, b):", "    SEE", *_in(lines), "    SEE"]
    numbered = []
    for number, line in enumerate(text, 1):
        line = line.replace("DEFINE", str(number)).replace("LOOP", str(number))
        numbered.append(line.replace("SEE", f"see({number}, a, b)"))
    return "\n".join(numbered) + "\n"


def _observe(source: str) -> tuple[dict[tuple[int, str], set[int]], dict[int, set[int]], bool]:
    """What runs show: the lines of the definitions that each use saw, the uses that were passed on
    every way to a use, and whether all ways were run to the end.
    """
    code = compile(source, "made up", "exec")
    seen: dict[tuple[int, str], set[int]] = defaultdict(set)
    passed: dict[int, set[int]] = {}
    complete = True
    for bits in itertools.product((False, True), repeat=CHOICES):
        run = Run(list(bits), seen, passed)
        complete = run.whole(code) and complete
    return seen, passed, complete


def _computed(source: str) -> tuple[dict[tuple[int, str], set[int]], dict[int, set[int]]]:
    tree = ast.parse(source)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    definitions = FileDefinitions(tree)
    seen: dict[tuple[int, str], set[int]] = {}
    passed: dict[int, set[int]] = {}
    uses = {
        node.args[0].value: node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "see"
        if isinstance(node.args[0], ast.Constant)
    }
    for line, call in uses.items():
        for name in call.args[1:]:
            assert isinstance(name, ast.Name)
            seen[line, name.id] = {d.node.lineno for d in definitions.reaching(name)}  # type: ignore[attr-defined]
        flow = definitions.flow(function)
        passed[line] = {other for other, node in uses.items() if flow.runs_before(node, call)}
    return seen, passed


@given(_blocks(2, exceptions=False))
@settings(max_examples=60, deadline=None)
def test_definitions_and_dominators_are_what_runs_show(lines: list[str]) -> None:
    source = _program(lines)
    shown, passed, complete = _observe(source)
    seen, before = _computed(source)
    for use, found in shown.items():
        assert found <= seen[use], (source, use)
    for line, always in passed.items():
        assert before[line] <= always, (source, line)
    if complete:
        assert {use: found for use, found in seen.items() if found} == shown, source
        assert {line: before[line] for line in passed} == passed, source


@given(_blocks(2, exceptions=True))
@settings(max_examples=60, deadline=None)
def test_exceptions_leave_no_definition_out(lines: list[str]) -> None:
    source = _program(lines)
    shown, passed, _ = _observe(source)
    seen, before = _computed(source)
    for use, found in shown.items():
        assert found <= seen[use], (source, use)
    for line, always in passed.items():
        assert before[line] <= always, (source, line)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_dominators_of_any_graph(edges: list[tuple[int, int]]) -> None:
    graph = FlowGraph()
    for _ in range(7):
        graph.add_node()
    for source, target in edges:
        if target:
            graph.add_edge(source, target)

    def reached(without: int | None) -> set[int]:
        found, front = set(), [0]
        while front:
            node = front.pop()
            if node not in found and node != without:
                found.add(node)
                front += graph.successors[node]
        return found

    immediate = immediate_dominators(graph)
    assert set(immediate) == reached(None)
    for node in immediate:
        wanted = {other for other in immediate if other != node and node not in reached(other)}
        assert set(dominators(immediate, node)) == wanted


def _definitions(source: str, line: int, name: str) -> list[tuple[BindingKind, int]]:
    tree = ast.parse(textwrap.dedent(source))
    (load,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if node.lineno == line and node.id == name
    ]
    found = FileDefinitions(tree).reaching(load)
    return sorted(((d.kind, getattr(d.node, "lineno", 0)) for d in found), key=lambda each: each[1])


def test_names_may_be_unbound() -> None:
    source = """\
    def f(c):
        if c:
            x = 1
        return x
    """
    assert _definitions(source, 4, "x") == [(BindingKind.UNBOUND, 1), (BindingKind.ASSIGNED, 3)]


def test_a_name_bound_in_a_test_is_bound_behind_it() -> None:
    source = """\
    def f(c):
        if c and (x := c + 1):
            return x
        if (y := c):
            return y
    """
    assert _definitions(source, 3, "x") == [(BindingKind.UNBOUND, 1), (BindingKind.NAMED, 2)]
    assert _definitions(source, 5, "y") == [(BindingKind.NAMED, 4)]


def test_inner_functions_see_every_definition_around_them() -> None:
    source = """\
    def f():
        x = 1
        def g():
            return x
        x = 2
        return [x for x in g()], lambda x: x + 1
    """
    assert _definitions(source, 4, "x") == [(BindingKind.ASSIGNED, 2), (BindingKind.ASSIGNED, 5)]
    nonlocal_ = source.replace("return x\n", "nonlocal x\n        return x\n", 1)
    assert [kind for kind, _ in _definitions(nonlocal_, 5, "x")] == [BindingKind.OUTSIDE]


def test_comprehensions_have_names_of_their_own() -> None:
    source = """\
    def f(x):
        return [x for x in
                x]
    """
    assert _definitions(source, 2, "x") == [(BindingKind.COMPREHENSION, 2)]
    assert _definitions(source, 3, "x") == [(BindingKind.PARAMETER, 1)]


def test_a_block_that_may_swallow_an_exception_may_stop_anywhere() -> None:
    source = """\
    def f(g):
        x = 1
        with {}:
            g()
            x = 2
        return x
    """
    swallowing = source.format("contextlib.suppress(KeyError)")
    assert [line for _, line in _definitions(swallowing, 6, "x")] == [2, 5]
    assert [line for _, line in _definitions(source.format("torch.no_grad()"), 6, "x")] == [5]


def test_the_reads_that_see_a_definition() -> None:
    tree = ast.parse("def f(c):\n    x = 1\n    if c:\n        x = 2\n        c(x)\n    return x\n")
    definitions = FileDefinitions(tree)
    flow = definitions.flow(tree.body[0])  # type: ignore[arg-type]
    assert isinstance(flow, ScopeFlow)
    first, second = flow.every("x")
    assert [use.lineno for use in definitions.uses(first)] == [6]
    assert [use.lineno for use in definitions.uses(second)] == [5, 6]
    assert [d.node for d in flow.every("x")] == [first.node, second.node]
    assert definitions.definition_at(first.node) is first


def test_a_name_that_is_counted_up_or_deleted_is_read() -> None:
    tree = ast.parse("def f():\n    x = 1\n    x += 1\n    y = 2\n    del y\n    return x\n")
    definitions = FileDefinitions(tree)
    flow = definitions.flow(tree.body[0])  # type: ignore[arg-type]
    (first, second), (third, _) = flow.every("x"), flow.every("y")
    assert [use.lineno for use in definitions.uses(first)] == [3]
    assert [use.lineno for use in definitions.uses(second)] == [6]
    assert [use.lineno for use in definitions.uses(third)] == [5]
