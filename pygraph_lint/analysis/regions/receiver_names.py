"""Methods of objects of an unknown class, told by what the object is called: ``metric.update(x)``
is one of a class of metrics, ``replay_buffer.sample()`` one of a ``PrioritizedReplayBuffer``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from pygraph_lint.analysis.program.facts import Call
from pygraph_lint.analysis.program.program import Program

# Classes that an object may be of.
_FEW, _MOST, _MOST_LOSSES, _MOST_MODELS = 4, 24, 64, 128
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ABSTRACT = frozenset(("base", "abstract", "mixin", "interface", "template"))
# Names that say nothing of a project's class, or whose classes are there by the dozen.
_EMPTY = frozenset(
    """
        self cls obj object item value values data result results output outputs config cfg args
        opt params options module modules optimizer optimizers optim scheduler schedulers net
        layer layers func function callable other torch parent base instance element x y
    """.split()
)


# Names of models, which may be of any of a project's modules that have the method.
_MODELS = frozenset(("model", "net", "network"))
_CALLED = frozenset(("fn", "func", "function", "class", "fct"))
_OF_LOSS = re.compile(r"(Loss|Criterion)(es|s)?\.forward$")


def is_of_loss(function: str) -> bool:
    """Whether a function is the ``forward`` of a module that computes a loss, which is beside the
    model and not compiled with it.
    """
    return function.endswith(".forward") and _OF_LOSS.search(function) is not None


class ReceiversByName:
    """The methods that objects may have by their names."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[tuple[str, str, str, int], Sequence[str]] = {}
        self._parts: dict[str, list[str]] = {}  # of the names of classes

    @cached_property
    def _losses(self) -> list[str]:
        return list(filter(is_of_loss, self._program.methods_by_name.get("forward", ())))

    def methods(self, call: Call) -> Sequence[str]:
        """The methods called ``call.name`` of the classes that the name ``call.target`` of an
        object fits, where they can be called so.
        """
        key = (call.how, call.target, call.name, len(call.positional))
        if key not in self._known:
            self._known[key] = self._methods(call)
        return self._known[key]

    def _methods(self, call: Call) -> Sequence[str]:
        words = _words_of_object(call.target)
        if call.name == "to":
            return self._moving() if call.how == "receiver" else ()
        last = call.target.lower().rpartition("_")[2]
        models = self._of_models(call) if last in _MODELS else ()
        if models:
            return models
        if not words or words[-1] in _EMPTY:
            return ()
        program = self._program
        named = [*program.methods_by_name.get(call.name, ())]
        if call.name == "__call__":
            named += self._losses
        found = [
            each
            for each in named
            if each in program.functions
            and len(call.positional) <= len(program.functions[each].parameters)
            and self._fits(program.functions[each].owner, words)
        ]
        most = _MOST_LOSSES if all(map(is_of_loss, found)) else _MOST
        return found if len(found) <= most else ()

    def _of_models(self, call: Call) -> Sequence[str]:
        """The methods of a name that the project's modules have beside their ``forward``, where
        they can be called so.
        """
        program, found = self._program, []
        for each in program.methods_by_name.get(call.name, ()):
            facts = program.functions.get(each)
            owner = facts.owner if facts is not None else ""
            own = program.is_module(owner) and program.method(owner, "forward")
            if own and facts is not None and len(call.positional) <= len(facts.parameters):
                found.append(each)
        return found if len(found) <= _MOST_MODELS else ()

    def _moving(self) -> Sequence[str]:
        """The methods by which batches that are objects of the project go to the device."""
        program = self._program
        known = (program.functions.get(name) for name in program.methods_by_name.get("to", ()))
        found = [
            facts.name
            for facts in known
            if facts is not None
            and not program.is_module(facts.owner)
            and any("device" in name for name in facts.parameters[:1])
        ]
        return found if len(found) <= _FEW else ()

    def _fits(self, owner: str, words: list[str]) -> bool:
        """Whether an object with a name of these words may be of a class, or of one above it."""
        for cls in self._program.lineage(owner):
            parts = self._parts.get(cls)
            if parts is None:
                parts = self._parts[cls] = _words_of_class(cls)
            if parts[-len(words) :] == words or parts[-1:] == words[-1:]:
                return True
        return False


def _words_of_class(cls: str) -> list[str]:
    """The words of the name of a class, without the plural and what says that it is abstract."""
    parts = [word.lower() for word in _WORD.findall(cls.rpartition(".")[2])]
    while parts and parts[-1] in _ABSTRACT:
        parts.pop()
    parts[-1:] = map(_single, parts[-1:])
    return parts


def _words_of_object(name: str) -> list[str]:
    """The words of a name, without the plural."""
    words = [word for word in name.lower().strip("_").split("_") if word.isalpha()]
    while words and words[-1] in _CALLED:
        words.pop()
    words[-1:] = map(_single, words[-1:])
    return words if words and len(words[-1]) > 2 else []


def _single(word: str) -> str:
    """A word without the plural."""
    if word.endswith("sses"):
        return word.removesuffix("es")
    return word if word.endswith("ss") else word.removesuffix("s")
