"""Offsets of Python numbers that only bound slices stay Python numbers.

ends = torch.tensor(lengths).cumsum(0) -> ends = list(itertools.accumulate(lengths))
for end in ends: x[:end] ...

Safe: each offset is used as a bound of a slice or a range and as nothing else, where a whole number
and a tensor of one do the same.
"""

from __future__ import annotations

import ast
import re

from pygraph_lint.fixes.imports import use_module
from pygraph_lint.fixes.lists import is_shape, is_size, without_copy
from pygraph_lint.fixes.names import (
    assigned_values,
    dotted,
    loads,
    own_nodes,
    parameters,
    parents,
    stores,
)
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Function

CODES = ("PG407",)
# What is known of a value: proven to be a number or a list of such, not known, or something else.
_NUMBERS, _UNKNOWN, _OTHER = range(3)
_HINT = re.compile(r"(\w+\.)*([Ll]ist|[Tt]uple|Sequence)(\[int(, (int|\.\.\.))*\])?( \| None)?")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.JoinedStr, *_COMPREHENSIONS)
_READERS = ("len", "sum", "max", "min", "zip", "enumerate", "list", "tuple")
_DIMENSIONS = (["0"], ["-1"], ["dim=0"], ["dim=-1"])


def propose(proposal: Proposal) -> None:
    """Keep the offsets on the host."""
    function = proposal.function
    bound = proposal.path[-1]
    if function is None or isinstance(function, ast.Lambda):
        raise Declined("not in a function")
    proposal.message = "Keep offsets that only bound slices Python numbers"
    names = _origins(function, bound)
    if not names:
        raise Declined("the bound is not one of a list of offsets")
    made = [_making(proposal, function, name) for name in names]
    above = parents(function)
    for name in names:
        bounds = all(_only_bounds(above, function, read) for read in loads(function, name))
        proposal.need("bounds", bounds, f"{name} is used for more than the bounds of slices")
    hidden = [name for name in ("range", "zip", "list") if proposal.names.taken(name)]
    proposal.need("builtin", not hidden, f"{', '.join(hidden)} is another name here")
    known = max(_kind(function, data) for _, data in made)
    proposal.need("numbers", known != _OTHER, "it is made of more than a list of numbers")
    proposal.safe_if("proven", known == _NUMBERS, "it is not proven to be a list of numbers")
    for call, data in made:
        text = proposal.source.segment(data)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "cumsum":
            text = f"list({use_module(proposal, 'itertools')}.accumulate({text}))"
        elif not _is_steady(above, function, data):
            text = f"[*{text}]"
        proposal.replace_node(call, text)


def _origins(function: Function, bound: ast.AST) -> set[str]:
    """The names of the lists that a bound, or what is bound beside it, comes from."""
    if isinstance(bound, ast.Subscript) and isinstance(bound.value, ast.Name):
        return {bound.value.id}
    if not isinstance(bound, ast.Name):
        return set()
    for loop in own_nodes(function):
        if isinstance(loop, ast.For) and bound.id in {item.id for item in _targets(loop)}:
            return {
                item.id
                for part in _iterated(loop)
                for item in [part.value if isinstance(part, ast.Subscript) else part]
                if isinstance(item, ast.Name)
            }
    return set()


def _targets(loop: ast.For) -> list[ast.Name]:
    return [item for item in ast.walk(loop.target) if isinstance(item, ast.Name)]


def _iterated(loop: ast.For) -> list[ast.expr]:
    """What a loop goes through: the arguments of zip, or the one thing."""
    call = loop.iter
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "zip":
        return call.args
    return [call]


def _making(proposal: Proposal, function: Function, name: str) -> tuple[ast.Call, ast.expr]:
    """The call that makes the only value of a name, and the Python list it is made of."""
    values = [
        node.value
        for node in own_nodes(function)
        if isinstance(node, ast.Assign) and node.targets[0] in stores(function, name)
    ]
    once = len(values) == len(stores(function, name)) == 1
    proposal.need("once", once, f"{name} has more than one value")
    made = values[0]
    call = made
    summed = made.func if isinstance(made, ast.Call) else None
    if isinstance(summed, ast.Attribute) and summed.attr == "cumsum":
        assert isinstance(made, ast.Call)
        given = [*map(ast.unparse, made.args), *map(ast.unparse, made.keywords)]
        proposal.need("flat", given in _DIMENSIONS, "the sums are not taken along a list")
        call = summed.value
    if proposal.names.callee(call) != "torch.tensor" or not isinstance(made, ast.Call):
        raise Declined(f"{name} is not made of a Python list")
    assert isinstance(call, ast.Call)
    proposal.need("plain", len(call.args) == 1 and not call.keywords, "the tensor has a dtype")
    return made, call.args[0]


def _only_bounds(above: dict[ast.AST, ast.AST], function: Function, read: ast.Name) -> bool:
    """Whether a list of offsets is indexed for a bound, or gone through for nothing but bounds."""
    node: ast.AST = read
    parent = above.get(node)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        if not isinstance(parent.slice, ast.Slice):
            several = isinstance(parent.slice, (*_DISPLAYS, ast.Compare))
            return not several and is_bound(above, parent)
        node, parent = parent, above.get(parent)
    if isinstance(parent, ast.Call):
        node, parent = parent, above.get(parent)
    if not isinstance(parent, ast.For) or parent.iter is not node:
        return False
    if not any(part is read or getattr(part, "value", None) is read for part in _iterated(parent)):
        return False
    if parent.iter is read and not isinstance(parent.target, ast.Name):
        return False  # Its elements are lists themselves.
    return all(
        is_bound(above, use) for target in _targets(parent) for use in loads(function, target.id)
    )


