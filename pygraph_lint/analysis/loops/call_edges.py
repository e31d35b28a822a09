"""The calls of training loops, as edges of the call graph with what they pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.control_flow.statement_graph import BindingKind
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.device_moves import moves_to_device
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.symbols import as_argument, constant
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.transfer.distributions import is_distribution
from pygraph_lint.analysis.loops.calls import (
    GRADIENT,
    OF_LOADER,
    WRAPPERS,
    hooks,
    is_batch,
    is_hook_name,
    is_step_hook,
    of_tensors_only,
    on_device,
)
from pygraph_lint.analysis.loops.values import LoopValues
from pygraph_lint.analysis.program.facts import KEYWORDED, STARRED, Call
from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, method_name, span_of, walk

_DISPLAYS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set)
_CONTAINERS = frozenset(("dict", "list", "set", "defaultdict", "ordereddict", "mutablemapping"))


def edges(values: LoopValues, call: ast.Call) -> Iterator[Call]:
    """The call graph's edges of one call, with what it passes."""
    for each in (*call.args, *(item.value for item in call.keywords)):
        if isinstance(each, ast.Constant) and is_hook_name(each.value):
            yield Call("hook", "", each.value, span_of(call), (), (), ())
    yield from _mapped(values, call) if maps(call) else ()
    made = _partial(values, call.func)
    target = _target(values, call, made.args[0] if made is not None else call.func)
    if target is None:
        return
    how, owner, name = target
    arguments = [*(made.args[1:] if made is not None else ()), *call.args]
    keywords_of = [*(made.keywords if made is not None else ()), *call.keywords]
    starred = any(isinstance(each, ast.Starred) for each in arguments)
    given = [] if starred else [_passed(values, each) for each in arguments]
    named = [(item.arg or KEYWORDED, _keyword(values, item)) for item in keywords_of]
    keywords = tuple((key, value) for key, value in named if value is not None)
    places = [place for place, value in enumerate(given) if value is None]
    others = [key for key, value in named if value is None]
    unknown: tuple[int | str, ...] = (*((STARRED,) if starred else places), *others)
    if any(key == KEYWORDED for key, _ in named):
        unknown = (STARRED, KEYWORDED)
    yield Call(how, owner, name, span_of(call), tuple(given), keywords, (), unknown)


def turns(values: LoopValues, loop: ast.AST) -> Iterator[Call]:
    """The edges to the iterators of the project that give a `for` loop what it goes over."""
    for each in _iterated(loop):
        value = values.of(each)
        if value.kinds & v.INSTANCE and value.cls and not value.cls.startswith("torch."):
            yield Call("object", value.cls, "__next__", span_of(each), (), (), ())


def generated(values: LoopValues, loop: ast.AST) -> Iterator[Call]:
    """The edges of calls whose results a `for` loop goes over, which may be generators."""
    for each in _iterated(loop):
        made = values.queries.only_value(each) if isinstance(each, ast.Name) else each
        if isinstance(made, ast.Call):
            yield from edges(values, made)


def _iterated(loop: ast.AST) -> Iterator[ast.expr]:
    """What a `for` loop goes over, without what counts it or shows its progress."""
    front = [loop.iter] if isinstance(loop, (ast.For, ast.AsyncFor)) else []
    while front:
        each = front.pop()
        called = last_part(each.func) if isinstance(each, ast.Call) else ""
        if isinstance(each, ast.Call) and (called in ("enumerate", "zip") or called in WRAPPERS):
            front += each.args
        else:
            yield each


def _partial(values: LoopValues, function: ast.expr) -> ast.Call | None:
    """What makes a function of another one and some of its arguments: ``partial(f, x)``."""
    made = values.queries.only_value(function) if isinstance(function, ast.Name) else None
    if isinstance(function, ast.Attribute) and dotted(function.value) == "self":
        kept = (values.queries.owner(function), function.attr)
        stored = [value for _, value in values.evidence.assigned_to_self.get(kept, ())]
        made = stored[0] if len(stored) == 1 else None
    if not isinstance(made, ast.Call) or not made.args:
        return None
    return made if values.queries.qualified(made.func) == "functools.partial" else None


