"""Where a file calls its functions, the methods of its classes and its layers."""

from __future__ import annotations

import ast
from collections import Counter
from functools import lru_cache

from pygraph_lint.analysis.definitions import FileDefinitions
from pygraph_lint.analysis.nodes import dotted, walk
from pygraph_lint.fixes.names import stored
from pygraph_lint.fixes.site import Site


@lru_cache(maxsize=1)
def _calls_of_layers(file: FileDefinitions) -> dict[str, list[ast.Call]]:
    """The calls, in methods, of what the classes of a file make, by the name of the class."""
    loops = [walk(loop.target) for loop in file.of_kind(ast.For)]
    targets = {node.id for nodes in loops for node in nodes if isinstance(node, ast.Name)}
    named = Counter(each.name for each in file.of_kind(ast.ClassDef))
    made: dict[tuple[ast.ClassDef, str], str] = {}
    found: dict[str, list[ast.Call]] = {}
    for call in file.of_kind(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id not in targets:
            continue
        place = place_of_layer(file, call.func)
        caller = file.scope(call) if place is not None else None
        outer = file.owner(caller) if isinstance(caller, ast.FunctionDef) else None
        if place is None or outer is None:
            continue
        if (outer, place) not in made:
            made[outer, place] = _only_held(file, outer, place)
        name = made[outer, place]
        if named[name] == 1:
            found.setdefault(name, []).append(call)
    return found


def forget() -> None:
    """Let go of a file, once all its findings have been looked at."""
    _calls_of_layers.cache_clear()


def calls_of(site: Site, function: ast.FunctionDef) -> list[ast.Call]:
    """The calls of a function, of a method on ``self`` or of a layer, in its file."""
    owner = site.ask.parent(function)
    if isinstance(owner, ast.ClassDef) and function.name == "forward":
        return _calls_of_layers(site.ask.definitions).get(owner.name, [])
    name = f"self.{function.name}" if isinstance(owner, ast.ClassDef) else function.name
    named = site.ask.definitions.calls.get(function.name, ())
    return [each for each in named if dotted(each.func) == name]


def place_of_layer(file: FileDefinitions, holder: ast.expr) -> str | None:
    """``self.attn``, or ``self.layers`` for the target of a loop over it."""
    if isinstance(holder, ast.Name):
        definition = file.only(holder)
        around = file.path(definition.node) if definition is not None else iter(())
        loop = next((each for each in around if isinstance(each, ast.For)), None)
        if loop is None or definition is None or definition.node not in walk(loop.target):
            return None
        over = loop.iter
        while isinstance(over, (ast.Call, ast.Subscript)):
            over = over.value if isinstance(over, ast.Subscript) else (*over.args, over.func)[0]
        holder = over
    name = dotted(holder)
    return name if name is not None and name.startswith("self.") else None


def _only_held(file: FileDefinitions, owner: ast.ClassDef, place: str) -> str:
    """The one class whose objects, or a list of such, an attribute holds; else empty."""
    heirs = [
        each
        for each in file.of_kind(ast.ClassDef)
        if each is owner or any(dotted(base) == owner.name for base in each.bases)
    ]
    made = {_made(value) for each in heirs for value in stored(each, place)}
    return made.pop() if len(made) == 1 else ""


def _made(value: ast.expr) -> str:
    """The name of the class that an expression makes an object or a list of objects of."""
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return _made(value.elt)
    if not isinstance(value, ast.Call):
        return ""
    name = dotted(value.func) or ""
    listed = name.rpartition(".")[2] == "ModuleList" and len(value.args) == 1
    return _made(value.args[0]) if listed else name.partition(".")[0]
