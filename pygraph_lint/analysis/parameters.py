"""Parameters: what annotation, default and use say that a caller passes."""

from __future__ import annotations

import ast
from collections.abc import Callable

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.annotations import annotated
from pygraph_lint.analysis.events import Need
from pygraph_lint.analysis.model import FunctionFacts
from pygraph_lint.analysis.module import Module, kind_of_constant
from pygraph_lint.analysis.names import FunctionNode
from pygraph_lint.analysis.symbols import symbol
from pygraph_lint.analysis.values import Value

_KNOWN = (
    ops.TENSOR_METHODS
    | ops.TENSOR_ATTRIBUTES
    | ops.NUMBER_ATTRIBUTES
    | ops.TENSOR_ONLY_ATTRIBUTES
    | {"shape", "device", "dtype", "grad_fn"}
)


Resolve = Callable[[ast.expr], "str | None"]


def used_as_tensors(
    function: ast.AST, names: set[str], self_name: str, layers: frozenset[str]
) -> dict[str, str]:
    """Evidence per parameter: a sentence, or an empty string where the use speaks against a
    tensor.

    A parameter that is missing from the result left no trace either way.
    """
    evidence: dict[str, str] = {}
    against: set[str] = set()
    stack: list[ast.AST] = list(getattr(function, "body", []))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in names:
                name, attribute = node.value.id, node.attr
                if attribute not in _KNOWN:
                    against.add(name)
                elif (
                    attribute in ops.TENSOR_ONLY_ATTRIBUTES or attribute in ops.TENSOR_ONLY_METHODS
                ):
                    evidence.setdefault(name, f"`{name}` is used as a tensor: {name}.{attribute}")
        elif isinstance(node, ast.Call) and layers:
            callee = node.func
            if (
                isinstance(callee, ast.Attribute)
                and isinstance(callee.value, ast.Name)
                and callee.value.id == self_name
                and callee.attr in layers
                and node.args
                and isinstance(node.args[0], ast.Name)
                and node.args[0].id in names
            ):
                name = node.args[0].id
                evidence.setdefault(name, f"`{name}` is passed to the layer self.{callee.attr}")
        stack.extend(ast.iter_child_nodes(node))
    for name in against:
        evidence[name] = ""
    return evidence


def used_as_arrays(function: ast.AST, names: set[str], resolve: Resolve) -> dict[str, str]:
    """Parameters on which the function calls a method that arrays have, or that it passes to an
    operator of torch: a sentence each.
    """
    found: dict[str, str] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        receiver, method = node.func.value, node.func.attr
        if isinstance(receiver, ast.Name) and receiver.id in names:
            if method in ops.ARRAY_METHODS or (method in ops.READING_METHODS and not node.args):
                why = f"`{receiver.id}` is used as a tensor: {receiver.id}.{method}()"
                found.setdefault(receiver.id, why)
        elif method in ops.TENSOR_METHODS and node.args and isinstance(node.args[0], ast.Name):
            name = node.args[0].id
            if name in names and name not in found and resolve(receiver) == "torch":
                found[name] = f"`{name}` is passed to torch.{method}"
    return found


def assigned_names(function: ast.AST) -> set[str]:
    """Names that a function binds itself: they hide the module's."""
    found: set[str] = set()
    stack: list[ast.AST] = list(getattr(function, "body", []))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.NamedExpr):
            stack.append(node.target)
            stack.append(node.value)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Starred)) or not isinstance(node, ast.expr):
            stack.extend(ast.iter_child_nodes(node))
    return found


def parameter_names(node: FunctionNode, bound: bool) -> tuple[str, ...]:
    """The parameters a caller fills, in order."""
    arguments = node.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if bound:
        names = names[1:]
    return (*names, *(argument.arg for argument in arguments.kwonlyargs))


