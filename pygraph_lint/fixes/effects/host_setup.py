"""A method that builds layers when it is first needed is left out of the compiled code as a whole.

def set_kind(self, kind): @torch.compiler.disable ... self.layer = Layer(kind) ... def
set_kind(self, kind):

Safe: making parameters is not traced, so the method ran in pieces between graph breaks before;
now there is one break, where it is called. It takes no tensors and returns nothing, so nothing of
the graph passes through it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from pygraph_lint.analysis.nodes import dotted
from pygraph_lint.analysis.statement_graph import parameters
from pygraph_lint.fixes.decorated import disable
from pygraph_lint.fixes.names import own_nodes
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site


class _Method(NamedTuple):
    """A method and the class it belongs to."""

    owner: ast.ClassDef
    function: ast.FunctionDef


class HostSetup(Rewrite):
    """PG511: layers built when they are first needed."""

    codes = ("PG511",)
    message = "Decorate the method that builds layers with `@torch.compiler.disable`"
    order = 62

    def rewrite(self, site: Site) -> None:
        methods = list(_methods(site.source.tree))
        building = _building(site, methods)
        if not building:
            raise Declined()
        called = [
            method for method in building if _called_from_elsewhere(method, methods, building)
        ]
        site.require("one", len(called) == 1, "the layers are built from several places")
        found = called[0].function
        site.require("bare", not found.decorator_list, "the method has decorators already")
        disable(site, found)


def _methods(tree: ast.Module) -> Iterator[_Method]:
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            for item in owner.body:
                if isinstance(item, ast.FunctionDef):
                    yield _Method(owner, item)


def _building(site: Site, methods: list[_Method]) -> list[_Method]:
    """Methods that make the finding's layer or only lead there, none with tensors."""
    maker = next((node for node in site.path if isinstance(node, ast.ClassDef)), None)
    function = site.function
    if maker is None or not isinstance(function, ast.FunctionDef):
        return []
    candidates = [
        method
        for method in methods
        if method.function.name != "__init__" and _only_sets_up(site, method.function)
    ]
    if function.name == "__init__":
        found = [method for method in candidates if maker.name in _callees(method.function)]
    else:
        found = [method for method in candidates if method.function is function]
    while True:
        names = {method.function.name for method in found}
        more = [
            method
            for method in candidates
            if method not in found and names & _callees(method.function)
        ]
        if not more:
            return found
        found += more


def _callees(function: ast.FunctionDef) -> set[str]:
    """The last names of what a function calls."""
    return {
        name.rpartition(".")[2]
        for node in own_nodes(function)
        if isinstance(node, ast.Call) and (name := dotted(node.func)) is not None
    }


def _called_from_elsewhere(
    method: _Method, methods: list[_Method], building: list[_Method]
) -> bool:
    """Whether a method of its class that does more than set up calls it on ``self``."""
    wanted = f"self.{method.function.name}"
    return any(
        isinstance(node, ast.Call) and dotted(node.func) == wanted
        for other in methods
        if other.owner is method.owner
        and other not in building
        and other.function.name != "__init__"
        for node in own_nodes(other.function)
    )


def _only_sets_up(site: Site, function: ast.FunctionDef) -> bool:
    """Whether a method takes no tensors, returns nothing and computes nothing with torch."""
    for statement in function.body:
        for node in [statement, *own_nodes(statement)]:
            if _uses_graph(site, node):
                return False
    annotations = [item.annotation for item in parameters(function) if item.annotation is not None]
    return not any("Tensor" in ast.unparse(item) for item in annotations)


def _uses_graph(site: Site, node: ast.AST) -> bool:
    """Whether a node gives something back or computes with torch."""
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        return True
    if isinstance(node, ast.Return):
        return node.value is not None
    name = site.ask.callee(node) or ""
    return name.startswith("torch.") and not name.startswith("torch.nn.")
