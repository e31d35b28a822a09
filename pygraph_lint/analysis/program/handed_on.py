"""Which functions a file may hand on: it reads their names without calling them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.program.module import Module

_BY_NAME = frozenset(("getattr", "hasattr", "setattr", "attrgetter", "methodcaller"))


def handed_on(file: Module) -> frozenset[str]:
    """The last names of what a file reads and does not call, also through ``getattr``; of names
    only those of functions and imports.
    """
    known: set[str] = set()
    read: set[str] = set()
    attributes: set[str] = set()
    others: set[str] = set()
    called = {id(node.func) for node in file.nodes if isinstance(node, ast.Call)}
    for node in file.nodes:
        if isinstance(node, ast.Name):
            if id(node) not in called:
                read.add(node.id)
        elif isinstance(node, ast.Attribute):
            if id(node) not in called and isinstance(node.ctx, ast.Load):
                attributes.add(node.attr)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            known.add(node.name)
        elif isinstance(node, ast.alias):
            known.add((node.asname or node.name).partition(".")[0])
            others.update(_renamed(node))
        elif isinstance(node, ast.Call):
            others.update(_looked_up(node))
    return frozenset((read if "*" in known else read & known) | attributes | others)


def _renamed(node: ast.alias) -> Iterator[str]:
    """What is imported under another name: it may be handed on under that."""
    if node.asname is not None and node.asname != node.name:
        yield node.name.rpartition(".")[2]


def _looked_up(call: ast.Call) -> Iterator[str]:
    """``scale`` of ``getattr(self, "scale")``."""
    name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
    if name in _BY_NAME:
        for each in call.args:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value.rpartition(".")[2]
