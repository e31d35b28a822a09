"""Python's builtins, as far as tensors meet them, and math."""

from __future__ import annotations

import ast
from collections.abc import Callable

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.symbols import constant, is_result
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import note_formatted
from pygraph_lint.analysis.interpreter.attributes import eval_attribute
from pygraph_lint.analysis.interpreter.project_calls import pass_on
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.containers import merged, with_entry
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import need_numbers, needs_number
from pygraph_lint.analysis.program.facts import ANY_NAME
from pygraph_lint.analysis.syntax.nodes import source_of, span_of

Builtin = Callable[[State, str, CallSite], Value]

_TO_NUMBER = ("builtins.int", "builtins.float")


def call_builtin(state: State, name: str, site: CallSite) -> Value:
    """A call of a builtin."""
    found = _BUILTINS.get(name, v.UNKNOWN_VALUE)
    return found if isinstance(found, Value) else found(state, name, site)


def call_math(state: State, name: str, site: CallSite) -> Value:
    """math.sqrt(t), cmath.sqrt(t) and the like convert their argument to a Python number."""
    read = 0
    if name == "math.prod" and site.node.args and isinstance(site.node.args[0], ast.GeneratorExp):
        span = span_of(site.node)
        state.event("effect.untraced-call", span, f"{name}(...)", form="iterated")
    need_numbers(state, site)
    for value in site.positional:
        read |= value.flags & v.READ
        if value.is_tensor:
            span = span_of(site.node)
            state.event("sync.math", span, f"{name}()", value)
            read = v.READ
    return Value(v.NUMBER, flags=read)


def _number(state: State, name: str, site: CallSite) -> Value:
    """int, float, complex, bool."""
    first, node = site.first, site.node
    if node.args:
        needs_number(state, node.args[0], first)
    if not first.is_tensor and not first.is_doubtful_number:
        return Value(v.NUMBER, flags=first.flags & v.READ)
    if name == "float" and is_result(first):  # a loss: what is a number already needs no float()
        first = first._replace(needs=(), kinds=v.TENSOR)
    kind = "sync.bool" if name == "bool" else "sync.number"
    state.event(kind, span_of(node), f"{name}()", first)
    return v.READ_VALUE


def _compared(state: State, name: str, site: CallSite) -> Value:
    """max, min, sorted: compare their arguments."""
    candidates = site.positional
    if len(candidates) == 1:
        single = candidates[0]
        known = single.items is not None and single.keys is None
        candidates = list(single.items or ()) if known else [v.iterate(single)]
        if single.is_tensor and single.flags & v.SYMBOL:
            candidates = []
    found = [value for value in candidates if value.is_tensor or value.is_doubtful_number]
    if found and _compares_numbers(state, site, candidates):
        if name != "sorted":
            subject = f"{name}(key=...)"
            state.event("effect.untraced-call", span_of(site.node), subject, found[0], form="key")
    elif found:
        sorts = name == "sorted" or "key" in site.named
        kind = "branch.sort" if sorts else "sync.builtin"
        state.event(kind, span_of(site.node), f"{name}()", found[0])
    if name == "sorted":
        state.note_known(_written(site.node), "sync.tolist")
        return Value(v.SEQUENCE, item=v.join_all(candidates))
    result = v.join_all([value._replace(flags=value.flags & ~v.SYMBOL) for value in candidates])
    doubtful = result.kinds == v.NUMBER and found
    return result._replace(needs=found[0].needs, why=found[0].why) if doubtful else result


def _written(call: ast.Call) -> list[ast.expr]:
    """What a call gets, as it is written: of a list or a generator the elements."""
    given = call.args[0] if call.args else None
    if isinstance(given, (ast.ListComp, ast.GeneratorExp)):
        return [given.elt]
    return given.elts if isinstance(given, (ast.List, ast.Tuple)) else call.args[:1]


def _compares_numbers(state: State, site: CallSite, candidates: list[Value]) -> bool:
    """Whether ``key=`` makes numbers of what is compared: no tensor's value is needed then."""
    for keyword in site.node.keywords:
        if keyword.arg == "key":
            key = keyword.value
            if isinstance(key, ast.Lambda) and len(key.args.args) == 1:
                name = key.args.args[0].arg
                saved = [(name, state.env.get(name))]
                state.env[name] = v.join_all(candidates)
                result = state.ev_quiet(key.body)
                state.restore(saved)
                return not result.is_tensor
            return state.ev_quiet(key).cls == "builtins.len"
    return False


def _power(state: State, name: str, site: CallSite) -> Value:
    """pow: of tensors it is not traced, as ``**`` is."""
    tensor = next((value for value in site.positional if value.is_tensor), None)
    if tensor is None or tensor.kinds & v.UNKNOWN:
        return v.NUMBER_VALUE if tensor is None else tensor
    state.event("effect.untraced-call", span_of(site.node), "pow()", tensor, form="pow")
    return tensor._replace(flags=tensor.flags & v.FLOW)


def _sum(state: State, name: str, site: CallSite) -> Value:
    """sum adds its elements: no values are read."""
    item = v.iterate(site.first)
    return item if item.is_tensor else v.NUMBER_VALUE


def _rounded(state: State, name: str, site: CallSite) -> Value:
    """abs, round: the value itself as far as rules care."""
    return site.first._replace(flags=site.first.flags & ~v.SYMBOL, const=None)


