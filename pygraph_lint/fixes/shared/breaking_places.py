"""Where in a function the graph ends, and whether every call comes to such a place."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from itertools import pairwise

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS, Function, defaults
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, method_name, span_of
from pygraph_lint.findings import Finding
from pygraph_lint.fixes.engine.names import own_nodes
from pygraph_lint.fixes.engine.site import Site

_BREAKING = ("break", "skipped")
#: The nodes from a function to a place in it.
Path = list[ast.AST]


def breaking_places(site: Site, function: Function, codes: Collection[str]) -> list[Path]:
    """The places in a function at which findings with these codes end the graph, and where it calls
    what is left out of compiled code.
    """
    paths = (_inside(site, each, function, codes) for each in site.findings)
    found = {path[-1]: path for path in paths if path}
    left_out = site.finding.view.left_out
    for call in site.ask.of_kind(ast.Call) if left_out else ():
        if span_of(call) in left_out and site.ask.scope(call) is function:
            path = [call, *site.ask.path(call)]
            found[call] = path[path.index(function) :: -1]
    return list(found.values())


def _inside(site: Site, finding: Finding, function: Function, codes: Collection[str]) -> Path:
    if finding.consequences.get("compile") not in _BREAKING or finding.code not in codes:
        return []
    path = site.path_of(finding)
    around = [node for node in path if isinstance(node, FUNCTIONS)]
    return path[path.index(function) :] if around and around[-1] is function else []


def in_avoided_arm(
    path: Path,
    places: list[Path],
    given: Collection[str] | None = None,
    by_callers: bool = False,
) -> bool:
    """Whether a place is in an arm that a call may not take, by a decision that does not end the
    graph itself. ``by_callers``: not by one that only asks attributes of ``self``. ``given``, the
    parameters that calls mostly pass: not in one that most calls take.
    """
    decided = _decided(places)
    if by_callers:
        decided |= {node for node in path if _asks_self(node)}
    return any(
        isinstance(node, ast.ExceptHandler)
        or (isinstance(node, (ast.If, ast.IfExp)) and inner is not node.test)
        for node, inner in pairwise(path)
        if node not in decided and not _is_usual(path[0], node, inner, given)
    )


def _asks_self(node: ast.AST) -> bool:
    """Whether a branch depends on nothing but the object of a method."""
    if not isinstance(node, (ast.If, ast.IfExp)):
        return False
    return {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)} == {"self"}


def _is_usual(
    function: ast.AST, node: ast.AST, inner: ast.AST, given: Collection[str] | None
) -> bool:
    """Whether an arm is taken on most calls."""
    if given is None or not isinstance(node, (ast.If, ast.IfExp)):
        return False
    return usual(function, node.test, given) is (_part(node, inner) == "body")


def behind_return(path: Path, places: list[Path], given: Collection[str]) -> bool:
    """Whether a call may return before it comes to a place, by such a decision."""
    decided = _decided(places)
    function, place = path[0], path[1]
    before = getattr(function, "body", [])
    before = before[: before.index(place)] if place in before else []
    branches = [each for each in before if isinstance(each, ast.If) and each not in decided]
    return any(_returns(function, each, given) for each in branches)


def _returns(function: ast.AST, node: ast.stmt, given: Collection[str]) -> bool:
    """Whether calls may return in a statement, as most of them take its branches."""
    if isinstance(node, ast.If):
        arm = usual(function, node.test, given)
        blocks = [node.body] * (arm is not False) + [node.orelse] * (arm is not True)
        return any(_returns(function, each, given) for block in blocks for each in block)
    own = () if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else (node, *own_nodes(node))
    return any(isinstance(each, ast.Return) for each in own)


def _decided(places: list[Path]) -> set[ast.AST]:
    """The branches that end the graph whatever is chosen: in their condition, or in both arms."""
    parts: dict[ast.AST, set[str]] = {}
    for node, inner in (step for each in places for step in pairwise(each)):
        if isinstance(node, (ast.If, ast.IfExp)):
            parts.setdefault(node, set()).add(_part(node, inner))
    return {node for node, found in parts.items() if "test" in found or len(found) > 1}


def _part(node: ast.If | ast.IfExp, inner: ast.AST) -> str:
    if inner is node.test:
        return "test"
    first = node.body if isinstance(node.body, list) else [node.body]
    return "body" if inner in first else "orelse"


_FOLDED_FALSE = {name.rpartition(".")[2] for name in ops.FOLDED_FALSE} | ops.FOLDED_FALSE_NAMES
_TENSORS = ("torch.Tensor", "Tensor")


def usual(function: ast.AST, test: ast.expr, given: Collection[str] = ()) -> bool | None:
    """What a condition of a function mostly is: as the defaults of its parameters say, but for
    those that are ``given``, a tensor is one and has elements, and nothing is scripted. None where
    that is not known.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = usual(function, test.operand, given)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        found = {usual(function, each, given) for each in test.values}
        decides = isinstance(test.op, ast.Or)
        return decides if decides in found else None if None in found else not decides
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(_default(function, test.left, given), test)
    if isinstance(test, ast.Call):
        return _called(test)
    default = _default(function, test, given)
    known = default is not None and (default.value is None or isinstance(default.value, bool))
    return bool(default.value) if default is not None and known else None


def _compared(default: ast.Constant | None, test: ast.Compare) -> bool | None:
    operator, right = test.ops[0], test.comparators[0]
    value = right.value if isinstance(right, ast.Constant) else ...
    if value is None and isinstance(operator, (ast.Is, ast.IsNot)):
        same = isinstance(operator, ast.Is)
        return None if default is None else (default.value is None) is same
    if not _is_size(test.left) or value != 0:
        return None
    return {ast.Gt: True, ast.NotEq: True, ast.Eq: False}.get(type(operator))


def _called(call: ast.Call) -> bool | None:
    name = last_part(call.func)
    if name in _FOLDED_FALSE:
        return False
    of_tensors = name == "isinstance" and len(call.args) == 2 and dotted(call.args[1]) in _TENSORS
    return True if of_tensors or name == "is_tensor" or _is_size(call) else None


def _is_size(node: ast.expr) -> bool:
    """Whether a node is how many elements something has."""
    called = node.func if isinstance(node, ast.Call) else None
    return method_name(node) == "numel" or dotted(called) == "len"


# What callers may hand in by its name, in a dictionary.
_HANDED_IN = re.compile(r"(\(\w+ := )?\w+\.pop\('\w+', None\)\)?")


def _default(function: ast.AST, node: ast.expr, given: Collection[str]) -> ast.Constant | None:
    """The default of a parameter that is not given, or that a dictionary may hand in, where it is a
    constant.
    """
    name, nodes = getattr(node, "id", ""), own_nodes(function)
    given_to = [it for it in nodes if isinstance(it, ast.Assign) and it.lineno < node.lineno]
    above = [it.value for it in given_to if getattr(it.targets[0], "id", None) == name]
    if _HANDED_IN.fullmatch(ast.unparse([node, *above][-1])):
        return ast.Constant(None)
    named = isinstance(function, FUNCTIONS) and isinstance(node, ast.Name) and node.id not in given
    default = defaults(function).get(node.id) if named else None  # type: ignore[arg-type,attr-defined]
    return default if isinstance(default, ast.Constant) else None
