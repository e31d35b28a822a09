"""What the constructions and calls of a project pass: the usual values of its options."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from pygraph_lint.analysis.domain.events import KEYWORDS
from pygraph_lint.analysis.domain.symbols import constant
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.calls_outside_regions import CallsOutsideRegions
from pygraph_lint.analysis.program.argument_values import may_be, obligation_on_caller, passed
from pygraph_lint.analysis.program.facts import (
    KEYWORDED,
    OF_MAPPING,
    STARRED,
    Call,
    FunctionFacts,
    ModuleFacts,
    StoredOption,
)
from pygraph_lint.analysis.program.program import Program
from pygraph_lint.analysis.syntax.literal_tests import ParameterTest

# What says where a program runs: on a machine with devices it is set, whatever the default.
_OF_MACHINE = re.compile(
    r"device|cuda|gpu|accelerat|fabric|scaler|(^|_)amp(_|$)|distrib|(^|_)ddp(_|$)|world|rank"
    r"|parallel|process_group"
)


class OptionValues:
    """How conditions on options come out in usual use: by their defaults, and by what the project
    passes. What its tests pass says nothing, nor do settings that may be anything.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[tuple[str, ParameterTest], bool] = {}

    def held(self, owner: str, asked: ParameterTest) -> bool:
        """Whether a test of an attribute of a class may come out as asked: False only where it
        keeps an argument of the constructor, and no construction passes such a value.
        """
        program, attribute = self._program, asked.parameter
        cls = program.class_named(owner)
        if cls is None:
            return True
        lineage = program.lineage(cls)
        family = (*lineage, *program.subclasses.get(cls, ()))
        kept = [
            (name, each)
            for name in family
            for each in program.classes[name].options.get(attribute, ())
        ]
        of_machine = _OF_MACHINE.search(attribute.lower()) is not None
        if of_machine or any(attribute in self._set_beside(name) for name in family):
            return True
        if not any(each.parameter for _, each in kept):
            return True
        return any(self._may_keep(name, each, asked) for name, each in kept)

    def _set_beside(self, owner: str) -> frozenset[str]:
        """The attributes of other objects that the file of a class sets."""
        module = self._program.module_of(owner)
        return module.set_outside if module is not None else frozenset()

    def _may_keep(self, owner: str, kept: StoredOption, asked: ParameterTest) -> bool:
        """Whether a test of what an attribute of a class is made to keep may come out so."""
        if kept.parameter:
            return self.passed(f"{owner}.__init__", asked._replace(parameter=kept.parameter))
        return not kept.is_const or may_be(constant(kept.const), asked.test, asked.outcome)

    def passed(self, function: str, asked: ParameterTest) -> bool:
        """Whether a test of a function's parameter may come out so, by its default or a call."""
        key = (function, asked)
        if key not in self._known:
            self._known[key] = False  # what is only passed on in a circle
            self._known[key] = self._passed(function, asked)
        return self._known[key]

    def _passed(self, function: str, asked: ParameterTest) -> bool:
        facts = self._program.functions.get(function)
        if facts is None or asked.parameter not in facts.parameters:
            return True
        default = dict(facts.defaults).get(asked.parameter)
        if default is not None and may_be(default, asked.test, asked.outcome):
            return True
        calls = self._calls(function)
        if not calls:
            return default is None
        return any(self._may_pass(facts, call, asked, default) for call in calls)

    def _may_pass(
        self, facts: FunctionFacts, call: Call, asked: ParameterTest, default: Value | None
    ) -> bool:
        value = passed(facts, asked.parameter, call)
        if value is not None:
            same = _name_of(value) == asked.parameter  # `flag=config.flag`
            return default is None if same else self.may_be(value, asked)
        if OF_MAPPING in call.unknown:
            return default is None
        index = facts.parameters.index(asked.parameter)
        unknown = {asked.parameter, index, STARRED, KEYWORDED} & {*call.unknown}
        handed = any(map(_is_handed, call.unknown))
        return bool(unknown) or handed or default is None

    def may_be(self, value: Value, asked: ParameterTest) -> bool:
        """Whether a test of what is passed may come out so; an option may be passed on."""
        need = obligation_on_caller(value, asked)
        if need is None:
            return may_be(value, asked.test, asked.outcome)
        answer = self.passed if need.kind == "may" else self.held
        return answer(need.owner, need.tests[0])

    def _calls(self, function: str) -> Sequence[Call]:
        if function.endswith(".__init__"):
            return self._constructions.get(function, ())
        return [call for call, _ in self._others.of(function)]

    @property
    def _modules(self) -> Iterator[ModuleFacts]:
        """The files that are no tests."""
        return (each for each in self._program.modules.values() if not each.is_test)

    @property
    def _functions(self) -> Iterator[FunctionFacts]:
        """The functions of files that are no tests."""
        return (each for module in self._modules for each in module.functions.values())

    @cached_property
    def _others(self) -> CallsOutsideRegions:
        return CallsOutsideRegions(self._program, self._functions)

    @cached_property
    def _constructions(self) -> dict[str, list[Call]]:
        """The calls that run constructors, by these."""
        program = self._program
        found: dict[str, list[Call]] = defaultdict(list)
        for call in (call for function in self._functions for call in function.calls):
            if call.how == "function" and program.symbol(call.target) in program.classes:
                for constructor in program.constructors(call.target):
                    found[constructor].append(call)
            elif call.how == "super" and call.name == "__init__":
                constructor = program.method(call.target, "__init__", 1) or ""
                found[constructor].append(call)
        return found


def _name_of(value: Value) -> str:
    """What a value of which nothing is known is called where it comes from."""
    need = value.needs[0] if value.needs else None
    if need is None:
        return ""
    if need.kind == "named":
        return need.name
    return need.name.rpartition("|")[2].removeprefix(".") if "|" in need.name else ""


def _is_handed(unknown: int | str) -> bool:
    """Whether what is unknown of a call's arguments are the keywords of the function around."""
    return isinstance(unknown, str) and len(unknown) > 2 and unknown.startswith(KEYWORDS)
