"""From a loop over layers down to a method of one: the calls between, and what they pass on."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from pygraph_lint.analysis.control_flow.reaching_definitions import FileDefinitions
from pygraph_lint.analysis.control_flow.statement_graph import defaults
from pygraph_lint.analysis.syntax.nodes import dotted, is_constant, walk
from pygraph_lint.fixes.engine.names import all_nodes, loads, stored
from pygraph_lint.fixes.engine.site import Site

_DEPTH = 4
_Item = ast.arg | ast.expr | ast.keyword


@dataclass(frozen=True)
class Chain:
    """A call in ``loop`` of ``top`` leads to a method, and what one of its parameters holds is
    passed on unchanged. Before the loop it has the names ``sources``; where there are several,
    ``chosen`` are the statements of the loop that take one. To have more passed on, ``functions``
    need a parameter and ``calls`` an argument.
    """

    top: ast.FunctionDef
    loop: ast.For
    sources: tuple[str, ...]
    chosen: tuple[ast.Assign, ...]
    calls: tuple[ast.Call, ...]
    functions: tuple[ast.FunctionDef, ...]
    may_be_none: bool


def chains_to(
    site: Site, owner: ast.ClassDef, method: ast.FunctionDef, parameter: str, depth: int = _DEPTH
) -> list[Chain]:
    """The loops that lead to ``forward`` of a class with a value that stays the same."""
    if method.args.vararg is not None or method.name != "forward" or not depth:
        return []
    found: list[Chain] = []
    for caller, call in _calls(site, owner):
        given = _argument(call, method, parameter)
        through = _lets_through(site, caller, call)
        none = defaults_to_none(method, parameter)
        definition = site.ask.only_definition(given) if given is not None else None
        chain = _looped(site, caller, call, given) if given is not None else None
        if chain is not None:
            found.append(replace(chain, may_be_none=none or chain.may_be_none))
            continue
        passed = given.id if given is not None else parameter
        handed = isinstance(definition.node, ast.arg) if definition is not None else through
        outer = site.ask.owner(caller)
        if outer is None or not handed or (caller.decorator_list and not through):
            continue
        for each in chains_to(site, outer, caller, passed, depth - 1):
            calls = each.calls if through else (*each.calls, call)
            functions = each.functions if through else (*each.functions, caller)
            none = none or each.may_be_none
            found.append(replace(each, calls=calls, functions=functions, may_be_none=none))
    return found


def _lets_through(site: Site, caller: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a method hands on, in a call, what it was given by names that it does not know, and
    to nothing else that might refuse it.
    """
    taken = caller.args.kwarg.arg if caller.args.kwarg is not None else ""
    users = [site.ask.parent(site.ask.parent(use) or use) for use in loads(caller, taken)]
    return call in users and all(user is call or _takes_all(site, user) for user in users)


def _takes_all(site: Site, call: ast.AST | None) -> bool:
    """Whether what is called is an object of the file that takes any argument by name."""
    owner = site.ask.owner(call) if isinstance(call, ast.Call) else None
    if owner is None or not isinstance(call, ast.Call):
        return False
    values = stored(owner, dotted(call.func) or "")
    made = {dotted(each.func) for each in values if isinstance(each, ast.Call)}
    methods = [each for each in site.ask.of_kind(ast.FunctionDef) if each.name == "forward"]
    found = [each for each in methods if getattr(site.ask.owner(each), "name", "") in made]
    return bool(found) and all(each.args.kwarg is not None for each in found)


def _calls(site: Site, owner: ast.ClassDef) -> list[tuple[ast.FunctionDef, ast.Call]]:
    """The calls, in methods of the file's classes, of what ``owner`` makes."""
    return _calls_of_layers(site.ask.definitions).get(owner.name, [])


