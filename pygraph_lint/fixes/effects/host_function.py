"""A function that works on the host is left out of the compiled code as a whole.

def mask_indices(shape, p): @torch.compiler.disable ... numpy.random ... def mask_indices(shape,
p):

Safe: it ran on the host before, in pieces between graph breaks; now there is one break, where it
is called.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.decorated import disable
from pygraph_lint.fixes.names import assigned_values, own_nodes
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site


class HostFunction(Rewrite):
    """PG504: a helper that draws from numpy."""

    codes = ("PG504",)
    message = "Decorate the function that works on the host with `@torch.compiler.disable`"
    order = 61

    def rewrite(self, site: Site) -> None:
        function = site.function
        if not isinstance(function, ast.FunctionDef):
            raise Declined("not inside a plain function")
        static = [ast.unparse(node) for node in function.decorator_list] == ["staticmethod"]
        of_class = static and isinstance(site.ask.parent(function), ast.ClassDef)
        helper = of_class or site.ask.parent(function) is site.source.tree
        site.require("helper", helper, "")
        bare = not function.decorator_list or static
        site.require("bare", bare, "the function has decorators, which may depend on the order")
        nodes = list(own_nodes(function))
        called = [site.ask.callee(node) or "" for node in nodes]
        host = not any(name.startswith("torch.") for name in called)
        site.require("host-only", host, "the function also computes with torch")
        drawing = [
            node
            for node in nodes
            if (site.ask.callee(node) or "").startswith(("numpy.random.", "random."))
        ]
        traced = bool(drawing) and all(_traced(site, node) for node in drawing)
        site.require("breaks", not traced, "Dynamo traces what is drawn")
        draws = len(drawing)
        loops = any(isinstance(node, (ast.For, ast.While)) for node in nodes)
        site.require("several", draws > 1 or loops, "")
        results = [node.value for node in nodes if isinstance(node, ast.Return)]
        numbers = bool(results) and all(_from_numpy(site, function, it) for it in results)
        site.require("host-result", numbers, "what the function returns may be a tensor")
        generator = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes)
        site.require(
            "returns", not generator, "a generator runs where it is used, not where it is called"
        )
        disable(site, function)


# How many arguments in a row make these draw arrays, which Dynamo traces; a single number it does
# not.
_ARRAYS = {
    **dict.fromkeys(("rand", "randn", "random", "random_sample", "sample"), 1),
    **dict.fromkeys(("uniform", "normal", "randint"), 3),
}


def _traced(site: Site, node: ast.AST) -> bool:
    """Whether a call draws an array in a way that Dynamo traces."""
    module, _, name = (site.ask.callee(node) or "").rpartition(".")
    if module != "numpy.random" or name not in _ARRAYS or not isinstance(node, ast.Call):
        return False
    sized = any(item.arg == "size" for item in node.keywords)
    return sized or len(node.args) >= _ARRAYS[name]


def _from_numpy(site: Site, function: ast.FunctionDef, node: ast.expr | None) -> bool:
    """Whether a result is made by numpy: a call of it, or a name that only ever holds such."""
    if isinstance(node, ast.Name):
        values = assigned_values(function, node.id) or []
        calls = [value for value in values if isinstance(value, ast.Call)]
        return (
            bool(values)
            and len(calls) == len(values)
            and all(_from_numpy(site, function, call) for call in calls)
        )
    return node is not None and (site.ask.callee(node) or "").startswith("numpy.")
