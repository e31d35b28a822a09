"""Modules that are made in a function which torch.compile does not trace.

A break in a loop or a `try`, and one in a method of an object that is made here, makes
torch.compile give up on the whole function; torch.compiler.disable(recursive=False) says so. Its
calls are then traced one by one. A constructor of
a module that is traced so begins with an object that has nothing yet: the graph breaks at
`super().__init__()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pygraph_lint.analysis.call_graph import edges
from pygraph_lint.analysis.events import Event, Needs
from pygraph_lint.analysis.graph_ends import BREAKING_EVENTS, UNSURE, GraphEnds
from pygraph_lint.analysis.model import Call, FunctionFacts
from pygraph_lint.analysis.program import Program

_ENDING = BREAKING_EVENTS - {"effect.log"}  # what is logged in a loop, most calls never come to


def made_untraced(
    program: Program,
    functions: Iterable[str],
    left_out: Iterable[str],
    all_hold: Callable[[Needs], bool],
) -> frozenset[str]:
    """The constructors of modules that are traced alone.

    Given the functions in regions, those in between that are left out of them alone, and whether
    what events need holds.
    """
    ends = GraphEnds(program)
    front = [made for name in left_out for made in _constructors(program, program.functions[name])]
    for name in functions:
        facts = program.functions[name]
        made = list(_constructors(program, facts))
        if made and _gives_up(program, facts, all_hold, ends):
            front += made
    found: set[str] = set()
    while front:
        name = front.pop()
        if name not in found:
            found.add(name)
            front += _constructors(program, program.functions[name])
    return frozenset(found)


def _constructors(program: Program, facts: FunctionFacts) -> Iterator[str]:
    """The constructors of modules that a function calls, those of base classes among them."""
    for call, reached in edges(program, facts):
        for name in reached if call.how in ("function", "super") else ():
            owner = program.functions[name].owner
            if name.endswith(".__init__") and program.is_module(owner):
                yield name


def _gives_up(
    program: Program, facts: FunctionFacts, all_hold: Callable[[Needs], bool], ends: GraphEnds
) -> bool:
    """Whether a break makes torch.compile give up on a function."""
    return any(
        (event.kind == "effect.made-object" or (event.kind in _ENDING and _in_block(facts, event)))
        and all_hold(event.needs)
        for event in facts.events
    ) or any(
        _in_block(facts, call)
        and call.how not in UNSURE
        and not call.needs
        and any(map(ends.in_function, reached))
        for call, reached in edges(program, facts)
    )


def _in_block(facts: FunctionFacts, placed: Event | Call) -> bool:
    """Whether something is in the body of a loop or a `try`."""
    line = placed.span.line - facts.line
    return any(first <= line <= last for first, last in facts.blocks)
