"""What calls in a training loop give, as far as the file shows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cached_property

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.device_moves import moves_to_device, moves_to_host, names_cuda
from pygraph_lint.analysis.domain.events import Need, maybe_on_device
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.transfer.distributions import gives_tensor, is_distribution
from pygraph_lint.analysis.loops.calls import (
    BATCH,
    COMPARING,
    COMPILED,
    DEVICE,
    HOST,
    HOST_CASTS,
    INDICES,
    LOADER,
    MODULE,
    MOVED,
    NAMED_PARAMETERS,
    PARAMETERS,
    computed,
    is_batch,
    of_tensors_only,
    of_torch,
    on_device,
    shown,
)
from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.syntax.nodes import dotted, short

_OF_TEXTS = frozenset("startswith endswith isdigit lower upper rsplit splitlines".split())
# Names of models, of which a file may show nothing else.
_MODEL = re.compile(r"(^|[._])(model|net|network|net[A-Z])\d?$")


class CallResults:
    """Results of calls. ``of`` gives the value of an expression, ``element`` what one turn of a
    loop over an expression gets.
    """

    def __init__(
        self,
        queries: FileQueries,
        of: Callable[[ast.expr], Value],
        element: Callable[[ast.expr, ast.AST], Value],
    ) -> None:
        self._queries = queries
        self._of = of
        self._element = element

    def result(self, node: ast.Call) -> Value:
        """The value that a call gives."""
        if any(item.arg == "return_tensors" for item in node.keywords):
            return BATCH  # of a tokenizer, or of what else prepares data
        name = self._queries.qualified(node.func)
        if name is not None:
            found = self._of_name(name, node)
            if found is not None:
                return found
        if isinstance(node.func, ast.Attribute):
            found = self._of_method(node, node.func)
            if found is not None:
                return found
        callee = self._of(node.func)
        owner = self._queries.owner(node) if dotted(node.func) == "self" else None
        if callee.flags & v.MODULE or (owner is not None and self._is_module_class(owner)):
            return DEVICE
        if callee.kinds & v.UNKNOWN and _MODEL.search(dotted(node.func) or ""):
            return DEVICE
        if callee.kinds == v.CALLABLE and callee.cls.startswith("torch."):
            return self._of_torch(callee.cls, node)
        if callee.kinds & v.INSTANCE and callee.cls:
            return returned(f"{callee.cls}.forward", f"{short(callee.cls)} gives a tensor")
        return v.UNKNOWN_VALUE

    def _of_torch(self, name: str, node: ast.Call) -> Value:
        """The result of a function or class of torch."""
        return computed(of_torch(self._of, name, node), list(map(self._of, node.args)), name)

    def _of_name(self, name: str, node: ast.Call) -> Value | None:
        """The result of calling what a qualified name stands for."""
        if name in ops.COMPILERS:
            return COMPILED
        if name.startswith("torch."):
            found = self._of_torch(name, node)
            return MOVED if found == HOST and self._makes_on_device else found
        head, _, last = name.rpartition(".")
        if head == "builtins":
            return self._of_builtin(last, node)
        if name in ("random.sample", "random.choices"):
            return INDICES
        if head in ("math", "time") or head.startswith("random"):
            return v.NUMBER_VALUE
        if name.startswith("numpy."):
            return v.NUMBER_VALUE if _draws_one(name, node) else v.NUMPY_VALUE
        if last[:1].isupper():
            return self._made(name)
        return returned(name, f"{short(name)}() returns a tensor of the device")

    @cached_property
    def _makes_on_device(self) -> bool:
        """Whether the file asks torch to make tensors on the device where none is named."""
        setters = ("torch.set_default_tensor_type", "torch.set_default_device")
        return any((dotted(node.func) or "") in setters for node in self._queries.of_kind(ast.Call))

    def _made(self, name: str) -> Value:
        """An object of a class of the project, or of a library."""
        if name.rpartition(".")[2].endswith("DataLoader"):
            return LOADER
        node = self._classes.get(name)
        if node is not None and self._is_module_class(node):
            return MODULE._replace(cls=name)
        return Value(v.INSTANCE, cls=name)

    @cached_property
    def _classes(self) -> dict[str, ast.ClassDef]:
        nodes = (node for node in self._queries.tree.body if isinstance(node, ast.ClassDef))
        return {f"{self._queries.view.module}.{node.name}": node for node in nodes}

    def _is_module_class(self, node: ast.ClassDef, depth: int = 5) -> bool:
        for base in node.bases:
            name = self._queries.qualified(base) or ""
            if name in ops.MODULE_BASES or name.startswith("torch.nn."):
                return True
            if name.endswith(("LightningModule", "Module")):
                return True
            inner = self._classes.get(name)
            if inner is not None and depth and self._is_module_class(inner, depth - 1):
                return True
        return False

    def _of_builtin(self, name: str, node: ast.Call) -> Value:
        if name in ("sum", "max", "min", "abs") and node.args:
            values = [self._of(each) for each in node.args]
            elements = [v.element(each) if not each.is_tensor else each for each in values]
            tensors = [each for each in elements if on_device(each)]
            plain = len(values) > 1 and any(each.kinds == v.NUMBER for each in values)
            return tensors[0] if tensors else v.NUMBER_VALUE if plain else v.UNKNOWN_VALUE
        if name in ("list", "tuple", "reversed", "sorted", "iter", "set") and node.args:
            value = self._of(node.args[0])
            return value if not value.is_tensor else Value(v.SEQUENCE, item=value)
        if name == "next" and node.args:
            return self._element(node.args[0], node)
        if name == "getattr" and len(node.args) == 3:
            default = self._of(node.args[2])
            return default if default.kinds == v.NUMBER else v.UNKNOWN_VALUE
        if name in ("len", "int", "float", "bool", "round", "range", "isinstance", "hasattr"):
            return v.NUMBER_VALUE
        return v.TEXT_VALUE if name in ("str", "repr", "format") else v.UNKNOWN_VALUE

    def _of_method(self, node: ast.Call, function: ast.Attribute) -> Value | None:
        """The result of calling a method; None where it is not one that is known."""
        method = function.attr
        if method in _OF_TEXTS:
            return v.OTHER_VALUE
        if dotted(function.value) == "self":
            held = self._of(function)
            own = held.cls.startswith(f"{self._queries.view.module}.")
            if not held.flags & v.MODULE and (held.kinds == v.UNKNOWN or own):
                return self._of_own_method(function)
            return None
        base = self._of(function.value)
        base = shown(base) if of_tensors_only(node, method) else base
        return _of_module(base, method) if base.flags & v.MODULE else self._on(base, node, method)

    def _on(self, base: Value, node: ast.Call, method: str) -> Value:
        """What a method of a value gives."""
        if moves_to_host(node):
            return HOST
        if method in HOST_CASTS or method in COMPARING:
            return v.NUMBER_VALUE if method != "numpy" else v.NUMPY_VALUE
        if method == "type" and not node.args and not node.keywords:
            return v.TEXT_VALUE
        if moves_to_device(node) or (method == "type" and names_cuda(self._of, node)):
            return base._replace(flags=v.MODULE) if base.kinds == v.INSTANCE else MOVED
        if method == "detach" and (not base.kinds & v.TENSOR or base.needs):
            given = base.needs[0] if base.flags & v.SYMBOL and base.needs else None
            if given is None or given.kind != "param" or "|" in given.name:
                return DEVICE
            return DEVICE._replace(needs=(maybe_on_device(given),))
        return _of_tensor(base, method) if on_device(base) else _of_other(base, method)

    def _of_own_method(self, function: ast.Attribute) -> Value | None:
        owner = self._queries.owner(function)
        if owner is None:
            return None
        name = f"{self._queries.view.module}.{owner.name}.{function.attr}"
        return returned(name, f"self.{function.attr}() returns a tensor of the device")


def _draws_one(name: str, node: ast.Call) -> bool:
    """Whether a function of ``numpy.random`` is not asked for an array."""
    before = _ARGUMENTS_BEFORE_SIZE.get(name.removeprefix("numpy.random."))
    if before is None or any(item.arg in ("size", None) for item in node.keywords):
        return False
    return len(node.args) <= before


_ARGUMENTS_BEFORE_SIZE = {
    **dict.fromkeys(("random", "rand", "randn", "random_sample"), 0),
    **dict.fromkeys(("choice", "exponential", "poisson"), 1),
    **dict.fromkeys(("randint", "uniform", "normal", "beta", "binomial"), 2),
}


def _of_other(base: Value, method: str) -> Value:
    """What a method gives that neither moves anything nor is of a tensor of the device."""
    if is_batch(base):
        whole = method in ("items", "values", "to", "get", "pop")
        return BATCH if whole else HOST._replace(cls=BATCH.cls)
    if base.kinds & v.TENSOR:
        return HOST._replace(why=base.why) if base.why else HOST
    if base.kinds & v.NUMPY:
        return v.NUMPY_VALUE
    if base.kinds & v.INSTANCE and base.cls:
        return _of_object(base, method)
    if method in ("parameters", "named_parameters"):
        return PARAMETERS if method == "parameters" else NAMED_PARAMETERS
    return v.UNKNOWN_VALUE


def _of_tensor(base: Value, method: str) -> Value:
    if method in ops.NUMBER_METHODS or method in ("dim", "size", "numel", "backward"):
        return v.OTHER_VALUE
    if base.needs and base.needs[0].kind != "return" and method not in ops.TENSOR_METHODS:
        return v.UNKNOWN_VALUE  # no tensor has it
    symbolic, base = bool(base.needs), base._replace(cls="")
    return base._replace(flags=0) if not symbolic else base._replace(flags=base.flags & ~v.SYMBOL)


def _of_module(base: Value, method: str) -> Value:
    """What a method of a module gives."""
    if method in ("parameters", "buffers"):
        return PARAMETERS
    if method in ("named_parameters", "named_buffers"):
        return NAMED_PARAMETERS
    same = ("to", "cuda", "train", "eval", "half", "float", "requires_grad_", "compile")
    if method in same:
        return base
    return DEVICE if method == "forward" else _of_object(base, method)


def _of_object(base: Value, method: str) -> Value:
    """What a method of an object gives."""
    if is_distribution(base):
        kinds = v.TENSOR | v.UNKNOWN if base.needs else v.TENSOR
        known = gives_tensor(method) and base.device != v.ANYWHERE
        return base._replace(kinds=kinds, cls="", flags=0) if known else v.UNKNOWN_VALUE
    if not base.cls or base.cls.startswith("torch."):
        return v.UNKNOWN_VALUE
    return returned(f"{base.cls}.{method}", f"{short(base.cls)}.{method}() returns it")


def returned(function: str, why: str) -> Value:
    """What a function of the project returns, if that is a tensor of the device."""
    need = Need("return", function, "")
    return Value(v.TENSOR | v.UNKNOWN, device=v.ON_DEVICE, flags=v.SYMBOL, needs=(need,), why=why)
