"""What the uses of a value show in a training loop: it is a loss, it is a module."""

from __future__ import annotations

import ast
from functools import cached_property

from pygraph_lint.analysis.definitions import Scope
from pygraph_lint.analysis.loop_calls import MODULE_MARKS, losses, moves_to_device
from pygraph_lint.analysis.nodes import dotted, walk
from pygraph_lint.analysis.queries import FileQueries
from pygraph_lint.analysis.statement_graph import BindingKind, Definition


class LoopEvidence:
    """What one file shows of names and attributes by the way they are used."""

    def __init__(self, queries: FileQueries) -> None:
        self._queries = queries

    @cached_property
    def loss_places(self) -> set[Definition | str]:
        """Definitions and dotted places on which gradients are computed."""
        found: set[Definition | str] = set()
        for loss in losses(self._queries.nodes):
            if isinstance(loss, ast.Name):
                found.update(self._queries.definitions.reaching(loss))
            written = ast.unparse(loss)
            if not isinstance(loss, ast.Name):
                found.add(written)
        return found

    @cached_property
    def made_for_loss(self) -> set[Definition]:
        """Definitions whose value a loss is computed from."""
        found = {each for each in self.loss_places if isinstance(each, Definition)}
        front = list(found)
        while front:
            value = self._made_by(front.pop())
            for node in walk(value) if value is not None else ():
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    new = set(self._queries.definitions.reaching(node)) - found
                    found |= new
                    front += new
        return found

    def _made_by(self, definition: Definition) -> ast.expr | None:
        """The expression that a definition's value is, or is a part of."""
        if definition.kind is BindingKind.UNPACKED:
            return getattr(self._queries.statement(definition.node), "value", None)
        return definition.value

    def is_computed(self, definition: Definition) -> bool:
        """Whether a value that a loss is computed from is the result of a call, on the device:
        nothing moves it there later.
        """
        if not isinstance(self._made_by(definition), ast.Call):
            return False
        for use in self._queries.uses(definition):
            call = self._queries.parent(self._queries.parent(use) or use)
            if isinstance(call, ast.Call) and moves_to_device(call):
                return False
        return definition in self.made_for_loss

    @cached_property
    def module_names(self) -> set[tuple[Scope | None, str]]:
        """Names and attributes that are used as modules: by scope and text."""
        found: set[tuple[Scope | None, str]] = set()
        for node in self._queries.nodes:
            if isinstance(node, ast.Attribute) and node.attr in MODULE_MARKS:
                written = dotted(node.value)
                if written is not None:
                    found.add((self._scope_of(written, node), written))
        return found

    def _scope_of(self, written: str, node: ast.AST) -> Scope | None:
        return None if written.startswith("self.") else self._queries.scope(node)

    def used_as_module(self, node: ast.expr) -> bool:
        """Whether a method that only modules have is called on a name or attribute."""
        written = dotted(node)
        return written is not None and (self._scope_of(written, node), written) in (
            self.module_names
        )

    def is_step_loop(self, loop: ast.AST) -> bool:
        """Whether gradients are computed in a loop."""
        inside = set(walk(loop)) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()
        return any(each in inside for each in self._loss_nodes)

    @cached_property
    def _loss_nodes(self) -> list[ast.expr]:
        return list(losses(self._queries.nodes))
