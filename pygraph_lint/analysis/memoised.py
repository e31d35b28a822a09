"""Functions without parameters that are cached, across the project: torch.compile ignores the
cache and traces such a function again on every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pygraph_lint.analysis.call_graph import targets
from pygraph_lint.analysis.events import Need
from pygraph_lint.analysis.model import FunctionFacts
from pygraph_lint.analysis.program import Program

_BREAKING_EVENTS = ("effect.log", "effect.lock")
_BREAKING_CALLS = ("logging.", "warnings.", "builtins.print", "print")


def breaks_graph(program: Program, name: str, all_hold: Callable[[Iterable[Need]], bool]) -> bool:
    """Whether a function is memoised, and what it does breaks the graph."""
    start = program.symbol(name) or ""
    facts = program.functions.get(start)
    if facts is None or not facts.keeps_answer:
        return False
    seen, front = {start}, [start]
    while front:
        here = program.functions[front.pop()]
        if any(all_hold(needs) for needs in _breaking(here)):
            return True
        for call in here.calls:
            new = [target for target in targets(program, call) if target not in seen]
            seen.update(new)
            front += [target for target in new if not program.functions[target].ends_region]
    return False


def _breaking(facts: FunctionFacts) -> Iterator[tuple[Need, ...]]:
    """What each event of a function that breaks the graph needs."""
    for event in facts.events:
        named = event.kind == "call" and event.subject.startswith(_BREAKING_CALLS)
        if event.kind in _BREAKING_EVENTS or named:
            yield event.needs
