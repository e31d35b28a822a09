"""What becomes of a tensor that a function makes on the host: whether it meets the device."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cached_property

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.device_moves import is_moving, moves_to_device
from pygraph_lint.analysis.domain.events import EVERY, Need, Needs
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.syntax.nodes import last_part, parents_below


class Meets(Enum):
    """Whether a host tensor meets the device."""

    NEVER = 0
    PERHAPS = 1  # it is handed to code that is not looked at
    SEEN = 2


# Where a value goes next, or whether it meets the device there.
Further = list[ast.AST] | Meets
_BUILTINS = ("builtins.", "math.", "numpy.")
_OPERATIONS = ("torch.", "einops.")
_PAIRED = ("builtins.zip", "builtins.enumerate")
_JOINING = frozenset(("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"))
_UNPACKED = (ast.Tuple, ast.List, ast.Starred)


class HostUses:
    """The uses of host tensors in one function, as far as its names and expressions show them. All
    that is bound to a name anywhere counts as one.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._parents = parents_below(ast.Module(list(state.body.statements), []))
        self.conditions: set[Needs] = set()
        self._doubtful = False  # whether something seems to be on a device that cannot be

    @cached_property
    def _names(self) -> dict[str, list[ast.Name]]:
        found: dict[str, list[ast.Name]] = defaultdict(list)
        for node in self._parents:
            if isinstance(node, ast.Name) and (
                isinstance(node.ctx, ast.Load) or isinstance(self._parents[node], ast.AugAssign)
            ):
                found[node.id].append(node)
        return found

    @cached_property
    def _shared(self) -> set[str]:
        """The names that belong to a scope around."""
        kinds = (ast.Global, ast.Nonlocal)
        return {name for node in self._own if isinstance(node, kinds) for name in node.names}

    @cached_property
    def _own(self) -> set[ast.AST]:
        return set(self._state.body.own)

    @cached_property
    def calls(self) -> dict[tuple[int, int], ast.Call]:
        """The calls of the function by their places."""
        found = (node for node in self._parents if isinstance(node, ast.Call))
        return {(node.lineno, node.col_offset): node for node in found}

    def is_kept(self, made: ast.expr) -> bool:
        """Whether the tensor of an expression is bound as it is, not read or used at once."""
        return isinstance(self._parents.get(made), (ast.Assign, ast.AnnAssign, ast.NamedExpr))

    def meets(self, made: ast.expr) -> Meets:
        """Whether the tensor of an expression, or what is computed from it, meets the device, as
        far as this file shows. Where it is not seen to, any of ``conditions`` is enough.
        """
        self.conditions, self._doubtful = set(), False
        front: list[tuple[ast.AST, bool]] = [(made, True)]
        seen: set[tuple[ast.AST, bool]] = set()
        found = Meets.NEVER
        while front:
            # Not only of the host: a name may have got something else since, and a call that is
            # given the tensor may give anything. What is moved then comes from the host anyway.
            node, only_host = front.pop()
            if (node, only_host) in seen or (node, True) in seen:
                continue
            seen.add((node, only_host))
            parent = self._parents.get(node)
            handler = _STEPS.get(parent.__class__) if node in self._own else None
            further = handler(self, parent, node) if handler is not None else Meets.PERHAPS
            if isinstance(further, list):
                for each in further:
                    rebound = not self._doubtful and self._is_rebound(each)
                    front.append((each, only_host and not rebound))
                continue
            if further is Meets.SEEN and (only_host or self._is_move(parent)):
                return Meets.SEEN
            found = Meets.PERHAPS
            call = self._parents.get(parent) if isinstance(parent, ast.keyword) else parent
            if isinstance(call, ast.Call):
                front.append((call, False))
        return Meets.PERHAPS if self._doubtful else found

    def _is_move(self, node: ast.AST | None) -> bool:
        """Whether a call, or that of a method, says that it moves what it gets to a device."""
        call = self._parents.get(node) if isinstance(node, ast.Attribute) else node
        return isinstance(call, ast.Call) and (moves_to_device(call) or is_moving(call))

    def _is_rebound(self, node: ast.AST) -> bool:
        """Whether a name may hold a tensor of the device by now, which something else made."""
        value = self._value(node) if isinstance(node, ast.Name) else None
        return value is not None and value.is_tensor and value.device != v.ON_HOST

    def _path(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around one."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    # -- what is known of an expression

    def _value(self, node: ast.AST) -> Value | None:
        if isinstance(node, ast.Starred):
            return self._value(node.value)
        return self._state.seen.get(node)

    def _is_far(self, node: ast.AST, unknown: bool = True) -> bool:
        """Whether an expression may be a tensor of the device; ``unknown``: or may be anything."""
        value = self._value(node)
        if value is not None:
            return self._is_value_far(value, unknown)
        if isinstance(node, (ast.BinOp, ast.Tuple, ast.Slice)):
            return any(self._is_far(each, unknown) for each in ast.iter_child_nodes(node))
        plain = (ast.Constant, ast.Lambda, ast.operator, ast.expr_context)
        return not isinstance(node, plain)

    def _is_value_far(self, value: Value, unknown: bool) -> bool:
        if value.is_tensor and value.device != v.ON_HOST:
            if value.needs:
                self.conditions.add(value.needs)
            return not value.needs
        if unknown and value.kinds & v.UNKNOWN:
            return True
        return any(self._is_value_far(part, unknown) for part in v.parts(value))

    def _result(self, node: ast.AST) -> Further:
        """Where the result of an operation on host tensors goes."""
        value = self._value(node)
        if value is None or value.kinds & v.INSTANCE:  # a distribution, say
            return Meets.PERHAPS
        if self._is_value_far(value, False):
            return [node] if self._doubtful else Meets.SEEN
        if self._is_value_far(value, True):
            return Meets.PERHAPS
        return [node] if _holds_tensor(value) else []

    def _is_of_host(self, call: ast.Call) -> bool:
        """Whether a method gives a tensor of the host: ``.to(cpu)``, ``.to(float)``."""
        value = self._value(call)
        given = [*call.args, *(item.value for item in call.keywords)]
        kinds = [found.kinds for each in given if (found := self._value(each)) is not None]
        says = any(each & (v.DTYPE | v.DEVICE) for each in kinds)
        return value is not None and value.device == v.ON_HOST and says

    # -- one step each: from a value to what contains it

    def _ends(self, parent: ast.AST, node: ast.AST) -> Further:
        return []

    def _contained(self, parent: ast.AST, node: ast.AST) -> Further:
        return [parent]

    def _returned(self, parent: ast.AST, node: ast.AST) -> Further:
        self.conditions.add((Need("called", self._state.function.name, ""), EVERY))
        return []

    def _unary(self, parent: ast.UnaryOp, node: ast.AST) -> Further:
        return [] if isinstance(parent.op, ast.Not) else [parent]

    def _chosen(self, parent: ast.IfExp, node: ast.AST) -> Further:
        return [] if node is parent.test else [parent]

    def _combined(self, parent: ast.AST, node: ast.AST) -> Further:
        others = [each for each in ast.iter_child_nodes(parent) if isinstance(each, ast.expr)]
        far = any(each is not node and self._is_far(each, unknown=False) for each in others)
        return self._beside(parent, node) if far else [parent]

    def _beside(self, parent: ast.AST, node: ast.AST) -> Further:
        """Where a tensor goes that an operation gets with one of the device: one by element takes a
        number of the host, but nothing with axes, and one that joins takes none. Then neither is on
        a device.
        """
        by = last_part(parent.func) if isinstance(parent, ast.Call) else "add"
        value = self._value(node)
        shaped = by in ops.BY_ELEMENT and value is not None and value.ndim > 0
        if not shaped and by not in _JOINING:
            return Meets.SEEN
        self._doubtful = True
        return [parent]

    def _assigned(self, parent: ast.AST, node: ast.AST) -> Further:
        value = getattr(parent, "value", None)
        if node is not value:  # added to in place: it stays where it is
            return Meets.PERHAPS if value is None else []
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]  # type: ignore[attr-defined]
        if isinstance(parent, ast.AugAssign) and self._is_far(parent.target):
            return Meets.SEEN if self._is_far(parent.target, unknown=False) else Meets.PERHAPS
        further = self._bound(targets)
        if isinstance(further, list) and isinstance(parent, ast.NamedExpr):
            further.append(parent)
        return further

    def _bound(self, targets: Iterable[ast.expr]) -> Further:
        """Where names that hold a value are used, and containers that it is put into."""
        further: list[ast.AST] = []
        for target in targets:
            if isinstance(target, ast.Name) and target.id not in self._shared:
                further += self._names[target.id]
            elif isinstance(target, (ast.Tuple, ast.List)):
                inner = self._bound(target.elts)
                if not isinstance(inner, list):
                    return inner
                further += inner
            elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                held = self._value(target.value)
                if held is not None and held.kinds == v.TENSOR and self._is_value_far(held, False):
                    return Meets.SEEN
                if self._is_far(target.value):
                    return Meets.PERHAPS
                further += self._names[target.value.id]
            else:
                return Meets.PERHAPS
        return further

    def _iterated(self, parent: ast.For | ast.comprehension, node: ast.AST) -> Further:
        if node is not parent.iter:
            return []
        further = self._bound([parent.target])
        around = self._parents.get(parent) if isinstance(parent, ast.comprehension) else None
        if not isinstance(further, list) or around is None:
            return further
        return [each for each in further if around in self._path(each)]  # its names end there

    def _attribute(self, parent: ast.Attribute, node: ast.AST) -> Further:
        call = self._parents.get(parent)
        if not isinstance(call, ast.Call) or call.func is not parent:
            return self._result(parent)
        like = parent.attr == "type" and call.args and isinstance(call.args[0], ast.Call)
        if (moves_to_device(call) or like) and not self._is_of_host(call):
            return Meets.SEEN  # `.type(x.type())` among them
        return self._applied(call, node)

    def _applied(self, call: ast.Call, node: ast.AST) -> Further:
        """Where what an operation gives goes: of several tensors all have to be on the host."""
        given = [*call.args, *(item.value for item in call.keywords)]
        far = any(each is not node and self._is_far(each, unknown=False) for each in given)
        further = Meets.SEEN if far else self._result(call)
        return self._beside(call, node) if further is Meets.SEEN else further

    def _passed(self, parent: ast.Call, node: ast.AST) -> Further:
        name = self._state.qualified(parent.func) or ""
        if is_moving(parent):
            return Meets.SEEN
        if name in _PAIRED:
            return self._paired(parent, node)
        if name.startswith(_BUILTINS):
            return self._result(parent)
        if name == "torch.full":
            return []  # a number is read to fill with
        if name.startswith(_OPERATIONS) and not _is_layer(name):
            return self._applied(parent, node)
        base = parent.func.value if isinstance(parent.func, ast.Attribute) else None
        value = self._value(base) if base is not None else None
        if base is None or value is None or name:
            return Meets.PERHAPS
        if self._is_value_far(value, True):
            seen = value.kinds == v.TENSOR and self._is_value_far(value, False)
            sizes = isinstance(node, ast.Starred)
            return self._beside(parent, node) if seen and not sizes else Meets.PERHAPS
        if value.kinds == v.TENSOR:
            return self._applied(parent, node)
        return Meets.PERHAPS  # what it is put into may be stacked and copied as a whole

    def _keyword(self, parent: ast.keyword, node: ast.AST) -> Further:
        call = self._parents.get(parent)
        return self._passed(call, node) if isinstance(call, ast.Call) else Meets.PERHAPS

    def _paired(self, call: ast.Call, node: ast.AST) -> Further:
        """``for a, b in zip(x, y)``: the name that an argument's elements are bound to."""
        places: list[int] = []
        child: ast.AST | None = node
        parent: ast.AST | None = call
        while isinstance(parent, ast.Call):
            name = self._state.qualified(parent.func)
            if name not in _PAIRED or child not in parent.args:
                return Meets.PERHAPS
            places.append(1 if name.endswith("enumerate") else parent.args.index(child))
            child, parent = parent, self._parents.get(parent)
        if not isinstance(parent, (ast.For, ast.comprehension)) or child is not parent.iter:
            return Meets.PERHAPS
        target = parent.target
        for place in reversed(places):
            if not isinstance(target, (ast.Tuple, ast.List)) or place >= len(target.elts):
                return Meets.PERHAPS
            target = target.elts[place]
        return self._bound([target])

    def _subscript(self, parent: ast.Subscript, node: ast.AST) -> Further:
        if node is parent.value:
            if isinstance(parent.ctx, ast.Load):
                far = self._is_far(parent.slice, unknown=False)
                return Meets.SEEN if far else self._result(parent)
            unpacked = (each for each in self._path(parent) if not isinstance(each, _UNPACKED))
            stored = getattr(next(unpacked, None), "value", None)
            if stored is None:
                return Meets.PERHAPS
            return Meets.SEEN if self._is_far(stored, unknown=False) else []
        if self._is_far(parent.value, unknown=False):
            return Meets.SEEN
        if self._is_far(parent.value):
            return Meets.PERHAPS
        value = self._value(parent.value)
        loaded = value is not None and value.is_tensor and isinstance(parent.ctx, ast.Load)
        return [parent] if loaded else []


