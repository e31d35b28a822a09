"""Parameters that a function only passes on, to another one that shows what they are."""

from __future__ import annotations

from collections.abc import Iterator

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.call_graph import targets
from pygraph_lint.analysis.program.facts import Call, FunctionFacts
from pygraph_lint.analysis.program.program import Program

# Words in the names of functions that objects are made with to compute tensors, and of functions
# that decide something: they return flags.
_COMPUTING = frozenset(
    """
        critic criterion decoder denoiser diffusion discriminator distance drift dynamics encoder
        energy f field fn forward fun func function integrand kernel log loss map metric model
        net network objective ode operator policy potential prob score sde similarity
    """.split()
)
_DECIDING = frozenset(
    """
        accept callback can check cond condition conv converged filter has hook is predicate should
        stop stopping test valid validate
    """.split()
)


class ForwardedParameters:
    """Which parameters that nothing in their function explains are tensors to who gets them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[tuple[str, str], bool] = {}

    def takes_tensors(self, function: FunctionFacts) -> bool:
        """Whether a function has a parameter that is a tensor, or computes with a tensor that is
        made elsewhere.
        """
        if self._program.takes_tensors(function):
            return True
        if any(self.is_tensor(function, parameter) for parameter in function.unexplained):
            return True
        maker = self._program.functions.get(f"{function.owner}.__init__")
        return maker is not None and any(self.is_tensor(maker, each) for each in function.made_with)

    def is_tensor(self, function: FunctionFacts, parameter: str) -> bool:
        """Whether a parameter is a tensor, by its function or by one that it is passed on to."""
        if parameter in function.tensors or parameter in function.arrays:
            return True
        if parameter not in function.unexplained:
            return False
        key = (function.name, parameter)
        if key not in self._known:
            self._known[key] = False  # as long as it only goes round in a circle
            self._known[key] = any(
                self.is_tensor(target, name) for target, name in self._takers(function, parameter)
            )
        return self._known[key]

    def _takers(
        self, function: FunctionFacts, parameter: str
    ) -> Iterator[tuple[FunctionFacts, str]]:
        """The functions of the project that get a parameter, and what they call it."""
        for call in function.calls:
            if call.how in ("mention", "by name", "hook") or call.target.endswith(".apply"):
                continue
            places = _places(call, function.name, parameter)
            for target in targets(self._program, call) if places else ():
                facts = self._program.functions[target]
                for place in places:
                    if isinstance(place, str):
                        yield facts, place
                    elif place < len(facts.parameters):
                        yield facts, facts.parameters[place]


def _places(call: Call, function: str, parameter: str) -> list[int | str]:
    """The positions and keywords at which a call passes a parameter as it is."""
    given: list[tuple[int | str, Value | None]] = [*enumerate(call.positional), *call.named]
    return [
        place for place, value in given if value is not None and _is(value, function, parameter)
    ]


def _is(value: Value, function: str, parameter: str) -> bool:
    need = value.needs[0] if value.needs and value.flags & v.SYMBOL else None
    return need is not None and (need.kind, need.owner, need.name) == ("param", function, parameter)


def is_called_for_tensors(facts: FunctionFacts, parameter: str) -> bool:
    """Whether a parameter is a function that is integrated, minimised, ... and so gives tensors."""
    words = parameter.lower().split("_")
    made = facts.name.endswith(".__init__") and not _COMPUTING.isdisjoint(words)
    takes = (made or bool(facts.tensors or facts.arrays)) and _DECIDING.isdisjoint(words)
    return takes and parameter in facts.unexplained
