"""What the parameters of functions are in training loops: by annotation, by name, or as passed."""

from __future__ import annotations

import ast
import re

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import KEYWORDS, Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.loops.calls import (
    GRADIENT,
    LOADER,
    MODULE,
    hooks,
    is_step_hook,
    is_trainer_part,
    of_annotation,
)
from pygraph_lint.analysis.loops.evidence import LoopEvidence
from pygraph_lint.analysis.loops.joins import PASSED
from pygraph_lint.analysis.queries.file_queries import FileQueries

_ARRAY = re.compile(r"\b(ndarray|NDArray|np\.array|numpy\.array)\b")
# An annotation that is a container, or None.
_CONTAINER = re.compile(
    r"(?:[\w.]*\bOptional\[)?(?:\w+\.)*(?:Ordered|Default|Mutable)?"
    r"(?:dict|list|tuple|set|mapping|sequence)(?:\[.*\])?\]?(?: \| None)?",
    re.IGNORECASE,
)
# Parameters that are numbers or texts of the host, whatever a call seems to pass for them.
_OF_HOST = re.compile(r"(^|_)(epochs?|iters?|iterations?|stage|phase|mode|split|reduction|name)$")


class Parameters:
    """The values of parameters of one file's functions."""

    def __init__(self, queries: FileQueries, evidence: LoopEvidence) -> None:
        self.queries = queries
        self.module = queries.view.module
        self.evidence = evidence

    def value(self, argument: ast.arg) -> Value:
        """What a parameter is where its function runs in a training loop."""
        of_lambda = next(each for each in self.queries.path(argument) if hasattr(each, "body"))
        if isinstance(of_lambda, ast.Lambda):
            call = self.queries.parent(of_lambda)
            return GRADIENT if isinstance(call, ast.Call) and hooks(call) else v.UNKNOWN_VALUE
        function = self.queries.definitions.scope(argument)
        if argument.arg in ("self", "cls"):
            return v.UNKNOWN_VALUE
        if argument is getattr(getattr(function, "args", None), "kwarg", None):
            held = _passed(self.name_of(function), KEYWORDS, argument.arg)
            return Value(v.MAPPING, item=held)
        given = self.given_by_hook(function, argument.arg)
        if given is None:
            given = self._of_annotation(argument, self.name_of(function) or "")
        if given is not None:
            return given
        if _OF_HOST.search(argument.arg) is not None:
            return v.UNKNOWN_VALUE
        names = self.evidence.module_names if isinstance(function, FUNCTIONS) else ()
        if (function, argument.arg) in names:
            return MODULE
        return _passed(self.name_of(function), argument.arg, argument.arg)

    def _of_annotation(self, argument: ast.arg, function: str) -> Value | None:
        """What an annotation says; None where it says nothing."""
        hint = ast.unparse(argument.annotation) if argument.annotation is not None else ""
        if tensor := of_annotation(hint, function, argument.arg):
            return tensor
        if hint.rpartition(".")[2] in ("Module", "ScriptModule"):
            return MODULE
        if "DataLoader" in hint:
            return LOADER
        if hint in ("int", "float", "bool", "str"):
            return v.NUMBER_VALUE if hint != "str" else v.TEXT_VALUE
        if _ARRAY.search(hint) is not None and "ensor" not in hint:
            return v.NUMPY_VALUE
        return None

    def is_container(self, node: ast.expr) -> bool:
        """Whether a name is a parameter that its annotation says is a container."""
        if not isinstance(node, ast.Name):
            return False
        found = [each.node for each in self.queries.definitions.reaching(node)]
        hints = [each.annotation for each in found if isinstance(each, ast.arg)]
        return bool(hints) and len(hints) == len(found) and all(map(_says_container, hints))

    def given_by_hook(self, function: ast.AST, parameter: str) -> Value | None:
        """What a trainer passes to a step or a callback that it calls by its name."""
        owner = self.queries.owner(function)
        name = getattr(function, "name", "")
        if owner is None or not is_step_hook(name) or not is_trainer_part(owner):
            return None
        if parameter in ("batch", "outputs", "inputs", "batch_parts"):
            return v.tensor("the trainer moved it to the device", device=v.ON_DEVICE)
        return MODULE if parameter in ("model", "pl_module") else None

    def name_of(self, function: ast.AST) -> str | None:
        """The qualified name of a function of the file, as the facts have it."""
        parts = [getattr(function, "name", "")]
        for each in self.queries.path(function):
            if isinstance(each, ast.ClassDef):
                parts.append(each.name)
            elif isinstance(each, FUNCTIONS):
                parts += ["<locals>", getattr(each, "name", "")]
        if not parts[0]:
            return f"{self.module}.<module>" if isinstance(function, ast.Module) else None
        return ".".join([self.module, *reversed(parts)])


def _says_container(hint: ast.expr | None) -> bool:
    return hint is not None and _CONTAINER.fullmatch(ast.unparse(hint).strip("'\"")) is not None


def _passed(function: str | None, parameter: str, written: str) -> Value:
    """What callers pass for a parameter, if that is a tensor of the device."""
    if function is None:
        return v.UNKNOWN_VALUE
    why = f"{PASSED}`{written}`"
    need = Need("param", function, parameter)
    return Value(v.TENSOR | v.UNKNOWN, device=v.ON_DEVICE, flags=v.SYMBOL, needs=(need,), why=why)