def bind_parameters(
    module: Module, facts: FunctionFacts, node: FunctionNode, self_name: str
) -> dict[str, Value]:
    """Values of the parameters: annotation, else the way they are used, else what callers pass."""
    env: dict[str, Value] = {}
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    ordered = positional[1:] if self_name else positional
    defaults = _defaults(arguments, ordered)
    unknown: list[str] = []
    for argument in (*ordered, *arguments.kwonlyargs):
        default = defaults.get(argument.arg)
        value = _declared(module, facts.name, argument, default)
        if value.kinds & v.UNKNOWN and not value.is_tensor:
            unknown.append(argument.arg)
        env[argument.arg] = value
    if unknown:
        layers = module.layer_names(facts.owner)
        used = used_as_tensors(node, set(unknown), self_name, layers)
        open_ones = {name for name in unknown if name not in used and name not in defaults}
        arrays = used_as_arrays(node, open_ones, module.names.resolve) if open_ones else {}
        facts.arrays = tuple(arrays)
        for name in unknown:
            default = defaults.get(name)
            env[name] = _guessed(facts.name, name, used, arrays, default, env[name])
    plain = (value.is_tensor and not value.needs for value in env.values())
    facts.takes_tensors = bool(facts.arrays) or any(plain)
    if arguments.vararg is not None:
        item = annotated(module.names, arguments.vararg.annotation, f"`*{arguments.vararg.arg}`")
        env[arguments.vararg.arg] = Value(v.SEQUENCE, item=item)
    if arguments.kwarg is not None:
        env[arguments.kwarg.arg] = v.MAPPING_VALUE
    return env


def _defaults(arguments: ast.arguments, ordered: list[ast.arg]) -> dict[str, ast.expr]:
    defaults: dict[str, ast.expr] = {}
    for argument, default in zip(reversed(ordered), reversed(arguments.defaults)):
        defaults[argument.arg] = default
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if keyword_default is not None:
            defaults[argument.arg] = keyword_default
    return defaults


def _declared(module: Module, function: str, argument: ast.arg, default: ast.expr | None) -> Value:
    """What annotation and default say of a parameter."""
    name = argument.arg
    value = annotated(module.names, argument.annotation, f"parameter `{name}`")
    if not value.kinds & v.UNKNOWN or value.is_tensor:
        if value.items and all(item.kinds == v.NUMBER for item in value.items):
            value = _numbers_or_tensors(function, name, len(value.items))
        elif value == v.NUMBER_VALUE and default is None:
            value = _number_or_tensor(function, name)
    if isinstance(default, ast.Constant):
        if default.value is None:
            return value._replace(kinds=value.kinds | v.NONE)
        if value.is_tensor:  # annotated as a tensor, but a plain value by default
            return kind_of_constant(default)
    return value


def _numbers_or_tensors(function: str, parameter: str, count: int) -> Value:
    """A parameter annotated ``tuple[int, int]``: annotations do not keep a caller from passing 0-d
    tensors.
    """
    why = f"a caller passes a tensor in `{parameter}`"
    needs = (Need("param", function, f"{parameter}|{place}") for place in range(count))
    items = (symbol(need, why)._replace(kinds=v.TENSOR | v.NUMBER) for need in needs)
    return Value(v.SEQUENCE, items=tuple(items))


def _number_or_tensor(function: str, parameter: str) -> Value:
    """A parameter annotated ``int``: a number, unless it is asked for a size."""
    why = f"a caller passes a tensor as `{parameter}`"
    return v.NUMBER_VALUE._replace(needs=(Need("given", function, parameter),), why=why)


def _guessed(
    function: str,
    parameter: str,
    used: dict[str, str],
    arrays: dict[str, str],
    default: ast.expr | None,
    declared: Value,
) -> Value:
    """The value of a parameter that no annotation explains."""
    optional = declared.kinds & v.NONE
    why = used.get(parameter)
    if why:
        return Value(v.TENSOR | optional, device=v.ON_DEVICE, why=why)
    if isinstance(default, ast.Constant) and default.value is not None:
        return Value(v.TEXT if isinstance(default.value, str) else v.NUMBER)
    if why is None:
        need = Need("param", function, parameter)
        why = arrays.get(parameter, f"a caller passes a tensor as `{parameter}`")
        return symbol(need, why, optional)
    return declared