def is_bound(above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a number only ends up as a bound of a slice or of ``range``."""
    parent = above.get(node)
    while isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Sub)):
        node, parent = parent, above.get(parent)
    if isinstance(parent, ast.Slice):
        return True
    called = parent.func if isinstance(parent, ast.Call) else None
    return isinstance(called, ast.Name) and called.id == "range" and called is not node


def _kind(function: Function, node: ast.expr, known: dict[str, int] | None = None) -> int:
    """What is known of a list: whether it holds single whole numbers and nothing else."""
    copied = without_copy(node)
    if isinstance(node, (ast.List, ast.Tuple)):
        return max(
            (
                _kind(function, item.value, known)
                if isinstance(item, ast.Starred)
                else _element_kind(function, item, known or {})
                for item in node.elts
            ),
            default=_NUMBERS,
        )
    if isinstance(node, ast.ListComp) and len(node.generators) == 1:
        turn = node.generators[0]
        named = turn.target.id if isinstance(turn.target, ast.Name) else ""
        return _element_kind(function, node.elt, {named: _kind(function, turn.iter)})
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return max(_kind(function, side) for side in (node.left, node.right))
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _kind(function, node.value)
    if is_shape(node):
        return _NUMBERS
    if copied is not node:
        return _kind(function, copied)
    if isinstance(node, ast.Name):
        return _named_kind(function, node.id)
    return _OTHER if isinstance(node, _DISPLAYS) or _is_array(node) else _UNKNOWN


def _named_kind(function: Function, name: str) -> int:
    """What is known of the list that a name stands for.

    A parameter that nothing is said of is taken for what it is used as.
    """
    bindings = stores(function, name)
    given = [item for item in parameters(function) if item.arg == name]
    if given:
        hint = given[0].annotation
        right = hint is None or _HINT.fullmatch(ast.unparse(hint).strip("'"))
        if not right or given[0] in (function.args.vararg, function.args.kwarg):
            return _OTHER
        return _NUMBERS if bindings == given else _UNKNOWN
    values = assigned_values(function, name) or []
    if len(values) != 1 or any(_is_name(part, name) for part in ast.walk(values[0])):
        return _UNKNOWN
    above = parents(function)
    kind = _kind(function, values[0])
    for read in loads(function, name):
        method = above[read]
        call = above.get(method) if isinstance(method, ast.Attribute) else None
        if isinstance(call, ast.Call) and method.attr == "append":  # type: ignore[attr-defined]
            added = [_element_kind(function, item, {f"{name}[]": kind}) for item in call.args]
            kind = max([kind, *added])
        elif not _only_reads(above, read):
            kind = max(kind, _UNKNOWN)
    return kind


def _element_kind(function: Function, node: ast.expr, known: dict[str, int]) -> int:
    """What is known of an element: whether it is one whole number."""
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        kind = known.get(f"{ast.unparse(node.value)}[]")
        if kind is not None:
            return kind
    if isinstance(node, ast.Constant):
        return _NUMBERS if type(node.value) is int else _OTHER
    if isinstance(node, ast.UnaryOp):
        return _element_kind(function, node.operand, known)
    if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Div, ast.MatMult)):
        return max(_element_kind(function, side, known) for side in (node.left, node.right))
    if is_size(function, node) or (dotted(node.func) if isinstance(node, ast.Call) else "") in (
        "int",
        "len",
    ):
        return _NUMBERS
    hints = [item.annotation for item in parameters(function) if _is_name(node, item.arg)]
    if hints and hints[0] is not None and len(stores(function, ast.unparse(node))) == 1:
        return _NUMBERS if ast.unparse(hints[0]) == "int" else _OTHER
    return _OTHER if isinstance(node, _DISPLAYS) or _is_array(node) else _UNKNOWN


def _is_name(node: ast.AST, name: str = "") -> bool:
    return isinstance(node, ast.Name) and node.id == (name or node.id)


def _is_array(node: ast.expr) -> bool:
    """Whether numpy or torch makes a value."""
    first = (dotted(node.func) or "").partition(".")[0] if isinstance(node, ast.Call) else ""
    return first in ("np", "numpy", "torch")


def _is_steady(above: dict[ast.AST, ast.AST], function: Function, data: ast.expr) -> bool:
    """Whether a list is a new one, or has one name, through which nothing changes it."""
    if isinstance(data, (ast.List, ast.Tuple, ast.ListComp, ast.BinOp)) or is_shape(data):
        return True
    if not isinstance(data, ast.Name) or len(stores(function, data.id)) != 1:
        return without_copy(data) is not data
    values = assigned_values(function, data.id) or []
    alias = any(isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)) for value in values)
    return not alias and all(_only_reads(above, read) for read in loads(function, data.id))


def _only_reads(above: dict[ast.AST, ast.AST], read: ast.Name) -> bool:
    """Whether what takes a list neither changes it nor keeps it."""
    parent = above[read]
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.Call):
        return dotted(parent.func) in ("torch.tensor", *_READERS)
    return isinstance(parent, (ast.Starred, ast.BinOp, ast.For, ast.comprehension))