def maps(call: ast.Call) -> bool:
    """Whether a call applies a function to elements: ``map(f, xs)``, ``tree_map(f, tree)``."""
    last = last_part(call.func)
    return "map" in last or last.startswith("apply") or hooks(call)


def _mapped(values: LoopValues, call: ast.Call) -> Iterator[Call]:
    """The edges to functions and methods of the object that a call applies."""
    given, unknown = ((_argument(GRADIENT),), ()) if hooks(call) else ((), (STARRED,))
    for each in call.args:
        name = values.queries.qualified(each) if isinstance(each, ast.Name) else None
        owner = values.queries.owner(call)
        if isinstance(each, ast.Attribute) and dotted(each.value) == "self" and owner is not None:
            cls = f"{values.module}.{owner.name}"
            yield Call("method", cls, each.attr, span_of(call), given, (), (), unknown)
        elif name is not None and name.startswith(values.module):
            yield Call("function", name, "", span_of(call), given, (), (), unknown)


def _keyword(values: LoopValues, item: ast.keyword) -> Value | None:
    """What is kept of a keyword; of ``**mapping`` it is what the mapping holds."""
    return (
        _passed(values, item.value) if item.arg else _argument(values.held(values.of(item.value)))
    )


def _passed(values: LoopValues, node: ast.expr) -> Value | None:
    """What is kept of an argument; of a number or a text that is a parameter here, which one."""
    if isinstance(node, ast.Constant):
        return constant(node.value)._replace(flags=0)
    kept, option = _argument(values.of(node)), parameter(values, node)
    plain = kept is not None and not kept.needs and not kept.is_tensor and kept.const is None
    if kept is None and _is_made(values, node):
        return v.UNKNOWN_VALUE._replace(flags=v.MADE)
    return v.UNKNOWN_VALUE._replace(needs=(option,)) if plain and option is not None else kept


def _is_made(values: LoopValues, node: ast.expr) -> bool:
    """Whether an expression is an attribute of the object that always is something: its class only
    stores results of calls, or attributes of others, there.
    """
    if not isinstance(node, ast.Attribute) or dotted(node.value) != "self":
        return False
    kept = values.queries.owner(node), node.attr
    stored = [value for _, value in values.evidence.assigned_to_self.get(kept, ())]
    return bool(stored) and all(isinstance(each, (ast.Call, ast.Attribute)) for each in stored)


def parameter(values: LoopValues, node: ast.expr) -> Need | None:
    """The parameter that an expression is."""
    found = values.queries.only_definition(node) if isinstance(node, ast.Name) else None
    if found is None or found.kind is not BindingKind.PARAMETER:
        return None
    return Need(
        "param", values.parameters.name_of(values.queries.scope(found.node)) or "", found.name
    )


def _argument(value: Value) -> Value | None:
    """What is kept of an argument."""
    if is_batch(value):
        return OF_LOADER
    if value.flags & v.MODULE:
        return None
    return as_argument(v.shallow(value, 2))


def _target(values: LoopValues, call: ast.Call, function: ast.expr) -> tuple[str, str, str] | None:
    """What a call of a function calls: how, target and name as in ``Call``."""
    queries = values.queries
    qualified = queries.qualified(function)
    if qualified is not None:
        foreign = qualified.startswith(("torch.", "builtins.", "numpy.", "math."))
        return None if foreign else ("function", qualified, "")
    called = values.of(function)
    if called.kinds == v.CALLABLE and ("<locals>" in called.cls or "," in called.cls):
        return ("function", called.cls, "")
    owner = queries.owner(call) if dotted(function) == "self" else None
    if owner is not None:
        return ("method", f"{values.module}.{owner.name}", "forward")
    if isinstance(function, ast.Name) and called.needs and called.needs[0].kind == "param":
        return ("given", called.needs[0].owner, called.needs[0].name)
    if called.kinds == v.INSTANCE and called.cls and not called.cls.startswith("torch."):
        of_module = called.flags & v.MODULE
        return ("instance" if of_module else "method", called.cls, "__call__")
    if not isinstance(function, ast.Attribute):
        open_ = called.kinds & v.UNKNOWN or called.flags & v.MODULE
        return ("receiver", _written(function), "__call__") if open_ else None
    return _method_target(values, call, function)


def _method_target(
    values: LoopValues, call: ast.Call, function: ast.Attribute
) -> tuple[str, str, str] | None:
    """What a call of a method calls, as `_target` says it."""
    queries, method, receiver = values.queries, function.attr, function.value
    if dotted(receiver) == "self":
        owner = queries.owner(call)
        return None if owner is None else ("method", f"{values.module}.{owner.name}", method)
    base = values.of(receiver)
    if is_distribution(base):
        return None
    if base.kinds & v.INSTANCE and base.cls and not base.cls.startswith("torch."):
        return ("object", base.cls, method)
    if is_step_hook(method) or method.startswith(("on_train_", "on_batch_", "on_step_")):
        return ("hook", "", method)
    written = _written(receiver)
    if is_batch(base):
        moves = (
            method == "to" and moves_to_device(call) and not _is_one_of_several(queries, receiver)
        )
        return ("receiver", written, method) if moves else None
    if method in ops.TENSOR_METHODS or method in ops.COMMON_METHODS:
        computed = not written and not isinstance(receiver, ast.Call)  # `(x > 0).to(dtype)`
        computed |= _is_of_tensor(receiver)
        of_python = _is_container(queries, receiver)
        sure = computed or of_python or (on_device(base) and not base.needs)
        return None if sure else ("resolved", written, method)
    if base.needs and not base.flags & v.SYMBOL:
        return None
    if base.needs and base.needs[0].kind == "return":
        return _of_result(base.needs[0], method)
    if not base.kinds & (v.UNKNOWN | v.INSTANCE):
        return ("resolved", written, method) if base.is_tensor else None
    return ("by name" if _is_by_name(values, call, method) else "unique", written, method)


def _is_one_of_several(queries: FileQueries, node: ast.expr) -> bool:
    """Whether a name is that of one of the parts of a batch: ``for x, y in loader``. These are
    tensors, where a batch may be an object of the project.
    """
    found = queries.only_definition(node) if isinstance(node, ast.Name) else None
    if found is None or found.kind not in (BindingKind.LOOP, BindingKind.UNPACKED):
        return False
    around = queries.parent(found.node)
    if not isinstance(around, (ast.Tuple, ast.List)):
        return False
    loop = queries.parent(around)
    over = getattr(loop, "iter", None) if found.kind is BindingKind.LOOP else None
    made = [each for each in walk(over) if isinstance(each, ast.Call)] if over is not None else []
    return not any(last_part(each.func) in ("enumerate", "zip") for each in made)


def _is_of_tensor(node: ast.expr) -> bool:
    """Whether an object is what a method gives that only tensors have: ``x.unsqueeze(0).to(d)``."""
    return isinstance(node, ast.Call) and of_tensors_only(node, method_name(node))


def _is_container(queries: FileQueries, node: ast.expr) -> bool:
    """Whether an expression is a dictionary, a list or a set that is written out, or a parameter
    with such an annotation.
    """
    found = queries.only_definition(node) if isinstance(node, ast.Name) else None
    if found is not None and isinstance(found.value, _DISPLAYS):
        return True
    hint = getattr(found.node, "annotation", None) if found is not None else None
    name = ast.unparse(hint).partition("[")[0] if hint is not None else ""
    return name.rpartition(".")[2].lower() in _CONTAINERS


def _written(node: ast.expr) -> str:
    """What an object is called: the last name that it is written with."""
    if isinstance(node, ast.Subscript):
        return _written(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _of_result(need: Need, method: str) -> tuple[str, str, str] | None:
    """The target of a method of what a function gives, or an element of that."""
    place = need.name.removeprefix("|")
    return None if "|" in place else ("result", need.owner, f"{place}|{method}")


def _is_by_name(values: LoopValues, call: ast.Call, method: str) -> bool:
    """Whether a method of an object of an unknown class is told by its name, whoever has one: the
    name has several words, or it gets a tensor of the device or a batch.
    """
    if "_" in method.strip("_"):
        return True
    given = [values.of(each) for each in (*call.args, *(item.value for item in call.keywords))]
    return any(on_device(each) or is_batch(each) for each in given)
