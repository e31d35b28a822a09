"""What a function asks its module while it is run abstractly, and what it stores there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from pygraph_lint.analysis.values import Value

P = ParamSpec("P")
T = TypeVar("T")


class Step(NamedTuple):
    """A question that a function's run asked of its module, or what it stored there."""

    question: str  # the method of Module that answers; empty where something is stored
    names: tuple[str, ...]
    value: Any


@dataclass(slots=True)
class Watch:
    """The steps of the function that is run. The first questions are answered by ``given``, and
    the first stores were made: an earlier run took these steps in the same state.
    """

    given: Sequence[Step] = ()
    steps: list[Step] = field(default_factory=list)
    repeatable: bool = True  # whether the steps are all that it does to its module

    def ask(self, question: str, names: tuple[str, ...], answer: Callable[[], T]) -> T:
        """The answer to a question."""
        at = len(self.steps)
        value: T = self.given[at].value if at < len(self.given) else answer()
        self.steps.append(Step(question, names, value))
        return value

    def store(self, names: tuple[str, str], value: Value, keep: Callable[..., None]) -> None:
        """Change what an attribute holds."""
        if len(self.steps) >= len(self.given):
            keep(*names, value)
        self.steps.append(Step("", names, value))


class Watchable(Protocol):
    """A module whose functions are run."""

    watch: Watch | None


WatchableT = TypeVar("WatchableT", bound=Watchable)


def watched(
    answer: Callable[Concatenate[WatchableT, P], T],
) -> Callable[Concatenate[WatchableT, P], T]:
    """A question about names that a module answers, whoever watches."""

    @wraps(answer)
    def asked(module: WatchableT, /, *names: P.args, **unused: P.kwargs) -> T:
        if module.watch is None:
            return answer(module, *names, **unused)
        given = cast("tuple[str, ...]", names)
        return module.watch.ask(answer.__name__, given, partial(answer, module, *names, **unused))

    return asked
