"""What the uses of a value show in a training loop: it is a loss, it is a module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property

from pygraph_lint.analysis.control_flow.reaching_definitions import Scope
from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS, BindingKind, Definition
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain.device_moves import moved_by, moves_to_device
from pygraph_lint.analysis.loops.calls import MODULE_MARKS, PREPARING, losses
from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.syntax.nodes import children, dotted, walk

# What names mean that a file has by a star import, as it seems.
_BY_CONVENTION = {
    "np": "numpy",
    "torch": "torch",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "DataLoader": "torch.utils.data.DataLoader",
}


class LoopQueries(FileQueries):
    """Answers about a file, in which star imports bring the names that everybody uses."""

    def qualified(self, node: ast.expr) -> str | None:
        """What a name or a dotted expression stands for."""
        known = super().qualified(node)
        first, _, rest = (dotted(node) or "").partition(".") if known is None else ("", "", "")
        meant = _BY_CONVENTION.get(first)
        if meant is None or not self._is_from_outside(node):
            return known
        return f"{meant}.{rest}" if rest else meant

    def _is_from_outside(self, node: ast.expr) -> bool:
        """Whether nothing in the file binds the name that an expression begins with."""
        while isinstance(node, ast.Attribute):
            node = node.value
        found = self.definitions.reaching(node) if isinstance(node, ast.Name) else ()
        return bool(found) and all(each.kind is BindingKind.OUTSIDE for each in found)


class LoopEvidence:
    """What one file shows of names and attributes by the way they are used."""

    def __init__(self, queries: FileQueries) -> None:
        self._queries = queries
        self._inside: dict[ast.AST, set[ast.AST]] = {}

    @cached_property
    def functions(self) -> dict[tuple[ast.AST | None, str], ast.AST]:
        """The functions of the file, by class and name."""
        parent = self._queries.parent
        return {
            (parent(node) if isinstance(parent(node), ast.ClassDef) else None, node.name): node
            for node in self._queries.definitions.functions
        }

    def is_property(self, owner: ast.AST, name: str) -> bool:
        """Whether a method of a class is read as an attribute."""
        decorators = getattr(self.functions[owner, name], "decorator_list", [])
        return any((dotted(each) or "").endswith("property") for each in decorators)

    @cached_property
    def called(self) -> frozenset[str | None]:
        """The dotted names that the file calls."""
        return frozenset(dotted(node.func) for node in self._queries.of_kind(ast.Call))

    @cached_property
    def loss_places(self) -> set[Definition | str]:
        """Definitions and dotted places on which gradients are computed."""
        found: set[Definition | str] = set()
        for loss in losses(self._queries.of_kind(ast.Call)):
            if isinstance(loss, ast.Name):
                found.update(self._queries.definitions.reaching(loss))
            written = ast.unparse(loss)
            if not isinstance(loss, ast.Name):
                found.add(written)
        return found

    @cached_property
    def made_for_loss(self) -> set[Definition]:
        """Definitions whose value a loss is computed from."""
        found: set[Definition] = set()
        for loss in self._loss_nodes:
            if isinstance(loss, ast.Name):
                made = set(self._queries.definitions.reaching(loss))
                found |= self._sources(made, _operands, self._around(loss))
        return found

    def _around(self, loss: ast.expr) -> set[ast.AST]:
        """What is in the outermost loop around a loss; without one, in the function."""
        outermost: ast.AST = self._queries.tree
        for each in self._queries.path(loss):
            if isinstance(each, (ast.For, ast.AsyncFor, ast.While)):
                outermost = each
            elif isinstance(each, FUNCTIONS):
                if not isinstance(outermost, (ast.For, ast.AsyncFor, ast.While)):
                    outermost = each
                break
        if outermost not in self._inside:
            self._inside[outermost] = set(walk(outermost))
        return self._inside[outermost]

    @cached_property
    def moved_later(self) -> set[Definition]:
        """Definitions whose value, or a part of it, is moved to the device later."""
        moved: set[Definition] = set()
        for node in self._queries.of_kind(ast.Call):
            for whole in moved_by(node):
                for name in _wholes(whole):
                    moved.update(self._queries.definitions.reaching(name))
        return self._sources(moved, _wholes)

    def _sources(
        self,
        found: set[Definition],
        names: Callable[[ast.AST], Iterator[ast.Name]],
        inside: set[ast.AST] | None = None,
    ) -> set[Definition]:
        """Definitions, and those of the ``names`` in what these are made by, and so on, as long as
        they are ``inside``.
        """
        front = list(found)
        while front:
            value = self._made_by(front.pop())
            for node in names(value) if value is not None else ():
                new = set(self._queries.definitions.reaching(node)) - found
                if inside is not None:
                    new = {each for each in new if each.node in inside}
                found |= new
                front += new
        return found

    def _made_by(self, definition: Definition) -> ast.expr | None:
        """The expression that a definition's value is, or is a part of."""
        if definition.kind is BindingKind.UNPACKED:
            return getattr(self._queries.statement(definition.node), "value", None)
        return definition.value

    def is_computed(self, definition: Definition) -> bool:
        """Whether a value that a loss is computed from is the result of a call, or what that has,
        on the device: nothing moves it there later.
        """
        made = self._made_by(definition)
        of_result = isinstance(made, ast.Attribute) and isinstance(made.value, ast.Call)
        if not isinstance(made, ast.Call) and not (of_result and made.value.args):  # type: ignore[union-attr]
            return False
        return definition in self.made_for_loss and definition not in self.moved_later

    @cached_property
    def module_names(self) -> set[tuple[Scope | None, str]]:
        """Names and attributes that are used as modules: by scope and text."""
        found: set[tuple[Scope | None, str]] = set()
        for node in self._queries.of_kind(ast.Attribute):
            if node.attr in MODULE_MARKS:
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

    def gives_to_module(self, loop: ast.AST) -> bool:
        """Whether a loop passes what it gets to a module as it is: so that is on the device."""
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or self._scatters:
            return False
        names = {node for node in walk(loop.target) if isinstance(node, ast.Name)}
        moved = {each.node for each in self.moved_later}
        if not self.is_step_loop(loop) or not names.isdisjoint(moved):
            return False
        given: set[Definition] = set()
        for call in walk(loop):
            if isinstance(call, ast.Call) and self._is_of_module(call.func):
                values = [*call.args, *(item.value for item in call.keywords)]
                if any(map(self.used_as_module, values)):
                    continue  # a loss of a model, which moves its batches
                for name in (name for each in values for name in _wholes(each)):
                    given.update(self._queries.definitions.reaching(name))
        return any(each.node in names for each in self._sources(given, _wholes))

    def _is_of_module(self, function: ast.expr) -> bool:
        """Whether a module is called, or a method of it that does not move what it gets."""
        if self.used_as_module(function):
            return True
        method = function.attr if isinstance(function, ast.Attribute) else ""
        return bool(method) and not PREPARING.search(method) and self.used_as_module(function.value)  # type: ignore[attr-defined]

    @cached_property
    def _scatters(self) -> bool:
        """Whether the file has ``DataParallel``, which moves the batches itself."""
        return any(node.attr == "DataParallel" for node in self._queries.of_kind(ast.Attribute))

    def is_mapping(self, definition: Definition) -> bool:
        """Whether methods of mappings are called on what a definition gives."""
        return self._queries.definitions.asked_for(definition, ("items", "values", "keys"))

    def reads_item(self, definition: Definition) -> bool:
        """Whether ``.item()`` is called on what a definition gives."""
        return self._queries.definitions.asked_for(definition, ("item",))

    @cached_property
    def buffers(self) -> set[tuple[ast.ClassDef | None, object]]:
        """Names of buffers, by class: they are where the module is."""
        return {
            (self._queries.owner(node), node.args[0].value)
            for node in self._queries.of_kind(ast.Call)
            if dotted(node.func) == "self.register_buffer"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        }

    @cached_property
    def assigned_to_self(
        self,
    ) -> dict[tuple[ast.ClassDef | None, str], list[tuple[ast.expr, ast.expr]]]:
        """What is assigned to attributes of ``self``, with the target, by class and name."""
        found: dict[tuple[ast.ClassDef | None, str], list[tuple[ast.expr, ast.expr]]] = {}
        for node in self._queries.of_kind(ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                for one, value in pairs:
                    if isinstance(one, ast.Attribute) and dotted(one.value) == "self":
                        key = (self._queries.owner(one), one.attr)
                        found.setdefault(key, []).append((one, value))
        return found

    @cached_property
    def _loss_nodes(self) -> list[ast.expr]:
        return list(losses(self._queries.of_kind(ast.Call)))


def _operands(node: ast.AST) -> Iterator[ast.Name]:
    """The names whose tensors an expression is computed from, as they are: no sizes, no places in
    a tensor, no objects whose methods are called, and nothing that is still to be moved.
    """
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node
    elif isinstance(node, ast.Subscript):
        yield from _operands(node.value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
        yield from _operands(node.left)  # by a number of rows, or of steps
    elif isinstance(node, ast.Call):
        name = dotted(node.func) or ""
        if moves_to_device(node) or name in _OF_NUMBERS or name.startswith("math."):
            return
        method = node.func if isinstance(node.func, ast.Attribute) else None
        if method is not None and method.attr in ops.TENSOR_METHODS:
            yield from _operands(method.value)
        for each in (*node.args, *(item.value for item in node.keywords)):
            yield from _operands(each)
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        yield from _operands(node.elt)
        for part in node.generators:
            yield from _operands(part.iter)
    else:
        for child in children(node):
            yield from _operands(child)


def _wholes(node: ast.AST) -> Iterator[ast.Name]:
    """The names that stand for a value, or for what it is a part of: of ``batch["x"].float()``,
    and of each value of a tuple.
    """
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, (ast.Subscript, ast.Attribute, ast.Starred)):
        yield from _wholes(node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ops.TENSOR_METHODS:
            yield from _wholes(node.func)
    elif isinstance(node, (ast.Tuple, ast.List)):
        for each in node.elts:
            yield from _wholes(each)


_OF_NUMBERS = frozenset(("range", "len", "int", "float", "bool", "str", "getattr", "isinstance"))
