"""The questions about a file that answers to other questions are made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Protocol

from pygraph_lint.analysis.definitions import FileDefinitions, Scope
from pygraph_lint.analysis.known import Known, ProjectView
from pygraph_lint.analysis.statement_graph import Definition


class Asking(Protocol):
    """Answers questions about one file; see ``FileQueries``."""

    view: ProjectView
    definitions: FileDefinitions
    believes: bool

    def known(self, node: ast.expr) -> Known: ...

    def is_tensor(self, node: ast.expr) -> bool: ...

    def callee(self, node: ast.AST) -> str | None: ...

    def qualified(self, node: ast.expr) -> str | None: ...

    def uses(self, definition: Definition) -> list[ast.Name]: ...

    def runs_before(self, first: ast.AST, second: ast.AST) -> bool: ...

    def parent(self, node: ast.AST) -> ast.AST | None: ...

    def path(self, node: ast.AST) -> Iterator[ast.AST]: ...

    def scope(self, node: ast.AST) -> Scope: ...
