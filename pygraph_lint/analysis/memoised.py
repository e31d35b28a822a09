"""Functions without parameters that are cached, across the project: torch.compile ignores the
cache and traces such a function again on every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pygraph_lint.analysis.call_graph import targets
from pygraph_lint.analysis.events import Need
from pygraph_lint.analysis.model import FunctionFacts, ModuleFacts
from pygraph_lint.analysis.program import Program

_BREAKING_EVENTS = ("effect.log", "effect.lock")
_BREAKING_CALLS = ("logging.", "warnings.", "builtins.print", "print")


def breaks_graph(program: Program, name: str, all_hold: Callable[[Iterable[Need]], bool]) -> bool:
    """Whether a function is memoised, and what it does breaks the graph."""
    start, facts = _memoised(program, name)
    if facts is None:
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


def called_at_import(program: Program, name: str, module: str) -> bool:
    """Whether a memoised function has been called when the imports of ``module`` are done: by
    them, or by a file that they run.
    """
    target, facts = _memoised(program, name)
    home = program.module(target.rpartition(".")[0])
    start = program.module(module)
    if facts is None or home is None or start is None or home.last_import > facts.line:
        return False
    called = [*start.asked_above, *(each for run in _run(program, start) for each in run.asked)]
    cleared = (each for other in program.modules.values() for each in other.forgotten)
    return any(program.symbol(each) == target for each in called) and all(
        program.symbol(each) != target for each in cleared
    )


def _run(program: Program, start: ModuleFacts) -> Iterator[ModuleFacts]:
    """The files that are run before the imports of ``start`` are done. Not those that import it:
    they, and the packages around it, may be half run.
    """
    around = set(_with_packages(start.module))
    seen: set[str] = set()
    front = [start]
    while front:
        here = front.pop()
        for name in here.loads:
            for part in _with_packages(name):
                module = program.module(part)
                if module is None or part in seen or part in around:
                    continue
                seen.add(part)
                front.append(module)
                yield module


def _memoised(program: Program, name: str) -> tuple[str, FunctionFacts | None]:
    target = program.symbol(name) or ""
    facts = program.functions.get(target)
    return target, facts if facts is not None and facts.keeps_answer else None


def _with_packages(module: str) -> Iterator[str]:
    """A module and the packages around it."""
    parts = module.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))
