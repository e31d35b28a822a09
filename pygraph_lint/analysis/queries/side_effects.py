"""What evaluating a piece of code may change, from tables of operations and the file's own
functions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pygraph_lint.analysis.control_flow.statement_graph import (
    FUNCTIONS,
    Function,
    defaults,
    parameters,
)
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.syntax.nodes import dotted

# Tensor methods that return a new tensor or a view, or ask for a size, and change nothing.
PURE_METHODS = frozenset(
    name
    for name in ops.TENSOR_METHODS
    if not name.endswith("_")
    and name
    not in (
        *("backward", "record_stream", "register_hook", "reinforce", "resize", "resize_as"),
        *("retain_grad", "bernoulli", "multinomial", "register_post_accumulate_grad_hook", "set"),
        *("module_load", "apply", "map", "random", "data_ptr", "untyped_storage", "storage"),
    )
)
# Functions of torch that draw random numbers, or change something that is not an argument.
_DRAWS = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson")
_CHANGING = ("manual_seed", "seed", "set_", "_", "save", "load", "compile", "export", "use_")
# Where functions compute of their arguments, and of random numbers.
_COMPUTING = frozenset(
    (
        *("torch", "torch.linalg", "torch.fft", "torch.special", "torch.Tensor"),
        "torch.nn.functional",
    )
)
_PURE_BUILTINS = frozenset(
    (
        *("abs", "all", "any", "bool", "bytes", "complex", "dict", "divmod", "enumerate", "float"),
        *("frozenset", "getattr", "hasattr", "id", "int", "isinstance", "issubclass", "len"),
        *("list", "max", "min", "pow", "range", "repr", "reversed", "round", "set", "slice"),
        *("sorted", "str", "sum", "super", "tuple", "type", "zip"),
    )
)
_CHANGING_METHODS = frozenset(
    (
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add"),
        *("discard", "update", "setdefault", "popitem", "appendleft", "popleft"),
    )
)
_ASKING_METHODS = frozenset(("get", "keys", "values", "items", "index", "count", "copy"))
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Effects:
    """What a piece of code may do beside giving a value.

    ``rebinds`` are names and attributes (``x``, ``self.x``) that get another object; ``mutates``
    are names and attributes whose object may change in place (and with it whatever may alias it);
    ``draws`` says that random numbers are drawn, ``unknown`` that code is run that is not seen: it
    may do anything.
    """

    rebinds: frozenset[str] = frozenset()
    mutates: frozenset[str] = frozenset()
    draws: bool = False
    unknown: bool = False

    def __or__(self, other: Effects) -> Effects:
        return Effects(
            self.rebinds | other.rebinds,
            self.mutates | other.mutates,
            self.draws or other.draws,
            self.unknown or other.unknown,
        )

    @property
    def none(self) -> bool:
        """Whether it makes no difference to others how often it is evaluated, and when."""
        return self == Effects()


UNKNOWN = Effects(unknown=True)
NONE = Effects()

Resolve = Callable[[ast.expr], "str | None"]
Find = Callable[[ast.Call], "Function | None"]


class EffectAnalysis:
    """Effects of the code of one file. ``resolve`` gives the qualified name of an expression,
    ``find`` the function of the file that a call surely calls. ``summaries`` are those of functions
    so far.
    """

    def __init__(self, resolve: Resolve, find: Find, summaries: dict[Function, Effects]) -> None:
        self._resolve = resolve
        self._find = find
        self._summaries = summaries

    def of(self, node: ast.AST, depth: int = _DEPTH) -> Effects:
        """The effects of evaluating a node, with everything in it."""
        found = NONE
        for inner in _run_with(node):
            found = found | self._own(inner, depth)
            if found.unknown:
                return UNKNOWN
        return found

    def _own(self, node: ast.AST, depth: int) -> Effects:
        """The effects of one node alone."""
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.Import, ast.ImportFrom)):
            return UNKNOWN
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            if isinstance(node.ctx, ast.Load):
                return NONE
            return _stored(node)
        if isinstance(node, ast.AugAssign):
            return Effects(mutates=frozenset(_place(node.target)))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            decorated = UNKNOWN if node.decorator_list or isinstance(node, ast.ClassDef) else NONE
            return decorated | Effects(rebinds=frozenset((node.name,)))
        return NONE

    def _call(self, call: ast.Call, depth: int) -> Effects:
        name = self._resolve(call.func)
        if name is not None:
            known = _of_library(name, call)
            if known is not None:
                return known
        function = self._find(call)
        if function is not None:
            return self._of_function(function, call, depth)
        if name is None and isinstance(call.func, ast.Attribute):
            return _of_method(call.func)
        return UNKNOWN

    def _of_function(self, function: Function, call: ast.Call, depth: int) -> Effects:
        """What calling a function of the file does, in terms of what the call passes."""
        if depth == 0 or isinstance(function, ast.AsyncFunctionDef) or function.args.kwarg:
            return UNKNOWN
        summary = self._summary(function, depth)
        if summary.unknown:
            return UNKNOWN
        given = _arguments(function, call)
        if given is None:
            return UNKNOWN
        names = {item.arg for item in parameters(function)}
        mutates: set[str] = set()
        for place in summary.mutates:
            root, dot, rest = place.partition(".")
            if root in given:
                mutates.update(each + dot + rest for each in _place(given[root]))
            elif root not in names and not _is_local(function, root):
                return UNKNOWN
        rebinds: set[str] = set()
        for place in summary.rebinds:
            root, dot, rest = place.partition(".")
            if dot and root in given:
                rebinds.update(each + dot + rest for each in _place(given[root]))
            elif dot and root not in names and not _is_local(function, root):
                return UNKNOWN
        return Effects(frozenset(rebinds), frozenset(mutates), summary.draws)

    def _summary(self, function: Function, depth: int) -> Effects:
        if function not in self._summaries:
            self._summaries[function] = UNKNOWN  # of a function that calls itself
            body = [function.body] if isinstance(function, ast.Lambda) else function.body
            found = NONE
            if any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in ast.walk(function)):
                found = UNKNOWN
            for part in body:
                found = found | self.of(part, depth - 1)
            self._summaries[function] = found
        return self._summaries[function]


def _run_with(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are evaluated with ``node``: bodies of functions inside are not."""
    yield node
    if isinstance(node, FUNCTIONS):
        inner: list[ast.AST] = [*defaults(node).values()]
    else:
        inner = list(ast.iter_child_nodes(node))
    for child in inner:
        yield from _run_with(child)


