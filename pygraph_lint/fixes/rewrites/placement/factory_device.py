"""Make a tensor on its device instead of copying it there.

    torch.zeros(n).to(x.device)                       ->  torch.zeros(n, device=x.device)
    torch.ones(n, n).tril().to(x.device)              ->  torch.ones(n, n, device=x.device).tril()
    ids = torch.arange(n) * 2; ...; ids.to(x.device)  ->  ids = torch.arange(n, device=x.device) * 2

The values must not depend on the device that computes them: constants and integer ranges only, and
between factory and move only what changes shape or dtype, or computes whole numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

import libcst as cst

from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import dotted, keyword, method_name, receiver
from pygraph_lint.fixes.engine.build import bare, code, expression, starred, with_keyword
from pygraph_lint.fixes.engine.names import pure, shared
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.factories import (
    FACTORIES,
    FLOATING_DTYPES,
    INTEGER_DTYPES,
    RANGES,
    SMALL,
    factory,
    has_integer_values,
    is_device,
    is_exact,
    is_integer,
    literal_number,
)

# What gives the same on every device, in memory laid out in the same way after a copy.
_KEEPING = frozenset(
    """
        tril triu unsqueeze squeeze view reshape flatten permute transpose t flip roll repeat
        contiguous logical_not bool short int long half bfloat16 float double
    """.split()
)
# Their keywords that take numbers.
_NUMBERED = frozenset(("diagonal", "dim", "dims", "dim0", "dim1", "start_dim", "end_dim", "shifts"))
_TO_INTEGERS = frozenset(("short", "int", "long"))
# Methods that change the shape alone, or keep whole numbers.
_SHAPING = frozenset(("unsqueeze", "squeeze", "view", "reshape", "flatten", "long"))


class _Move(NamedTuple):
    """A call that moves: where to, and what is left of it behind the tensor (``.to(dtype)``)."""

    device: cst.BaseExpression
    written: ast.expr | None
    kept: cst.Arg | None


class FactoryDevice(Rewrite):
    """PG101, PG102, PG704: ``device=`` for the factory instead of ``.to(device)`` behind it."""

    codes = ("PG101", "PG102", "PG704")
    message = "Make the tensor on its device"
    order = 10
    early = True

    def fits(self, tree: ast.AST) -> bool:
        named = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute)
        return named and tree.func.attr in ("to", "cuda")  # type: ignore[attr-defined]

    def rewrite(self, site: Site) -> None:
        move = _outer_move(site)
        assert isinstance(move.func, ast.Attribute)
        made = origin(site, move.func.value)
        if made is None:
            raise Declined("what is moved is not a factory's tensor in another shape or dtype")
        name = site.ask.callee(made) or ""
        site.message = f"Make the tensor on its device: {name}(..., device=...)"
        around, inside = (site.source.segment(each).count("#") for each in (move, made))
        site.require("no-comments", around == inside, "a comment beside the factory would be lost")
        given = not starred(move)
        site.require("starred", given, "the arguments of the move are not all written out")
        flags = (item.value for item in move.keywords if item.arg in ("non_blocking", "copy"))
        written_out = all(type(getattr(each, "value", None)) is bool for each in flags)
        site.safe_only_if("flags", written_out, "a flag of the move may be missing, or no flag")
        to = _cuda(site, move) if move.func.attr == "cuda" else _to(site, move)
        name = factory(site, made)
        copied = name == "torch.tensor" and site.finding.code == "PG704"
        site.require("filled", not copied, "the data would be copied to the device all the same")
        fits = to.kept is None and _is_usual(site, made, name)
        site.safe_only_if("conversion", fits, _CONVERSION)
        site.safe_only_if("direct", move.func.value is made, _BETWEEN)
        site.safe_only_if(
            "order",
            to.written is None
            or is_there(site, to.written, move.func.value)
            or never_raises(site, move.func.value),
            "what raises first, the factory or asking for the device, is the other one",
        )
        _put(site, move, made, to)


_BETWEEN = "what is done to the tensor before it is moved is done on the device"
_CONVERSION = "a device may make, or convert, a rare dtype in another way, or have no room for it"


def _is_usual(site: Site, made: ast.Call, name: str) -> bool:
    """Whether every device makes the same of a factory: no matrix of a rare dtype, no number that
    is rounded to the dtype before it is copied, and perhaps not where it is filled.
    """
    dtype = keyword(made, "dtype")
    if name == "torch.full":
        fill = keyword(made, "fill_value") or next(iter(made.args[1:2]), None)
        return fill is not None and literal_number(fill) is not None and is_exact(site, fill, dtype)
    usual = dtype is None or site.ask.qualified(dtype) in FLOATING_DTYPES | INTEGER_DTYPES
    return usual or name != "torch.eye"


def _outer_move(site: Site) -> ast.Call:
    """The innermost move around the finding whose tensor comes from the factory there."""
    first: ast.Call | None = None
    of_move = site.finding.code != "PG102"
    for node in reversed(site.path):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in ("to", "cuda"):
            made = origin(site, node.func.value)
            if made is not None and (of_move or made in site.path):
                return node
            first = first or node
    if first is None or not of_move:
        raise Declined("nothing moves the tensor")
    return first


def origin(site: Site, node: ast.expr) -> ast.Call | None:
    """The factory at the start of a chain that only changes shape or dtype, blanks out triangles,
    or computes whole numbers; another call of torch there, so that the reason can name it.
    """
    small_only = whole_only = False
    while True:
        if isinstance(node, ast.Call):
            name = site.ask.callee(node) or ""
            if name in FACTORIES:
                whole = not whole_only or (name in RANGES and has_integer_values(site, node, name))
                return node if whole and (name in SMALL or not small_only) else None
            inner = _kept(node, name)
            method = method_name(node)
            if inner is None or (whole_only and method not in _SHAPING):
                return node if name.startswith("torch.") and not whole_only else None
            small_only |= method in _TO_INTEGERS
        else:
            inner = _through(site, node)
            whole_only |= isinstance(node, ast.BinOp)
        if inner is None:
            return None
        node = inner


def _through(site: Site, node: ast.expr) -> ast.expr | None:
    """What an index that adds dimensions, whole arithmetic, or a name stands for."""
    if isinstance(node, ast.Subscript):
        return node.value if _only_adds_dimensions(node.slice) else None
    if isinstance(node, ast.BinOp):
        return _tensor_side(site, node)
    return _only_for(site, node) if isinstance(node, ast.Name) else None


def _kept(call: ast.Call, name: str) -> ast.expr | None:
    """What a call that keeps values is made of; None for another call."""
    if name.startswith("torch.") and name[6:] in _KEEPING and call.args:
        given, inner = call.args[1:], call.args[0]
    elif isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPING and not name:
        given, inner = call.args, call.func.value
    else:
        return None
    values = [item.value for item in call.keywords]
    known = all(item.arg in _NUMBERED for item in call.keywords)
    return inner if known and _numbers([*given, *values]) else None


def _tensor_side(site: Site, node: ast.BinOp) -> ast.expr | None:
    """The first operand of whole arithmetic with a whole number."""
    if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return None
    return node.left if is_integer(site, node.right) and pure(node.right) else None


def _only_for(site: Site, name: ast.Name) -> ast.expr | None:
    """The value of a name that is read here and nowhere else, and is assigned in the same block."""
    definition = site.ask.only_definition(name)
    if definition is None or definition.value is None or site.ask.uses(definition) != [name]:
        return None
    made, here = site.ask.statement(definition.node), site.ask.statement(name)
    if not isinstance(made, ast.Assign) or len(made.targets) != 1 or site.function is None:
        return None
    local = not shared(site.function, name.id)
    path = [*site.ask.path(name)]
    once = not any(isinstance(each, _AGAIN) for each in path[: path.index(here) + 1])
    return definition.value if local and once and _straight(site, made, here) else None


# What evaluates a part several times, or later.
_AGAIN = (
    *(ast.comprehension, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.Lambda, ast.While, ast.IfExp, ast.BoolOp),
)
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Assert, ast.Try, ast.With)


def _straight(site: Site, first: ast.stmt, last: ast.stmt) -> bool:
    """Whether whoever runs one statement of a block runs the other one, so that the device of
    something that may be None is not asked for where it was not.
    """
    block = site.behind(first)
    between = block[: block.index(last)] if last in block else [last]
    inner = [node for each in between for node in ast.walk(each)]
    leaves = any(isinstance(n, (*_LEAVING, ast.Yield, ast.YieldFrom)) for n in inner)
    return last in block and not leaves


def _numbers(values: Sequence[ast.expr]) -> bool:
    """Whether arguments are written out and computed by no call."""
    return all(
        pure(part)
        for value in values
        for part in (value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value])
    )


def _only_adds_dimensions(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(
        (isinstance(part, ast.Constant) and part.value in (None, Ellipsis))
        or (isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None)
        for part in parts
    )


def _cuda(site: Site, move: ast.Call) -> _Move:
    """The device that ``.cuda()`` means."""
    given = [*move.args, *(item for item in move.keywords if item.arg == "device")]
    site.require(
        "cuda-device", not given, "the argument of .cuda() may be None, which means the current GPU"
    )
    names = {item.arg for item in move.keywords}
    plain = names <= {"device", "non_blocking"} and all(pure(item.value) for item in move.keywords)
    site.require("plain-move", plain, "the move says more than device and dtype")
    return _Move(expression("cuda".join(site.source.quote * 2)), None, None)


def _to(site: Site, move: ast.Call) -> _Move:
    """The device of ``.to(...)``, and the argument that stays where it gives a dtype too."""
    device = keyword(move, "device")
    others = list(move.args)
    if device is None:
        if not others:
            raise Declined("the move names no device")
        device = others.pop(0)
        _expect_device(site, device)
    elif not pure(device) and site.ask.callee(device) != "torch.device":
        site.safe_only_if("proven-device", False, "asking for the device may change something")
    dtype = keyword(move, "dtype") or (others[0] if others else None)
    names = {item.arg for item in move.keywords}
    rest = [*others, *(item.value for item in move.keywords if item.arg != "device")]
    known = names <= {"device", "dtype", "non_blocking", "copy"}
    plain = len(others) <= 1 and known and all(map(pure, rest))
    site.require("plain-move", plain, "the move says more than device and dtype")
    kept = None
    if dtype is not None:
        named = keyword(move, "dtype") is not None
        known = (dotted(dtype) or "").endswith(".dtype") or site.ask.qualified(dtype) is not None
        known |= site.ask.known(dtype).must_be(Type.DTYPE)
        site.safe_only_if("dtype", named or known, "the second argument of .to() may be a flag")
        kept = cst.Arg(bare(site.expression_node(dtype)))
        if named:
            equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            kept = kept.with_changes(keyword=cst.Name("dtype"), equal=equal)
    return _Move(bare(site.expression_node(device)), device, kept)


def _expect_device(site: Site, node: ast.expr) -> None:
    """Decline or doubt unless the only argument of ``.to`` is a device, not a dtype or a tensor."""
    if is_device(site, node):
        return
    named = (dotted(node) or "").endswith("device")
    site.require("one-device", named, "the argument of .to() may be a dtype or a tensor")
    site.safe_only_if("proven-device", False, f"only its name says that {dotted(node)} is a device")


def _put(site: Site, move: ast.Call, made: ast.Call, to: _Move) -> None:
    """Give the factory its device, and take the move away."""
    assert isinstance(move.func, ast.Attribute)
    call = cst.ensure_type(site.expression_node(made), cst.Call)
    placed = with_keyword(call, "device", to.device)
    chain = site.expression_node(move.func.value)
    there = site.ask.statement(made) is site.ask.statement(move)
    if there:
        found = placed if chain is call else chain.deep_replace(call, placed)
        assert isinstance(found, cst.BaseExpression)
        chain = found
    elif to.written is not None:
        site.require(
            "same-device",
            pure(to.written) and site.ask.same_value(to.written, made),
            "the device is not known yet where the tensor is made",
        )
    if not there:
        site.put(made, placed)
    if to.kept is not None:
        chain = cst.Call(func=cst.Attribute(value=chain, attr=cst.Name("to")), args=[to.kept])
    elif isinstance(site.ask.parent(move), (ast.Assign, ast.Return)) and "\n" not in code(chain):
        chain = bare(chain)
    site.put(move, chain)


# Methods that raise for no shape.
_ANY_SHAPE = frozenset(
    "contiguous logical_not bool short int long half bfloat16 float double".split()
)


_ONE_OF = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.comprehension)


def is_there(site: Site, device: ast.expr, chain: ast.expr) -> bool:
    """Whether a device can be asked for before ``chain`` is evaluated: it has a name, or is that of
    a tensor for certain, or of something whose shape was asked for before, or is by the chain.
    """
    if not isinstance(device, ast.Attribute):
        return isinstance(device, (ast.Name, ast.Constant))
    owner = device.value
    if site.proven_tensor(owner):
        return True
    asked = (f"{ast.unparse(owner)}.shape", f"{ast.unparse(owner)}.size")
    inner = set(ast.walk(chain))
    certain = not any(isinstance(part, _ONE_OF) for part in inner)
    return any(
        isinstance(part, ast.Attribute)
        and ast.unparse(part) in asked
        and ((certain and part in inner) or site.ask.runs_before(part, device))
        and site.ask.same_value(owner, part)
        for step in [*site.ask.steps_before(device), chain]
        for part in ast.walk(step)
    )


def never_raises(site: Site, node: ast.expr) -> bool:
    """Whether a factory, and what follows it in one expression, raises for no size: all of them
    are counted or written out.
    """
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(never_raises(site, each) for each in node.elts)
    if isinstance(node, ast.Subscript):
        return never_raises(site, node.value)
    if isinstance(node, ast.BinOp) and not is_integer(site, node, count=True):
        return never_raises(site, node.left) and never_raises(site, node.right)
    if not isinstance(node, ast.Call) or is_integer(site, node, count=True):
        return literal_number(node) is not None or is_integer(site, node, count=True)
    given = [*node.args, *(item.value for item in node.keywords if item.arg != "dtype")]
    if site.ask.callee(node) in FACTORIES:
        return all(never_raises(site, each) for each in given)
    before = receiver(node, _ANY_SHAPE)
    return before is not None and not given and never_raises(site, before)
