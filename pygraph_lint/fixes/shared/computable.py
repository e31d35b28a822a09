"""Expressions that can be computed in any case: they change nothing and do not raise for shapes."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.control_flow.statement_graph import defaults
from pygraph_lint.analysis.queries.interface import Known, Type
from pygraph_lint.analysis.syntax.nodes import is_constant, method_name, receiver
from pygraph_lint.fixes.engine.names import stores
from pygraph_lint.fixes.engine.site import Site, by_use
from pygraph_lint.fixes.shared.conditions import is_limit, single_elements
from pygraph_lint.fixes.shared.factories import literal_number

# One result for each element, whatever the shape; or a result of one element.
_ELEMENTWISE = frozenset(
    """
        abs neg exp log log1p expm1 sqrt rsqrt sign round floor ceil sin cos tanh sigmoid relu gelu
        silu clamp clip clamp_min clamp_max clone detach float half double bfloat16 contiguous
        square reciprocal nan_to_num isnan isinf isfinite logical_not softplus leaky_relu elu
        zeros_like ones_like full_like masked_fill add sub mul div true_divide where maximum minimum
        pow eq ne lt le gt ge logical_and logical_or logical_xor softmax log_softmax normalize to
        type_as erf tan atan atan2 sinh cosh log2 log10 exp2 trunc sgn logsigmoid selu mish relu6
        hardtanh cumsum long int bool
    """.split()
)
_REDUCING = frozenset("sum mean any all norm std var amax amin nansum nanmean prod".split())
# These give the elements of a tensor of any shape another one.
_RESHAPING = frozenset(("flatten()", "reshape(-1)", "view(-1)", "unsqueeze(0)", "unsqueeze(-1)"))
# These have no result where there is no element, or not the dimension that they work along.
_EXTREME = frozenset("max min amax amin softmax log_softmax cumsum normalize".split())
_SIZED = frozenset(("zeros", "ones", "full", "new_zeros", "new_ones", "new_full"))
# These raise for a number that the dtype cannot hold.
_LIMITED = frozenset(("clamp", "clip", "clamp_min", "clamp_max", "masked_fill", "full_like"))
_HALF_MAX = 65504
#: The shape of a number, or of a tensor without dimensions.
SINGLE = ""
#: That of a tensor of one element, whatever its dimensions.
ONE = "1"
#: That of what is computed of tensors of shapes that nothing proves to be one.
SOME = "?"
# What the shape of a view begins with.
_VIEW = "view "


def shape_of(site: Site, node: ast.expr) -> str | None:
    """A name whose shape an expression surely has, SINGLE or ONE for one element, None where
    nothing is known, or where computing it may raise or change something.
    """
    if isinstance(node, ast.Constant):
        return SINGLE if isinstance(node.value, (int, float)) else None
    if isinstance(node, ast.UnaryOp):
        return shape_of(site, node.operand)
    if isinstance(node, ast.BinOp):
        return _joint(site, [node.left, node.right]) if _never_raises(site, node) else None
    if isinstance(node, ast.Compare):
        return _joint(site, [node.left, *node.comparators])
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _held(site, node)
    if isinstance(node, ast.Call):
        return _view(site, node) or _called(site, node)
    return _element(site, node) if isinstance(node, ast.Subscript) else None


def _element(site: Site, node: ast.Subscript) -> str | None:
    """The shape of an element that the condition reads, too, or that an arm assigns."""
    stored = [each for each in ast.walk(site.tree) if isinstance(each, ast.Subscript)]
    places = [each for each in stored if isinstance(each.ctx, ast.Store)]
    places += [each for each in ast.walk(getattr(site.tree, "test", node)) if each in stored]
    found = ast.unparse(node) in map(ast.unparse, places) and site.ask.is_tensor(node.value)
    return ast.unparse(node) if found and is_place(site, node.slice) else None


def is_view(shape: str | None) -> bool:
    """Whether a shape is that of a view, which is not that of what it is a view of."""
    return shape is not None and shape.startswith(_VIEW)


def _whole(shape: str) -> str | None:
    """Of what a shape is a view or an element; None: of nothing."""
    if is_view(shape):
        return shape.removeprefix(_VIEW).rpartition(".")[0]
    return shape.rpartition("[")[0] if shape.endswith("]") else None


def are_apart(one: str | None, other: str | None) -> bool:
    """Whether two values surely have other shapes: one is a view, or an element of the other."""
    if one == other or one is None or other is None:
        return False
    return is_view(one) or is_view(other) or _whole(one) == other or _whole(other) == one


def _view(site: Site, node: ast.Call) -> str | None:
    """The shape of ``x.reshape(-1)``, ``x.unsqueeze(0)``; ``x.view(-1)`` may raise, unless the
    condition asks for it, too.
    """
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    how = ast.unparse(node).rpartition(".")[2]
    if owner is None or how not in _RESHAPING or not site.ask.is_tensor(owner):
        return None
    asked = [ast.dump(each) for each in ast.walk(getattr(site.tree, "test", site.tree))]
    inner = shape_of(site, owner)
    if inner is None or (how == "view(-1)" and ast.dump(node) not in asked):
        return None
    return ONE if inner in (SINGLE, ONE) else SOME if inner == SOME else f"{_VIEW}{inner}.{how}"


_PLAIN = (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr)


def _never_raises(site: Site, node: ast.BinOp) -> bool:
    """Whether an operator raises for no value: numbers, and whole numbers in tensors, are not
    divided by zero, or raised to a negative power.
    """
    number = literal_number(node.right)
    if isinstance(node.op, _PLAIN):
        return True
    if isinstance(node.op, ast.Pow) and isinstance(number, int) and number < 0:
        return site.ask.known(node.left).dtype == "float"
    if number:
        return isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow))
    tensor = site.ask.is_tensor(node) or method_name(node.right) in _REDUCING
    return tensor and isinstance(node.op, (ast.Div, ast.Pow))


def _joint(site: Site, parts: list[ast.expr]) -> str | None:
    """The shape of what is computed of parts element by element."""
    found = {shape_of(site, part) for part in parts}
    if None in found:
        return None
    found -= {SINGLE}
    if any(_whole(each) in found for each in found if each is not None):
        return None  # a part and its whole: never of one shape
    return SINGLE if not found else found.pop() if len(found) == 1 else SOME


def alike(one: str | None, other: str | None) -> bool:
    """Whether one value can be selected from two of these shapes without raising."""
    same = one == other and one != SOME
    return one is not None and (same or {one, other} == {SINGLE, ONE})


def may_not_fit(site: Site, node: ast.expr) -> bool:
    """Whether an expression of a known shape has parts of shapes that nobody proves to fit, or asks
    for what an empty tensor, or one of fewer dimensions, has not, or is given a number that is not
    written out, which a dtype may not hold.
    """
    inner = [each for each in ast.walk(node) if isinstance(each, ast.expr)]
    return any(
        shape_of(site, each) == SOME
        or method_name(each) in _EXTREME
        or (method_name(each) in _LIMITED and _is_open(site, each))
        for each in inner
    )


def _is_open(site: Site, call: ast.expr) -> bool:
    """Whether a call is given a number that is not written out, and no limit of a dtype."""
    given = [*call.args, *(it.value for it in call.keywords)] if isinstance(call, ast.Call) else []
    return any(site.ask.known(it).must_be(Type.NUMBER) and not _is_bound(site, it) for it in given)


def _is_bound(site: Site, node: ast.expr) -> bool:
    """Whether a number is written out, or is a limit of a dtype, or is worked out of these."""
    if isinstance(node, ast.UnaryOp):
        return _is_bound(site, node.operand)
    if isinstance(node, ast.BinOp):
        return _is_bound(site, node.left) and _is_bound(site, node.right)
    value = site.ask.only_value(node) if isinstance(node, ast.Name) else None
    if value is not None and not isinstance(value, ast.Name):
        return _is_bound(site, value)
    return literal_number(node) is not None or is_limit(site, node)


def _held(site: Site, node: ast.Name | ast.Attribute) -> str | None:
    known = site.ask.known(node)
    if known.must_be(Type.NUMBER) or known.rank == 0 or is_limit(site, node):
        return SINGLE
    if known.may_be(Type.NONE) and not only_by_use(known):
        return None
    if isinstance(node, ast.Attribute):
        return ast.unparse(node) if known.may_be(Type.TENSOR) else None
    unbound = site.ask.may_be_unbound(node.id, node)
    if unbound or not (known.must_be(Type.TENSOR) or is_held(site, node.id, node)):
        return None
    value = site.ask.only_value(node)
    if value is not None and not isinstance(value, ast.Name):
        found = shape_of(site, value)
        if found == SINGLE or (found is not None and site.ask.same_value(value, node)):
            return found
    return ONE if _is_asked(site, node) else node.id


def only_by_use(known: Known) -> bool:
    """Whether nothing but its uses says what a value is."""
    return known.types == Type.ANYTHING or by_use(known)


def is_held(site: Site, name: str, at: ast.AST) -> bool:
    """Whether a name holds something at a place, for all that the text shows: it is bound, and to
    no None.
    """
    found = site.ask.definitions.reaching_at(name, at)
    left_out = defaults(site.function).get(name) if site.function is not None else None
    given = any(isinstance(each.node, ast.arg) for each in found)
    values = [*(each.value for each in found), left_out if given else None]
    none = any(value is not None and is_constant(value, None) for value in values)
    return not none and not site.ask.may_be_unbound(name, at)


def _is_asked(site: Site, name: ast.Name) -> bool:
    """Whether the condition of the branch asks for the truth of what a name holds."""
    test = getattr(site.tree, "test", None)
    if not isinstance(test, ast.expr) or name.id not in single_elements(test):
        return False
    there = site.ask.definitions.reaching_at(name.id, test)
    return set(site.ask.definitions.reaching(name)) == set(there)


def _called(site: Site, node: ast.Call) -> str | None:
    name = site.ask.callee(node)
    if name is None:
        if not isinstance(node.func, ast.Attribute):
            return None
        parts, last = [node.func.value, *node.args], node.func.attr
        if not _may_be_method(site, node.func.value, parts[1:]):
            return None
    elif name.startswith("torch.") and name.count(".") <= 3:
        parts, last = list(node.args), name.rpartition(".")[2]
    else:
        return None
    first = node.args[0] if node.args else None
    if last == "to" and not isinstance(site.ask.parent(node), ast.BinOp):
        places = (*node.args, *(item.value for item in node.keywords))
        if any(site.ask.known(each).must_be(Type.DEVICE) for each in places):
            return None  # by itself, elsewhere than the other value
    if name in ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor"):
        return SINGLE if first is not None and literal_number(first) is not None else None
    given = [item for item in node.keywords if not _is_kind(site, item.value)]
    if last in _SIZED and first is not None and not given:
        return SINGLE if ast.unparse(first) in ("()", "[]") else _sized_as(site, first)
    if last == "reshape" and first is not None and ast.unparse(first) == "()":
        return SINGLE if shape_of(site, parts[0]) is not None else None
    values = [item.value for item in given if item.arg in _OPERANDS]
    if len(values) != len(given) or not parts:
        return None
    pair = len(parts) == 2 and all(map(site.ask.is_tensor, parts))
    parts = [each for each in (*parts, *values) if not _is_kind(site, each)]
    found = _joint(site, parts)
    if last in _REDUCING and found is not None:
        return SINGLE if len(parts) == 1 else SOME
    if last in ("max", "min") and found is not None:
        return SINGLE if len(parts) == 1 else found if pair else None
    small = last not in _LIMITED or all(map(_is_small, parts[1:]))
    return found if last in _ELEMENTWISE and small else None


def _sized_as(site: Site, size: ast.expr) -> str | None:
    """The shape that ``x.shape`` and ``x.size()`` are."""
    of = receiver(size, ("size",)) if isinstance(size, ast.Call) and not size.args else None
    if isinstance(size, ast.Attribute) and size.attr == "shape":
        of = size.value
    return shape_of(site, of) if of is not None and site.ask.is_tensor(of) else None


_OPERANDS = frozenset("min max other alpha nan posinf neginf dim keepdim eps p".split())


def _may_be_method(site: Site, owner: ast.expr, given: list[ast.expr]) -> bool:
    """Whether a call is of a tensor's method: layers have methods of the same names."""
    numbers = all(shape_of(site, each) == SINGLE for each in given)
    plain = isinstance(owner, ast.Name) and owner.id not in ("self", "cls")
    return site.ask.is_tensor(owner) or (plain and numbers)


def _is_kind(site: Site, node: ast.expr) -> bool:
    """Whether an argument says of which dtype a result is, or where."""
    return site.ask.known(node).must_be(Type.DTYPE | Type.DEVICE)


def _is_small(node: ast.expr) -> bool:
    """Whether an argument is no number that some floating dtype cannot hold."""
    number = literal_number(node)
    return number is None or abs(number) <= _HALF_MAX


def is_place(site: Site, index: ast.expr) -> bool:
    """Whether an index is made of numbers and slices, no mask, and the same in the whole branch."""
    read = [each for each in ast.walk(index) if isinstance(each, ast.Name)]
    moved = any(stores(site.statement, each.id) for each in read)
    plain = all(
        isinstance(each, (*_WRITTEN, ast.Name, ast.BinOp, ast.operator)) for each in ast.walk(index)
    )
    return plain and not moved and all(site.ask.known(it).must_be(Type.NUMBER) for it in read)


def is_written_out(index: ast.expr) -> bool:
    """Whether an index has nothing but literals and slices."""
    return all(isinstance(each, _WRITTEN) for each in ast.walk(index))


_WRITTEN = (ast.Constant, ast.Slice, ast.Tuple, ast.UnaryOp, ast.USub, ast.expr_context)
