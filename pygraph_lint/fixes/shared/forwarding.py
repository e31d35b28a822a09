"""Functions of a file that do little but call another one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import dotted, method_name, negated
from pygraph_lint.fixes.engine.names import all_nodes, own_nodes, stored
from pygraph_lint.fixes.engine.site import Site
from pygraph_lint.fixes.shared.breaking_places import Path, in_avoided_arm
from pygraph_lint.fixes.shared.call_chains import calls_of, place_of_layer
from pygraph_lint.fixes.shared.disable import decorators, is_called, passed_to

_LAZY = (ast.Yield, ast.YieldFrom, ast.Await)
# Decorators of compilers look into the function; others call it, and of torch's these.
_COMPILERS = re.compile(r"(torch|triton|numba|jax|cupy)\b|.*(jit|compile|script|kernel|_op)$")
_KEPT = ("torch.no_grad", "torch.enable_grad", "torch.inference_mode")
_BLOCKS = ("body", "orelse", "finalbody")
_LISTED = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.JoinedStr)
_HARMLESS = ("builtins.", "functools.", "contextlib.", "abc.")
#: So many operations between two breaks cost less one by one than as a graph of their own.
FEW = 8
_FEW_ALONE = 2
_MANY = 99
# What is compiled by itself, where nothing of the region calls it.
_ROOTS = ("forward", "__call__")
# What may not evaluate its parts, or not once.
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.BoolOp)


def passing_on(site: Site, function: ast.FunctionDef) -> list[ast.FunctionDef]:
    """The helpers that always call a function, and those that call these: where it is left out of
    compiled code, the graph ends in each of them, and again where they are called. They compute
    little themselves, or call it in a loop, in which the graph cannot end. What is only called from
    other files, as far as known, computes nothing.
    """
    most = _callers(site, function, ())
    return _callers(site, function, [*most, function]) if most else most


def _callers(
    site: Site, function: ast.FunctionDef, left_out: Sequence[ast.FunctionDef]
) -> list[ast.FunctionDef]:
    """The same, where the graph also ends at the calls of what is ``left_out``."""
    ended = {call for each in left_out for call in calls_of(site, each)}
    found: dict[ast.FunctionDef, None] = {}
    waiting = [function]
    while waiting:
        for call in calls_of(site, waiting.pop()):
            scope = site.ask.scope(call)
            if not isinstance(scope, ast.FunctionDef) or scope in (function, *found):
                continue
            if _passes_on(site, scope, call, ended):
                found[scope] = None
                waiting.append(scope)
    return list(found)


def _passes_on(
    site: Site, scope: ast.FunctionDef, call: ast.Call, ended: Collection[ast.AST]
) -> bool:
    """Whether a function always makes a call, and computes little where the graph goes on."""
    path = [*reversed([*site.ask.path(call)]), call]
    path = path[path.index(scope) :]
    nodes = own_nodes(scope)
    # What gives nothing back keeps what it read, which the object decides.
    gives = any(isinstance(each, ast.Return) and each.value is not None for each in nodes)
    avoided = in_avoided_arm(path, [], passed_to(site, scope), by_callers=not gives)
    lazy = any(isinstance(each, _SCOPES) for each in path) or any(
        isinstance(each, _LAZY) for each in nodes
    )
    if avoided or lazy or top_of(site, call) is None or not only_called(site, scope):
        return False
    helper = is_called(site, scope)
    if in_body(path):
        return helper
    done = work(site, scope)
    loops = any(isinstance(each, (ast.For, ast.While)) for each in nodes)
    little = done <= few(site, scope, ended) and helper
    return not loops and ((not done and scope.name not in _ROOTS) or little)


def few(site: Site, function: ast.FunctionDef, ended: Collection[ast.AST]) -> int:
    """So many operations beside a node at which the graph ends are not worth a graph. A method that
    only other files call may be compiled by itself: where it calls nothing else that may compute,
    nothing would be compiled any more.
    """
    calls = (each for each in own_nodes(function) if isinstance(each, ast.Call))
    further = any(_computes(site, each) for each in calls if each not in ended)
    method = isinstance(site.ask.parent(function), ast.ClassDef)
    alone = method and not further and not is_called(site, function, here=True)
    return _FEW_ALONE if alone else FEW


def _computes(site: Site, call: ast.Call) -> bool:
    """Whether a call may lead to operations that stand elsewhere: of a function of the project, a
    method of an object, or what was handed in.
    """
    name = site.ask.callee(call)
    if name is not None:
        project = f"{site.finding.view.module.partition('.')[0]}."
        return name.startswith(project) and not name.rpartition(".")[2][:1].isupper()
    root: ast.expr = call.func
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    return isinstance(root, ast.Name) and method_name(call) not in ops.TENSOR_METHODS | _NO_WORK


def only_called(site: Site, function: ast.FunctionDef) -> bool:
    """Whether the decorators of a function call it, and do not look into it. One of another file
    may read where its code stands, but on methods of layers.
    """
    listed = decorators(site, function)
    called = [each.func if isinstance(each, ast.Call) else each for each in listed]
    names = [site.ask.qualified(each) or ast.unparse(each) for each in called]
    owner = site.ask.parent(function)
    layer = any(getattr(each, "name", "") == "forward" for each in getattr(owner, "body", ()))
    around = (*site.source.tree.body, *getattr(owner, "body", ()))
    own = {getattr(each, "name", "") for each in around}
    trusted = (layer and function.name != "__init__") or all(
        name in _KEPT or name.startswith(_HARMLESS) or ast.unparse(each).partition(".")[0] in own
        for name, each in zip(names, called, strict=True)
    )
    return trusted and all(name in _KEPT or _COMPILERS.match(name) is None for name in names)


def top_of(site: Site, found: ast.AST) -> ast.stmt | None:
    """The module's statement around a place in a plain function, method or not."""
    scope = site.ask.scope(found)
    around = site.ask.parent(scope) if isinstance(scope, ast.FunctionDef) else None
    if isinstance(around, ast.ClassDef) and isinstance(site.ask.parent(around), ast.Module):
        return around
    return scope if isinstance(around, ast.Module) and isinstance(scope, ast.stmt) else None


def in_body(path: Path) -> bool:
    """Whether a place is in the body of a loop."""
    return any(
        isinstance(node, (ast.For, ast.While)) and inner in node.body
        for node, inner in pairwise(path)
    )


def work(site: Site, function: ast.FunctionDef, places: Iterable[Path] = ()) -> int:
    """How many operations on what may be tensors a call of a function makes itself, at most, with
    the layers that it calls: in a loop over them, many. Not those of an error, of what compiled
    code skips, and those that end the graph, at ``places``.
    """
    start, nodes = function.body[0].lineno, own_nodes(function)
    skipped = {part for node in nodes if _is_skipped(node) for part in all_nodes(node)}
    skipped |= {path[-1] for path in places}
    found: Counter[ast.stmt] = Counter()
    for node in nodes:
        if isinstance(node, ast.expr) and node not in skipped and node.lineno >= start:
            found[site.ask.statement(node)] += operations(site, [node]) + _layers(site, node)
    return _most(function.body, found)


def _most(block: Sequence[ast.stmt], found: Counter[ast.stmt]) -> int:
    """The sum for the statements of a block along the way on which it is largest."""
    total = 0
    for number, each in enumerate(block):
        total += found[each]
        if isinstance(each, ast.If):
            after = _most(block[number + 1 :], found)
            arms = (each.body, each.orelse)
            return total + max(_most(arm, found) + after * (not _leaves(arm)) for arm in arms)
        parts = (each, *getattr(each, "handlers", ()), *getattr(each, "cases", ()))
        blocks = (getattr(one, name, ()) for one in parts for name in _BLOCKS)
        total += sum(_most(inner, found) for inner in blocks)
    return total


def _leaves(block: Sequence[ast.stmt]) -> bool:
    """Whether nothing behind a block runs after it."""
    return bool(block) and isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _is_skipped(node: ast.AST) -> bool:
    """Whether a node is only evaluated outside compiled code, or where an error is raised."""
    joined = isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)
    first = node.values[0] if isinstance(node, ast.BoolOp) and joined else None
    test = node.test if isinstance(node, ast.If) and not node.orelse else first
    asked = negated(test)
    compiling = isinstance(asked, ast.Call) and ast.unparse(asked.func).endswith("is_compiling")
    return compiling or isinstance(node, ast.Raise)


def _layers(site: Site, node: ast.expr) -> int:
    place = place_of_layer(site.ask.definitions, node.func) if isinstance(node, ast.Call) else None
    owner = site.ask.owner(node)
    made = stored(owner, place or "") if owner is not None else []
    if not isinstance(node, ast.Call) or not made:
        return 0
    return _MANY if isinstance(node.func, ast.Name) else max(_of_layer(site, each) for each in made)


def _of_layer(site: Site, made: ast.expr) -> int:
    """How many operations a call of a layer is, at most. What a layer of torch's own calls is not
    compiled where that is called from code which is left out.
    """
    name = site.ask.callee(made) if isinstance(made, ast.Call) else None
    if name == "torch.nn.Sequential" and isinstance(made, ast.Call):
        layers = [site.ask.callee(each) or "" for each in made.args if isinstance(each, ast.Call)]
        listed = len(layers) == len(made.args)
        return sum(each.startswith("torch.nn.") for each in layers) if listed else _MANY
    return _MANY if (name or "").startswith(_LARGE) else 1


_LARGE = ("torch.nn.MultiheadAttention", "torch.nn.Transformer")


def operations(site: Site, nodes: Iterable[ast.AST]) -> int:
    """How many nodes are operations on what may be tensors."""
    return sum(isinstance(node, ast.expr) and _is_operation(site, node) for node in nodes)


def _is_operation(site: Site, node: ast.expr) -> bool:
    """Whether a node computes something with what may be tensors: views of them do not."""
    if isinstance(node, (ast.BinOp, ast.Compare)):
        listed = any(isinstance(each, _LISTED) for each in ast.iter_child_nodes(node))
        return not listed and site.ask.known(node).may_be(Type.TENSOR)
    if isinstance(node, ast.Subscript):
        return site.ask.is_tensor(node) and not _is_view(site, node.slice)
    if not isinstance(node, ast.Call):
        return False
    name = site.ask.callee(node)
    if name is not None or not isinstance(node.func, ast.Attribute):
        last = (name or "").rpartition(".")[2]
        known = last in _VIEWS or last.startswith("is_")
        return (name or "").startswith("torch.") and not known
    holder = node.func.value
    if isinstance(holder, (ast.Constant, ast.JoinedStr)) or node.func.attr in _NO_WORK:
        return False
    own = (dotted(holder) or "").startswith(("self", "cls")) and not site.ask.is_tensor(holder)
    return not own and site.ask.known(holder).may_be(Type.TENSOR)


def _is_view(site: Site, index: ast.expr) -> bool:
    """Whether an index only takes a part of a tensor's memory."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    plain = Type.NUMBER | Type.NONE
    return all(
        isinstance(each, (ast.Slice, ast.Constant)) or site.ask.known(each).must_be(plain)
        for each in parts
    )


_VIEWS = frozenset(
    """
        view view_as reshape reshape_as permute transpose t movedim swapaxes squeeze unsqueeze
        expand expand_as broadcast_to flatten unflatten narrow select diagonal chunk split unbind
        tensor_split detach requires_grad_ device Size finfo iinfo numel
    """.split()
)
_NO_WORK = _VIEWS | ops.NUMBER_METHODS | ops.COMMON_METHODS
