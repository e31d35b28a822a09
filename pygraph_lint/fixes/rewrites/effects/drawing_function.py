"""A function that makes generators or draws on the host is left out of compiled code as a whole.

    def noise(size, seed):                              @torch.compiler.disable
        generator = torch.Generator().manual_seed(seed)  ->  def noise(size, seed):
        return torch.randn(size, generator=generator)       ...

Each generator, seed and draw ends the graph; now there is one break, where the function is called.
Constructors, too. Unsafe: an export does not see into it.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine.names import assigned_values, own_nodes
from pygraph_lint.fixes.engine.site import Rewrite, Site
from pygraph_lint.fixes.shared.disable import disable, is_called, leave_out, plain_function

# What makes or draws tensors, and what only asks; anything else of torch is work for the device.
_MAKING = frozenset(
    """
        rand randn randint randperm normal multinomial empty zeros ones full tensor as_tensor
        from_numpy arange Generator device manual_seed initial_seed get_rng_state set_rng_state
        is_tensor Size get_default_dtype get_default_device
    """.split()
)
_ON_HOST = ("numpy.random.", "random.", "torch.Generator", "torch.manual_seed", "torch.random.")


class DrawingFunction(Rewrite):
    """PG504, PG506, PG513: a helper or a constructor that draws on the host, several times or
    in a loop.
    """

    codes = ("PG504", "PG506", "PG513")
    message = "Decorate the function that draws with `@torch.compiler.disable`"
    order = 96
    early = True
    trusting = True

    def rewrite(self, site: Site) -> None:
        function, around = plain_function(site)
        static = [ast.unparse(node) for node in function.decorator_list] == ["staticmethod"]
        site.require("bare", not function.decorator_list or static, "the function has decorators")
        made = function.name == "__init__" and not _is_module(around)
        site.require("helper", made or is_called(site, function), "")
        nodes = own_nodes(function)
        yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes)
        site.require("returns", not yields, "a generator runs where it is used")
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        drawn = [node for node in calls if _draws(site, node)]
        loops = any(isinstance(node, (ast.For, ast.While)) for node in nodes)
        site.require("several", len(drawn) > 1 or (bool(drawn) and loops), "")
        light = not any(_computes(site, function, node) for node in calls)
        on_host = light or _stays_in_numpy(site, function, nodes)
        site.require("host-only", on_host, "the function also computes on the device")
        leave_out(site)
        disable(site, function)


def _is_module(around: ast.AST) -> bool:
    """Whether a class may be a layer: its base is named so."""
    bases = around.bases if isinstance(around, ast.ClassDef) else []
    return any((dotted(base) or "").endswith(("Module", "Layer", "Model")) for base in bases)


def _draws(site: Site, call: ast.Call) -> bool:
    """Whether a call makes a generator, draws, or uses what such a call made."""
    if (site.ask.callee(call) or "").startswith(_ON_HOST):
        return True
    if any(item.arg == "generator" for item in call.keywords):
        return True
    holder = call.func.value if isinstance(call.func, ast.Attribute) else None
    value = site.ask.only_value(holder) if isinstance(holder, ast.Name) else None
    return isinstance(value, ast.Call) and _draws(site, value)


def _computes(site: Site, function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a call may be work for the device: an operation of torch, a layer, a function that
    was handed in.
    """
    name = site.ask.callee(call)
    if name is not None:
        return name.startswith("torch.") and name.split(".")[1] not in (*_MAKING, "random")
    root: ast.expr = call.func
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in {it.arg for it in parameters(function)}:
        return False
    method = isinstance(call.func, ast.Attribute) and root.id in ("self", "cls")
    return not method or call.func.attr not in _own_functions(site)  # type: ignore[attr-defined]


def _stays_in_numpy(site: Site, function: ast.FunctionDef, nodes: tuple[ast.AST, ...]) -> bool:
    """Whether a function calls nothing of torch, and gives only what numpy made."""
    results = [node.value for node in nodes if isinstance(node, ast.Return)]
    of_torch = any((site.ask.callee(node) or "").startswith("torch.") for node in nodes)
    return bool(results) and not of_torch and all(_of_numpy(site, function, it) for it in results)


def _of_numpy(site: Site, function: ast.FunctionDef, node: ast.expr | None) -> bool:
    """Whether a value is a call of numpy, or a name that only ever holds such."""
    if isinstance(node, ast.Name):
        values = assigned_values(function, node.id) or []
        made = [it for it in values if isinstance(it, ast.Call) and _of_numpy(site, function, it)]
        return bool(made) and len(made) == len(values)
    return node is not None and (site.ask.callee(node) or "").startswith("numpy.")


def _own_functions(site: Site) -> set[str]:
    """The names of the file's functions, and of attributes that hold a lambda."""
    named = {node.name for node in site.ask.of_kind(ast.FunctionDef)}
    return named | {
        target.attr
        for node in site.ask.of_kind(ast.Assign)
        if isinstance(node.value, ast.Lambda)
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }
