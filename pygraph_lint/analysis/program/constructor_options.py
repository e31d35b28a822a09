"""Attributes that keep what a constructor is passed, as it is: what users may choose."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.program.facts import StoredOption
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.program.names import FunctionNode
from pygraph_lint.analysis.program.parameters import assigned_names
from pygraph_lint.analysis.syntax.nodes import dotted, keyword, statements

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ANYTHING = StoredOption()


def note_options(file: Module) -> None:
    """Note what the attributes of a file's classes keep, and which attributes of other objects its
    functions set.
    """
    for name, node in file.class_nodes.items():
        found: dict[str, tuple[StoredOption, ...]] = {}
        for attribute, kept in _stores(node):
            found[attribute] = (*found.get(attribute, ()), kept)
        file.facts.classes[name].options = found
    file.facts.set_outside = frozenset(_set_outside(file))


def _stores(owner: ast.ClassDef) -> Iterator[tuple[str, StoredOption]]:
    """The attributes that a class and its methods bind, with what they keep then. A field without a
    value is one that the class has to be given, where it has no constructor of its own.
    """
    made = any(isinstance(each, _FUNCTIONS) and each.name == "__init__" for each in owner.body)
    for method in owner.body:
        if isinstance(method, (ast.Assign, ast.AnnAssign)) and (not made or method.value):
            yield from _fields(method)
        if not isinstance(method, _FUNCTIONS) or not method.args.args:
            continue
        own = method.args.args[0].arg
        given = _unchanged(method) if method.name == "__init__" else frozenset()
        for target, value in bound_attributes(method):
            if isinstance(target.value, ast.Name) and target.value.id == own:
                yield target.attr, _kept(value, given)


def _fields(statement: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, StoredOption]]:
    """The attributes that a class has by a statement of its own, where that gives a constant, or
    nothing.
    """
    kept = _kept(statement.value, frozenset())
    required = isinstance(statement, ast.AnnAssign) and statement.value is None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for name in targets if kept.is_const or required else ():
        if isinstance(name, ast.Name):
            yield name.id, kept


def _kept(value: ast.expr | None, given: frozenset[str]) -> StoredOption:
    """What a value is, in a constructor that is given some parameters."""
    if isinstance(value, ast.Name) and value.id in given:
        return StoredOption(parameter=value.id)
    if isinstance(value, ast.Constant):
        return _constant(value)
    if isinstance(value, ast.Call):
        said = keyword(value, "default")  # `field(default=False)`, `config("A", default=False)`
        return _constant(said) if isinstance(said, ast.Constant) else _ANYTHING
    return _ANYTHING


def _constant(node: ast.Constant) -> StoredOption:
    plain = node.value is None or isinstance(node.value, (bool, int, float, str))
    return StoredOption(const=node.value, is_const=True) if plain else _ANYTHING


def _unchanged(function: FunctionNode) -> frozenset[str]:
    """The parameters that a function never binds again."""
    given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return frozenset(each.arg for each in given) - assigned_names(function)


def bound_attributes(function: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr | None]]:
    """The attributes that the statements of a function bind, each with the value; not where one
    keeps what it held, on another device: ``self.weight = self.weight.to(x)``.
    """
    for node in statements(getattr(function, "body", [])):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    if not _is_method_of(node.value, target):
                        yield target, node.value
                elif isinstance(target, (ast.Tuple, ast.List)):
                    paired = isinstance(node.value, ast.Tuple)
                    values = node.value.elts if paired else [None] * len(target.elts)  # type: ignore[attr-defined]
                    pairs = zip(target.elts, values, strict=False)
                    yield from ((one, of) for one, of in pairs if isinstance(one, ast.Attribute))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            yield node.target, node.value
        elif isinstance(node, (ast.AugAssign, ast.For)) and isinstance(node.target, ast.Attribute):
            yield node.target, None


def default_of_key(node: ast.expr) -> ast.Constant | None:
    """What an expression gives where settings do not say it: ``settings.get("flag", False)``,
    ``getattr(settings, "flag", False)``.
    """
    if not isinstance(node, ast.Call) or len(node.args) < 2 or node.keywords:
        return None
    called, default = node.func, node.args[-1]
    by_name = isinstance(called, ast.Name) and called.id == "getattr" and len(node.args) == 3
    by_key = isinstance(called, ast.Attribute) and called.attr == "get" and len(node.args) == 2
    plain = isinstance(default, ast.Constant) and default.value is not None
    return default if (by_name or by_key) and plain else None  # type: ignore[return-value]


def key_of(node: ast.expr) -> str:
    """What is asked of settings: ``flag`` of ``settings.flag`` and of ``settings["flag"]``."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_method_of(value: ast.expr, target: ast.Attribute) -> bool:
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(called, ast.Attribute) and dotted(called.value) == dotted(target)


def _set_outside(file: Module) -> Iterator[str]:
    """The attributes of objects other than its own that a file binds: ``model.flag = True``."""
    for name, node, _ in file.functions:
        del name
        arguments = node.args.args
        own = arguments[0].arg if arguments and arguments[0].arg in ("self", "cls") else ""
        for target, _ in bound_attributes(node):
            if not (isinstance(target.value, ast.Name) and target.value.id == own):
                yield target.attr
