"""How a function uses its parameters: evidence that one is a tensor, or that it is not."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import ops

_KNOWN = (
    ops.TENSOR_METHODS
    | ops.TENSOR_ATTRIBUTES
    | ops.NUMBER_ATTRIBUTES
    | ops.TENSOR_ONLY_ATTRIBUTES
    | {"shape", "device", "dtype", "grad_fn"}
)


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


def used_as_arrays(function: ast.AST, names: set[str]) -> dict[str, str]:
    """Parameters on which the function calls a method that arrays have: a sentence each."""
    found: dict[str, str] = {}
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in names
            and node.func.attr in ops.ARRAY_METHODS
        ):
            name, method = node.func.value.id, node.func.attr
            found.setdefault(name, f"`{name}` is used as a tensor: {name}.{method}()")
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
