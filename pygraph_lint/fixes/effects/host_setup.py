"""A method that builds layers when it is first needed is left out of the compiled code as a whole.

    def set_kind(self, kind):           @torch.compiler.disable
        self.layer = Layer(kind)   ->   def set_kind(self, kind): ...

Safe: making parameters is not traced, so the method ran in pieces between graph breaks before;
now there is one break, where it is called. It takes no tensors and returns nothing, so nothing of
the graph passes through it.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.decorated import disable
from pygraph_lint.fixes.names import own_nodes
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site


class HostSetup(Rewrite):
    """PG511: layers built when they are first needed."""

    codes = ("PG511",)
    message = "Decorate the method that builds layers with `@torch.compiler.disable`"
    order = 62

    def rewrite(self, site: Site) -> None:
        classes = (each for each in site.source.tree.body if isinstance(each, ast.ClassDef))
        parts = (part for each in classes for part in each.body)
        methods = [part for part in parts if isinstance(part, ast.FunctionDef)]
        building = _building(site, methods)
        if not building:
            raise Declined()
        called = [each for each in building if _called_from_elsewhere(site, each, building)]
        site.require("one", len(called) == 1, "the layers are built from several places")
        bare = not called[0].decorator_list
        site.require("bare", bare, "the method has decorators already")
        disable(site, called[0])


def _building(site: Site, methods: list[ast.FunctionDef]) -> list[ast.FunctionDef]:
    """Methods that make the finding's layer or only lead there, none with tensors."""
    maker, function = site.around(ast.ClassDef), site.function
    if maker is None or not isinstance(function, ast.FunctionDef):
        return []
    candidates = [each for each in methods if each.name != "__init__" and _only_sets_up(site, each)]
    if function.name == "__init__":
        found = [each for each in candidates if maker.name in _callees(each)]
    else:
        found = [each for each in candidates if each is function]
    while True:
        names = {each.name for each in found}
        more = [each for each in candidates if each not in found and names & _callees(each)]
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
    site: Site, method: ast.FunctionDef, building: list[ast.FunctionDef]
) -> bool:
    """Whether a method of its class that does more than set up calls it on ``self``."""
    owner = site.ask.parent(method)
    return any(
        isinstance(node, ast.Call) and dotted(node.func) == f"self.{method.name}"
        for other in getattr(owner, "body", ())
        if isinstance(other, ast.FunctionDef) and other not in building and other.name != "__init__"
        for node in own_nodes(other)
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
