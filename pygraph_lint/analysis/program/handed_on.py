"""Which functions a file may hand on: it reads or writes down their names without calling them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.syntax.nodes import dotted

#: Stands for the methods of every class that has bases: these may look at them.
INHERITED = "__init_subclass__"
_PLAIN_METACLASSES = ("ABCMeta", "abc.ABCMeta")


def handed_on(file: Module) -> frozenset[str]:
    """The last names of what a file reads and does not call, or has as a text that something may be
    looked up by; of names only those of functions and imports.
    """
    known: set[str] = set()
    read: set[str] = set()
    attributes: set[str] = set()
    others: set[str] = set()
    listed = _listed(file)
    called = {id(node.func) for node in file.nodes if isinstance(node, ast.Call)}
    for node in file.nodes:
        if isinstance(node, ast.Name):
            if id(node) not in called:
                read.add(node.id)
        elif isinstance(node, ast.Attribute):
            if id(node) not in called and isinstance(node.ctx, ast.Load):
                attributes.add(node.attr)
        elif isinstance(node, ast.Constant) and id(node) not in listed:
            others.update(_looked_up(node))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            known.add(node.name)
        elif isinstance(node, ast.alias):
            known.add((node.asname or node.name).partition(".")[0])
            others.update(_renamed(node))
        elif isinstance(node, ast.ClassDef) and _looks_at_subclasses(node):
            others.add(INHERITED)
    return frozenset((read if "*" in known else read & known) | attributes | others)


def _renamed(node: ast.alias) -> Iterator[str]:
    """What is imported under another name: it may be handed on under that."""
    if node.asname is not None and node.asname != node.name:
        yield node.name.rpartition(".")[2]


def _looked_up(text: ast.Constant) -> Iterator[str]:
    """``scale`` of ``getattr(self, "scale")``, or of a table of names."""
    if isinstance(text.value, str):
        name = text.value.rpartition(".")[2]
        if name.isidentifier():
            yield name


def _listed(file: Module) -> set[int]:
    """The texts of ``__all__``, by which nothing is looked up."""
    found: set[int] = set()
    for statement in file.tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)):
            parts = list(ast.walk(statement))
            if any(isinstance(each, ast.Name) and each.id == "__all__" for each in parts):
                found.update(map(id, parts))
    return found


def _looks_at_subclasses(owner: ast.ClassDef) -> bool:
    """Whether a class, or the one that makes it, may look at the functions of its subclasses."""
    metaclasses = [each.value for each in owner.keywords if each.arg in ("metaclass", None)]
    own = any(getattr(each, "name", None) == INHERITED for each in owner.body)
    return own or any(dotted(each) not in _PLAIN_METACLASSES for each in metaclasses)