def _range(state: State, name: str, site: CallSite) -> Value:
    """range over a tensor's value."""
    need_numbers(state, site, "loop")
    read = 0
    for value in site.positional:
        read |= value.flags & v.READ
        if value.is_tensor:
            state.event("branch.loop", span_of(site.node), source_of(site.node), value)
    return Value(v.SEQUENCE, item=Value(v.NUMBER, flags=read))


def _list(state: State, name: str, site: CallSite) -> Value:
    """list, tuple, set, reversed, iter."""
    if not site.positional:
        return Value(v.SEQUENCE, items=())
    if site.first.items is not None and site.first.keys is None:
        return Value(v.SEQUENCE, items=site.first.items)
    return Value(v.SEQUENCE, item=v.iterate(site.first))


def _enumerate(state: State, name: str, site: CallSite) -> Value:
    return Value(v.SEQUENCE, item=v.sequence([v.NUMBER_VALUE, v.iterate(site.first)]))


def _zip(state: State, name: str, site: CallSite) -> Value:
    return Value(v.SEQUENCE, item=v.sequence([v.iterate(value) for value in site.positional]))


def _next(state: State, name: str, site: CallSite) -> Value:
    return v.iterate(site.first)


def _any(state: State, name: str, site: CallSite) -> Value:
    """any, all: the truth of each element."""
    item = v.iterate(site.first)
    if item.is_tensor and not site.first.flags & v.SYMBOL:
        state.event("sync.builtin", span_of(site.node), f"{name}()", item)
    return v.NUMBER_VALUE


def _setattr(state: State, name: str, site: CallSite) -> Value:
    """``setattr(self, name, value)``: callers say what the attributes are called."""
    given = site.node.args
    if len(given) == 3 and state.is_self(given[0]) and not isinstance(given[1], ast.Constant):
        state.function.sets_by_name = True
        state.module.set_attribute(state.owner, ANY_NAME, site.positional[2])
    return v.NONE_VALUE


def _getattr(state: State, name: str, site: CallSite) -> Value:
    node = site.node
    if len(node.args) < 2:
        return v.UNKNOWN_VALUE
    holder, named = node.args[:2]
    word = str(named.value) if isinstance(named, ast.Constant) else ANY_NAME
    if word == ANY_NAME and not state.is_self(holder):
        return _any_function(state.qualified(holder))
    attribute = ast.Attribute(holder, word, ast.Load())
    value = eval_attribute(state, ast.copy_location(attribute, node))
    return v.join(value, site.positional[2]) if len(site.positional) > 2 else value


def _any_function(namespace: str | None) -> Value:
    """``getattr(torch, name)``: a function of tensors, if it is called."""
    if namespace in ("torch", "torch.nn.functional"):
        return Value(v.CALLABLE | v.UNKNOWN, cls=f"{namespace}.{ANY_NAME}")
    return v.UNKNOWN_VALUE


def _map(state: State, name: str, site: CallSite) -> Value:
    if len(site.positional) < 2:
        return v.SEQUENCE_VALUE
    function, items = site.first, [v.iterate(value) for value in site.positional[1:]]
    if function.kinds & v.CALLABLE and function.cls in _TO_NUMBER and items[0].is_tensor:
        spelled = f"{function.cls.rpartition('.')[2]}()"
        state.event("sync.number", span_of(site.node), spelled, items[0])
        return Value(v.SEQUENCE, item=v.READ_VALUE)
    return Value(v.SEQUENCE, item=pass_on(state, function, CallSite(site.node, items, {})))


def _isinstance(state: State, name: str, site: CallSite) -> Value:
    return Value(v.NUMBER, const=_instance_known(state, site.first, site.node))


def _instance_known(state: State, value: Value, node: ast.Call) -> bool | None:
    """What ``isinstance`` gives where the kinds of the value leave no choice."""
    if len(node.args) != 2 or state.qualified(node.args[1]) != "torch.Tensor":
        return None
    if value.kinds == v.TENSOR and not value.needs:
        return True
    return None if value.kinds & (v.TENSOR | v.UNKNOWN | v.OTHER) else False


def _text(state: State, name: str, site: CallSite) -> Value:
    form = {} if name == "format" else {"form": "str"}
    note_formatted(state, site.first, site.node, None, **form)
    return v.TEXT_VALUE


def _dict(state: State, name: str, site: CallSite) -> Value:
    made = v.mapping({})
    if site.positional or any(keyword.arg is None for keyword in site.node.keywords):
        made = merged(made, site.first)
    for key, value in site.named.items():
        made = with_entry(made, constant(key), value)
    return made


_BUILTINS: dict[str, Builtin | Value] = {
    **dict.fromkeys(("int", "float", "complex", "bool"), _number),
    **dict.fromkeys(("max", "min", "sorted"), _compared),
    "sum": _sum,
    "pow": _power,
    **dict.fromkeys(("abs", "round"), _rounded),
    "range": _range,
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "reversed", "iter"), _list),
    "enumerate": _enumerate,
    "zip": _zip,
    "next": _next,
    **dict.fromkeys(("any", "all"), _any),
    "getattr": _getattr,
    "setattr": _setattr,
    **dict.fromkeys(("map", "filter"), _map),
    "isinstance": _isinstance,
    **dict.fromkeys(
        ("len", "id", "hash", "ord", "hasattr", "callable", "issubclass"), v.NUMBER_VALUE
    ),
    **dict.fromkeys(("str", "repr", "format", "ascii", "chr", "input"), _text),
    "dict": _dict,
    **dict.fromkeys(("vars", "globals", "locals"), v.MAPPING_VALUE),
    **dict.fromkeys(("type", "object", "property"), v.OTHER_VALUE),
}