@lru_cache(maxsize=1)
def _calls_of_layers(file: FileDefinitions) -> dict[str, list[tuple[ast.FunctionDef, ast.Call]]]:
    """The calls, in methods, of what the classes of a file make, by the name of the class."""
    loops = [walk(loop.target) for loop in file.of_kind(ast.For)]
    chosen = (each.targets[0] for each in file.of_kind(ast.Assign) if _is_element(each.value))
    named_ones = (node for nodes in (*loops, chosen) for node in nodes)
    targets = {node.id for node in named_ones if isinstance(node, ast.Name)}
    named = Counter(each.name for each in file.of_kind(ast.ClassDef))
    made: dict[tuple[ast.ClassDef, str], str] = {}
    found: dict[str, list[tuple[ast.FunctionDef, ast.Call]]] = {}
    for call in file.of_kind(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id not in targets:
            continue
        place = place_of_layer(file, call.func)
        caller = file.scope(call) if place is not None else None
        outer = file.owner(caller) if isinstance(caller, ast.FunctionDef) else None
        if place is None or not isinstance(caller, ast.FunctionDef) or outer is None:
            continue
        if (outer, place) not in made:
            made[outer, place] = _only_held(file, outer, place)
        name = made[outer, place]
        if named[name] == 1:
            found.setdefault(name, []).append((caller, call))
    return found


def calls_of(site: Site, function: ast.FunctionDef) -> list[ast.Call]:
    """The calls of a function, of a method on ``self`` or of a layer, in its file."""
    owner = site.ask.parent(function)
    if isinstance(owner, ast.ClassDef) and function.name == "forward":
        return [call for _, call in _calls(site, owner)]
    name = f"self.{function.name}" if isinstance(owner, ast.ClassDef) else function.name
    named = site.ask.definitions.calls.get(function.name, ())
    return [each for each in named if dotted(each.func) == name]


def place_of_layer(file: FileDefinitions, holder: ast.expr) -> str | None:
    """``self.attn``, or ``self.layers`` for the target of a loop over it, or an element of it."""
    if isinstance(holder, ast.Name):
        definition = file.only(holder)
        if definition is None:
            return None
        over = definition.value
        if over is None or not _is_element(over):
            loops = (each for each in file.path(definition.node) if isinstance(each, ast.For))
            loop = next(loops, None)
            if loop is None or definition.node not in walk(loop.target):
                return None
            over = loop.iter
        while isinstance(over, (ast.Call, ast.Subscript)):
            over = over.value if isinstance(over, ast.Subscript) else (*over.args, over.func)[0]
        holder = over
    name = dotted(holder)
    return name if name is not None and name.startswith("self.") else None


def _is_element(value: ast.expr) -> bool:
    """``self.layers[i]``."""
    return isinstance(value, ast.Subscript) and not isinstance(value.slice, ast.Slice)


def _only_held(file: FileDefinitions, owner: ast.ClassDef, place: str) -> str:
    """The one class whose objects, or a list of such, an attribute holds; else empty."""
    heirs = [
        each
        for each in file.of_kind(ast.ClassDef)
        if each is owner or any(dotted(base) == owner.name for base in each.bases)
    ]
    calls = [node for each in heirs for node in all_nodes(each) if isinstance(node, ast.Call)]
    whole = any(dotted(each.func) == place for each in calls)
    values = [value for each in heirs for value in stored(each, place)]
    made = {"" if whole and _is_chain(value) else _made(value, calls) for value in values}
    return made.pop() if len(made) == 1 else ""


def _is_chain(value: ast.expr) -> bool:
    """Whether a call makes layers that are called one behind the other."""
    name = dotted(value.func) if isinstance(value, ast.Call) else None
    return (name or "").rpartition(".")[2] == "Sequential"


def _made(value: ast.expr, calls: list[ast.Call]) -> str:
    """The name of the class that an expression makes an object or a list of objects of; ``calls``
    may add them to the list.
    """
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return _made(value.elt, calls)
    if isinstance(value, ast.Starred):
        return _made(value.value, calls)
    if isinstance(value, ast.Name):
        added = [each.args[0] for each in calls if dotted(each.func) == f"{value.id}.append"]
        names = {_made(each, calls) for each in added}
        return names.pop() if len(names) == 1 else ""
    if not isinstance(value, ast.Call):
        return ""
    name = dotted(value.func) or ""
    listed = name.rpartition(".")[2] == "ModuleList" and len(value.args) == 1
    starred = _is_chain(value) and isinstance(value.args[0] if value.args else None, ast.Starred)
    return _made(value.args[0], calls) if listed or starred else name.partition(".")[0]


def _argument(call: ast.Call, method: ast.FunctionDef, parameter: str) -> ast.Name | None:
    """The name that a call passes for a parameter."""
    given = [item.value for item in call.keywords if item.arg == parameter]
    names = [each.arg for each in (*method.args.posonlyargs, *method.args.args)][1:]
    if not given and parameter in names and names.index(parameter) < len(call.args):
        before = call.args[: names.index(parameter) + 1]
        given = [] if any(isinstance(each, ast.Starred) for each in before) else before[-1:]
    return given[0] if given and isinstance(given[0], ast.Name) else None


def _looped(site: Site, caller: ast.FunctionDef, call: ast.Call, given: ast.Name) -> Chain | None:
    """The outermost loop around a call that passes a name which keeps its value, or takes it from
    names that do.
    """
    around = [each for each in site.ask.path(call) if caller in site.ask.path(each)]
    for loop in reversed([each for each in around if isinstance(each, ast.For)]):
        bound = {
            node.id
            for node in all_nodes(loop)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        chosen: list[ast.Assign] = []
        sources = [given.id]
        if given.id in bound:
            values = site.ask.values(given) or []
            sources = [each.id for each in values if isinstance(each, ast.Name)]
            around_them = (site.ask.parent(each) for each in values)
            chosen = [each for each in around_them if isinstance(each, ast.Assign)]
            plain = all(len(each.targets) == 1 and site.source.alone(each) for each in chosen)
            inside = all(loop in site.ask.path(each) for each in chosen)
            if not (plain and inside and 0 < len(values) == len(sources) == len(chosen)):
                continue
        first = not site.source.line(loop.lineno)[: loop.col_offset].strip()
        if first and bound.isdisjoint(sources):
            none = any(defaults_to_none(caller, each) for each in sources)
            names = tuple(dict.fromkeys(sources))
            return Chain(caller, loop, names, tuple(chosen), (call,), (), none)
    return None


def defaults_to_none(function: ast.FunctionDef, parameter: str) -> bool:
    """Whether a parameter is None where it is not given."""
    return is_constant(defaults(function).get(parameter), None)


def add_parameter(site: Site, function: ast.FunctionDef, name: str) -> None:
    """Note a change that gives a function a last parameter, None where it is left out."""
    given = function.args
    last = [*given.posonlyargs, *given.args][-1]
    _behind(site, last, given.defaults[-1] if given.defaults else last, f"{name}=None")


def add_argument(site: Site, call: ast.Call, name: str) -> None:
    """Note a change that passes what a name holds under the same name."""
    named = (item for item in call.keywords if item.arg is not None)
    items: list[_Item] = [*call.args, *named]
    last = max(items, key=site.source.span)
    _behind(site, last, last, f"{name}={name}")


def _behind(site: Site, first: _Item, last: _Item, text: str) -> None:
    """Note an addition behind an item of a list, on a line of its own where the item has one."""
    line = site.source.line(first.lineno)
    own = not line[: site.source.span(first)[0] - site.source.line_start(first.lineno)].strip()
    indent = line[: len(line) - len(line.lstrip())]
    end = site.source.span(last)[1]
    site.replace(end, end, f",{site.source.newline}{indent}{text}" if own else f", {text}")