def _stored(node: ast.Name | ast.Attribute | ast.Subscript) -> Effects:
    if isinstance(node, ast.Name):
        return Effects(rebinds=frozenset((node.id,)))
    if isinstance(node, ast.Subscript):
        return Effects(mutates=frozenset(_place(node.value)))
    written = dotted(node)
    if written is None:
        return Effects(mutates=frozenset(_place(node.value)))
    return Effects(rebinds=frozenset((written,)))


def _place(node: ast.expr) -> Iterator[str]:
    """The names through which an expression's object can be reached: ``x`` for ``x.t()[0]``."""
    written = dotted(node)
    if written is not None:
        yield written
    elif isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        yield from _place(node.value)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            yield from _place(node.func.value)
        for item in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from _place(item)
    elif isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            yield from _place(item)
    elif isinstance(node, ast.IfExp):
        yield from _place(node.body)
        yield from _place(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for item in node.values:
            yield from _place(item)


def _of_library(name: str, call: ast.Call) -> Effects | None:
    """Effects of a function of torch, math or Python; None for what is neither."""
    head, _, last = name.rpartition(".")
    if head == "builtins":
        return NONE if last in _PURE_BUILTINS else UNKNOWN
    if head == "math":
        return NONE
    return _of_torch(head, last, call) if name.startswith("torch.") else None


def _of_torch(head: str, last: str, call: ast.Call) -> Effects:
    """The same of ``head.last``, a function of torch."""
    out = next((item.value for item in call.keywords if item.arg == "out"), None)
    if out is not None:
        return _mutating([out])
    if head not in _COMPUTING:
        return UNKNOWN
    if last.endswith("_") and not last.endswith("__"):
        return _mutating(call.args[:1])
    if last in _DRAWS or "dropout" in last or last.startswith("rrelu") or "gumbel" in last:
        return Effects(draws=True)
    if last.startswith(_CHANGING):
        return UNKNOWN
    if last.startswith(("batch_norm", "instance_norm")):
        return _mutating(call.args[1:3])  # the running statistics
    inplace = any(item.arg == "inplace" for item in call.keywords)
    return _mutating(call.args[:1]) if inplace else NONE


def _mutating(nodes: list[ast.expr]) -> Effects:
    """What may change in place is what these expressions name."""
    return Effects(mutates=frozenset(each for node in nodes for each in _place(node)))


def _of_method(function: ast.Attribute) -> Effects:
    """Effects of a method of a tensor or a container that is known by its name alone."""
    if function.attr in PURE_METHODS or function.attr in _ASKING_METHODS:
        return NONE
    in_place = function.attr.endswith("_") and function.attr in ops.TENSOR_METHODS
    if in_place or function.attr in _CHANGING_METHODS:
        draws = function.attr in ops.RANDOM_METHODS
        return Effects(mutates=frozenset(_place(function.value)), draws=draws)
    if function.attr in ("bernoulli", "multinomial"):
        return Effects(draws=True)
    return UNKNOWN


def _arguments(function: Function, call: ast.Call) -> dict[str, ast.expr] | None:
    """What a call passes for each parameter; None where that is not written out."""
    if any(isinstance(item, ast.Starred) for item in call.args):
        return None
    if any(item.arg is None for item in call.keywords):
        return None
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    if len(call.args) > len(names):
        return None
    found = dict(zip(names, call.args, strict=False))
    return found | {item.arg: item.value for item in call.keywords if item.arg}


def _is_local(function: Function, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(function)
    )
