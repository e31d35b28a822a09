"""The values of one file's expressions, found by running the interpreter again over that file.

Cached facts hold no values of expressions, so that they stay small; who asks about one file pays
for one file.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.context import ModuleContext
from pygraph_lint.analysis.model import Sinks
from pygraph_lint.analysis.statements import Interpreter
from pygraph_lint.analysis.values import Value


class Recorded:
    """Values by node, and the environment in front of each statement; joined over loop turns."""

    def __init__(self) -> None:
        self.values: dict[ast.AST, Value] = {}
        self.environments: dict[ast.AST, dict[str, Value]] = {}

    def value(self, node: ast.AST, value: Value) -> None:
        """Note that an expression may have a value."""
        old = self.values.get(node)
        self.values[node] = value if old is None else v.join(old, value)

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


class _RecordingInterpreter(Interpreter):
    """An interpreter that notes each value it computes."""

    recorded: Recorded

    def ev(self, node: ast.expr | None) -> Value:
        value = super().ev(node)
        if node is not None:
            self.recorded.value(node, value)
        return value

    def run(self, body: list[ast.stmt]) -> bool:
        for statement in body:
            self.recorded.environment(statement, self.env)
            if super().run([statement]):
                return True
        return False


def record(tree: ast.Module, module: str, is_package: bool) -> Recorded:
    """Run every function of a file abstractly; deeply nested code is left out."""
    recorded = Recorded()
    kind = type("Recording", (_RecordingInterpreter,), {"recorded": recorded})
    context = ModuleContext(tree, "", module, is_package, Sinks())
    context.interpreter = kind
    context.fill(True)
    return recorded
