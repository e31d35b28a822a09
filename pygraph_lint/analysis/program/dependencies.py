"""What the run of a function depends on: what it asks its module, and what it stores there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, NamedTuple, TypeVar

from pygraph_lint.analysis.domain.values import Value

T = TypeVar("T")
AnswerT = TypeVar("AnswerT", bound=Callable[..., Any])
ModuleT = TypeVar("ModuleT")


class Step(NamedTuple):
    """A question that a function's run asked of its module, or what it stored there."""

    question: str  # the method of Module that answers; empty where something is stored
    names: tuple[str, ...]
    value: Any


@dataclass(slots=True)
class DependencyTracker:
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


def tracked(answer: AnswerT) -> AnswerT:
    """Mark a method of a module as a question about names, for ``tracking``."""
    answer.asks = True  # type: ignore[attr-defined]
    return answer


def tracking(module: type[ModuleT]) -> type[ModuleT]:
    """The same kind of module, whose objects tell their ``tracker`` what they are asked."""
    questions = {
        name: _told(answer) for name, answer in vars(module).items() if hasattr(answer, "asks")
    }
    return type(f"Watched{module.__name__}", (module,), questions)


def _told(answer: Callable[..., Any]) -> Callable[..., Any]:
    """A question that a module answers after it has told who watches, if anybody does."""

    @wraps(answer)
    def asked(module: Any, /, *names: str, **unused: Any) -> Any:
        tracker: DependencyTracker | None = module.tracker
        if tracker is None:
            return answer(module, *names, **unused)
        return tracker.ask(answer.__name__, names, partial(answer, module, *names, **unused))

    return asked
