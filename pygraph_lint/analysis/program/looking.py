"""Which functions a file looks at, or looks at others with: their code, their frames."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.syntax.nodes import dotted

_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__", "__globals__", "__closure__")
_OF_FRAMES = ("_getframe", "currentframe", "f_back", "getouterframes", "getfullargspec")
_WORDS = re.compile("|".join((*_OF_FUNCTIONS, *_OF_FRAMES, r"stacklevel|inspect\.stack")))


def looked_at(text: str, file: Module) -> frozenset[str]:
    """The last names of what a file reads ``__code__`` and the like of, and the names of the
    functions that do so or look at the frames of their callers.
    """
    if _WORDS.search(text) is None:
        return frozenset()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [each for each in file.nodes if isinstance(each, kinds)]
    around = {each.name for each in functions if any(map(_looks, ast.walk(each)))}
    return frozenset(around.union(*map(_receivers, file.nodes)))


def _receivers(node: ast.AST) -> Iterator[str]:
    """``scale`` of ``helpers.scale.__code__``."""
    if isinstance(node, ast.Attribute) and node.attr in _OF_FUNCTIONS:
        yield (dotted(node.value) or "").rpartition(".")[2]


def _looks(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):  # the second level is the line of the call itself
        near = isinstance(node.value, ast.Constant) and node.value.value in (1, 2)
        return node.arg == "stacklevel" and not near
    name = getattr(node, "attr", None) or getattr(node, "id", None)
    return name in _OF_FUNCTIONS or name in _OF_FRAMES or name == "stack"
