"""Where the positions that ``torch.arange`` makes of Python numbers go to, in the methods of a
class, and whether a list would do there.

A list is sliced, joined and indexed as a tensor of one dimension is; what else is done with one of
the positions has to want a number.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from pygraph_lint.fixes.names import loads, own_nodes, parameters, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal

_JOINED: tuple[list[str], ...] = (["0"], ["dim=0"], [])


@dataclass(frozen=True)
class Place:
    """A name in one method."""

    method: ast.FunctionDef
    name: str


@dataclass
class Uses:
    """What has to be written otherwise, as far as the positions were followed.

    ``joins`` are calls of ``torch.cat``, ``made`` calls of ``new_tensor``, ``devices`` reads of the
    tensor's device, each with its method; ``calls`` those of the methods that positions go to.
    """

    places: list[Place] = field(default_factory=list)
    joins: list[ast.Call] = field(default_factory=list)
    made: list[ast.Call] = field(default_factory=list)
    devices: list[tuple[ast.FunctionDef, ast.Attribute]] = field(default_factory=list)
    calls: list[tuple[ast.FunctionDef, ast.Call]] = field(default_factory=list)
    numbers: set[Place] = field(default_factory=set)
    bounds: set[ast.AST] = field(default_factory=set)
    returning: list[ast.FunctionDef] = field(default_factory=list)


class Follower:
    """Follows positions through the methods of a class. Raises Declined where a list would not
    do.
    """

    def __init__(self, proposal: Proposal, owner: ast.ClassDef, seed: ast.Assign) -> None:
        self.uses = Uses()
        self._proposal = proposal
        self._seed = seed
        self._above = parents(owner)
        self._methods = {
            item.name: item for item in owner.body if isinstance(item, ast.FunctionDef)
        }
        self._sequences: set[ast.expr] = {seed.value}

    def follow(self, method: ast.FunctionDef, name: str) -> Uses:
        """Everything that becomes of the positions bound to a name."""
        self._add(Place(method, name))
        for place in self.uses.places:  # grows
            for read in loads(place.method, place.name):
                self._sequence(place.method, read)
        for place in self.uses.places:
            for bound in stores(place.method, place.name):
                self._check_binding(place, bound)
        for each in self.uses.returning:
            for node in own_nodes(each):
                if isinstance(node, ast.Return):
                    self._check(node.value)
        for join in self.uses.joins:
            for part in join.args[0].elts:  # type: ignore[attr-defined]
                self._check(part)
        return self.uses

    def _add(self, place: Place) -> None:
        if place not in self.uses.places:
            self.uses.places.append(place)

    def _check(self, node: ast.expr | None) -> None:
        if isinstance(node, ast.IfExp):
            self._check(node.body)
            self._check(node.orelse)
        elif node not in self._sequences:
            raise Declined("the positions meet something else")

    def _check_binding(self, place: Place, bound: ast.AST) -> None:
        """What a name of positions is bound to has to be positions."""
        if isinstance(bound, ast.arg):
            calls = [call for called, call in self.uses.calls if called is place.method]
            for call in calls:
                given = self._given(place.method, call, place.name)
                if given is not None and not _is_none(given):
                    self._check(given)
            return
        parent = self._above.get(bound)
        if not isinstance(parent, ast.Assign) or parent.targets != [bound]:
            raise Declined(f"{place.name} is bound to something else")
        self._check(parent.value)

    def _given(self, method: ast.FunctionDef, call: ast.Call, name: str) -> ast.expr | None:
        names = [item.arg for item in parameters(method)][1:]
        by_name = {item.arg: item.value for item in call.keywords}
        return by_name.get(name, dict(zip(names, call.args, strict=False)).get(name))

    def _sequence(self, method: ast.FunctionDef, node: ast.expr) -> None:
        """Go on from an expression that is positions to what takes it."""
        self._sequences.add(node)
        parent = self._above.get(node)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            self._subscript(method, parent)
        elif isinstance(parent, ast.Attribute):
            self._attribute(method, parent)
        elif isinstance(parent, ast.Compare):
            if not all(map(_is_none, parent.comparators)):
                raise Declined("the positions are compared")
        elif isinstance(parent, ast.IfExp) and node is not parent.test:
            self._sequence(method, parent)
        elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            if not isinstance(parent.targets[0], ast.Name):
                raise Declined("the positions are kept")
            self._add(Place(method, parent.targets[0].id))
        elif isinstance(parent, ast.Return):
            self._returned(method)
        elif isinstance(parent, (ast.List, ast.Tuple)):
            self._joined(method, parent)
        elif isinstance(parent, ast.keyword):
            self._passed(method, node, self._above.get(parent))
        elif isinstance(parent, ast.Call):
            self._passed(method, node, parent)
        else:
            raise Declined("the positions are used in another way")

    def _subscript(self, method: ast.FunctionDef, node: ast.Subscript) -> None:
        taken = node.slice
        if isinstance(taken, ast.Slice):
            bounds = [taken.lower, taken.upper, taken.step]
            if not all(bound is None or _is_whole(bound) for bound in bounds):
                raise Declined("a slice of the positions is not written out")
            self._sequence(method, node)
        elif _is_whole(taken):
            self._number(method, node)
        else:
            raise Declined("the positions are indexed by more than a number")

    def _attribute(self, method: ast.FunctionDef, node: ast.Attribute) -> None:
        call = self._above.get(node)
        if node.attr == "device":
            self.uses.devices.append((method, node))
        elif node.attr == "new_tensor" and isinstance(call, ast.Call) and _lists(call):
            self.uses.made.append(call)
            self._sequence(method, call)
        else:
            raise Declined(f"the positions are asked for {node.attr}")

    def _joined(self, method: ast.FunctionDef, parts: ast.List | ast.Tuple) -> None:
        call = self._above.get(parts)
        if not isinstance(call, ast.Call) or self._proposal.names.callee(call) != "torch.cat":
            raise Declined("the positions are kept in a list")
        rest = [*map(ast.unparse, call.args[1:]), *map(ast.unparse, call.keywords)]
        if rest not in _JOINED or call.args[0] is not parts:
            raise Declined("the positions are joined in another way")
        if call not in self.uses.joins:
            self.uses.joins.append(call)
            self._sequence(method, call)

    def _passed(self, method: ast.FunctionDef, node: ast.expr, call: ast.AST | None) -> None:
        """Positions are an argument: of ``len``, or of another method of the class."""
        if not isinstance(call, ast.Call):
            raise Declined("the positions are used in another way")
        name = ast.unparse(call.func)
        if name == "len" and call.args == [node]:
            return
        called = self._methods.get(name.removeprefix("self.")) if name.startswith("self.") else None
        if called is None or called.decorator_list or _starred(call):
            raise Declined("the positions go to a function that is not known")
        for item in parameters(called):
            if self._given(called, call, item.arg) is node:
                self._add(Place(called, item.arg))
        self._enter(called)

    def _enter(self, called: ast.FunctionDef) -> None:
        """Note all calls of a method that takes positions."""
        for method in self._methods.values():
            for node in own_nodes(method):
                named = isinstance(node, ast.Attribute) and node.attr == called.name
                call = self._above.get(node)
                if not named or (called, call) in self.uses.calls:
                    continue
                if not isinstance(call, ast.Call) or call.func is not node or _starred(call):
                    raise Declined(f"{called.name} is not only called")
                self.uses.calls.append((called, call))

    def _returned(self, method: ast.FunctionDef) -> None:
        if method in self.uses.returning:
            return
        self._enter(method)
        self.uses.returning.append(method)
        for called, call in list(self.uses.calls):
            if called is method:
                self._sequence(self._around(call), call)

    def _around(self, node: ast.AST) -> ast.FunctionDef:
        while not isinstance(node, ast.FunctionDef):
            node = self._above[node]
        return node

    def _number(self, method: ast.FunctionDef, node: ast.expr) -> None:
        """Go on from one position: into arithmetic, and then the bounds of ``torch.arange``."""
        parent = self._above.get(node)
        if isinstance(parent, (ast.BinOp, ast.UnaryOp)):
            self._number(method, parent)
        elif isinstance(parent, ast.Call) and node in parent.args:
            if self._proposal.names.callee(parent) != "torch.arange":
                raise Declined("one position goes to a function that may want a tensor")
            self.uses.bounds.add(parent)
        elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            target = parent.targets[0]
            if not isinstance(target, ast.Name) or stores(method, target.id) != [target]:
                raise Declined("one position is kept")
            place = Place(method, target.id)
            if place not in self.uses.numbers:
                self.uses.numbers.add(place)
                for read in loads(method, target.id):
                    self._number(method, read)
        else:
            raise Declined("one position is used as a tensor")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_whole(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def _lists(call: ast.Call) -> bool:
    """Whether a call has one argument, a list that is written out."""
    return len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.List)


def _starred(call: ast.Call) -> bool:
    return any(isinstance(item, ast.Starred) for item in call.args) or any(
        item.arg is None for item in call.keywords
    )