def _is_layer(name: str) -> bool:
    """Whether a name of torch is that of a layer, a parameter, or of what talks to other ranks."""
    layer = name.startswith("torch.nn.") and not name.startswith("torch.nn.functional.")
    return layer or name.startswith("torch.distributed.")


def _holds_tensor(value: Value) -> bool:
    return value.is_tensor or any(map(_holds_tensor, v.parts(value)))


_STEPS: dict[type | None, Callable[..., Further]] = {
    **dict.fromkeys((ast.Expr, ast.If, ast.While, ast.Assert, ast.Raise), HostUses._ends),
    **dict.fromkeys((ast.FormattedValue, ast.Delete, ast.Slice), HostUses._ends),
    **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), HostUses._returned),
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set, ast.Dict), HostUses._contained),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp), HostUses._contained),
    **dict.fromkeys((ast.DictComp, ast.Starred), HostUses._contained),
    **dict.fromkeys((ast.BinOp, ast.Compare, ast.BoolOp), HostUses._combined),
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign), HostUses._assigned),
    **dict.fromkeys((ast.For, ast.comprehension), HostUses._iterated),
    ast.UnaryOp: HostUses._unary,
    ast.keyword: HostUses._keyword,
    ast.IfExp: HostUses._chosen,
    ast.Attribute: HostUses._attribute,
    ast.Call: HostUses._passed,
    ast.Subscript: HostUses._subscript,
}
