"""The values of one file's expressions, found by running the interpreter again over that file.

Cached facts hold no values of expressions, so that they stay small; who asks about one file pays
for one file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.run import EXPRESSIONS, STATEMENTS, runs_of
from pygraph_lint.analysis.interpreter.state import Handlers, State
from pygraph_lint.analysis.program.facts import Sinks
from pygraph_lint.analysis.program.module import Module


class Recorded:
    """Values by node, and the environment in front of each statement; joined over loop turns."""

    def __init__(self) -> None:
        self.values: dict[ast.AST, Value] = {}
        self.environments: dict[ast.AST, dict[str, Value]] = {}

    def environment(self, node: ast.AST, env: dict[str, Value]) -> None:
        """Note what names may hold in front of a statement. A name that is bound on some ways only
        is left out.
        """
        old = self.environments.get(node)
        if old is None:
            self.environments[node] = dict(env)
            return
        for name in list(old):
            if name not in env:
                del old[name]
            else:
                old[name] = v.join(old[name], env[name])


class Recording:
    """The functions of a file are run abstractly, always in one order, as far as somebody asks;
    deeply nested code is left out.
    """

    def __init__(self, tree: ast.Module, name: str, is_package: bool, text: str | None) -> None:
        module = Module(tree, "", name, is_package, Sinks())
        module.text = text
        self._recorded = Recorded()
        self.functions = module.done  # those that were run so far
        self._names: dict[ast.AST, str] = {node: name for name, node, _ in module.functions}
        # What is recorded does not refer to the runs: they end when nobody asks any more.
        self._runs = runs_of(module, True, _recording(self._recorded))

    def around(self, path: Iterable[ast.AST]) -> Recorded:
        """What was recorded, with all there is of a node; ``path`` leads from it outwards."""
        name = self._function(path)
        for _ in self._runs if name is None or name not in self.functions else ():
            if name is not None and name in self.functions:
                break
        return self._recorded

    def _function(self, path: Iterable[ast.AST]) -> str | None:
        """The function in whose run alone a node is evaluated; None for any other node."""
        child: ast.AST | None = None
        name: str | None = None
        for node in path:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = self._names.get(node) if child in node.body else None
            elif not isinstance(node, (ast.ClassDef, ast.Module)) and isinstance(node, ast.stmt):
                name = None  # a block at import level is run with the module's statements, too
            child = node
        return name


def _recording(recorded: Recorded) -> Handlers:
    """Handlers that note each value they compute, and each statement they come to."""
    expressions = {kind: _noting(handler, recorded) for kind, handler in EXPRESSIONS.items()}
    kinds = (kind for kind in ast.stmt.__subclasses__())
    statements = {kind: _announcing(STATEMENTS.get(kind), recorded) for kind in kinds}
    return Handlers(expressions, statements, keeps_calls=False)


def _noting(
    handler: Callable[[State, ast.expr], Value], recorded: Recorded
) -> Callable[[State, ast.expr], Value]:
    values = recorded.values

    def evaluate(state: State, node: ast.expr) -> Value:
        value = handler(state, node)
        old = values.get(node)
        values[node] = value if old is None else v.join(old, value)
        return value

    return evaluate


def _announcing(
    handler: Callable[[State, ast.stmt], bool | None] | None, recorded: Recorded
) -> Callable[[State, ast.stmt], bool | None]:
    def run(state: State, node: ast.stmt) -> bool | None:
        recorded.environment(node, state.env)
        return handler(state, node) if handler is not None else None

    return run
