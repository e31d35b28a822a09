"""Make a tensor that is written out in a module's method once, as a buffer that is not saved.

weights = torch.tensor([0.3, 0.6], device=x.device) -> weights = self._weights, and in __init__
self.register_buffer("_weights", torch.tensor([0.3, 0.6]), persistent=False)

Unsafe: a buffer is where the module is and, for floating-point numbers, in the module's dtype.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.nodes import dotted
from pygraph_lint.fixes.build import call as called
from pygraph_lint.fixes.build import expression, statement
from pygraph_lint.fixes.factories import literal_number
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.keywords import with_keyword
from pygraph_lint.fixes.names import own_nodes
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site
from pygraph_lint.fixes.tensors import joins_others

_TAKEN = frozenset(("_parameters", "_buffers", "_modules", "_version"))


class ConstantBuffer(Rewrite):
    """PG104: a list of numbers that a method makes a tensor in every call."""

    codes = ("PG104",)
    message = "Make the constant once, as a buffer"
    kinds = (ast.Call,)
    order = 25

    def rewrite(self, site: Site) -> None:
        call = site.tree
        if not isinstance(call, ast.Call) or site.ask.callee(call) != "torch.tensor":
            raise Declined()
        keywords = {item.arg: item.value for item in call.keywords}
        plain = len(call.args) == 1 and keywords.keys() <= {"dtype", "device"}
        site.require("plain", plain, "more than values, a dtype and a device is asked for")
        site.require("constant", _constant(call.args[0]), "the values are not written as a list")
        dtype = keywords.get("dtype")
        fixed = dtype is None or (site.ask.qualified(dtype) or "").startswith("torch.")
        site.require("fixed-dtype", fixed, "the dtype is not the same in every call")
        owner, constructor = constructor_of(site)
        site.require("module", is_module(site, owner), "the class is not certainly a module")
        behind = super_call(constructor)
        joined = joins_others(site, call)
        site.require("joined", joined, "the tensor may be changed, or is used outside arithmetic")
        site.safe_only_if(
            "follows", False, "a buffer is on the module's device, in its dtype if floating-point"
        )
        name, quote = _name(site, owner), site.source.quote
        made = called(f"{use_torch(site)}.tensor", site.expression_node(call.args[0]))
        if dtype is not None:
            made = with_keyword(made, "dtype", site.expression_node(dtype))
        register = statement(
            f"self.register_buffer({quote}{name}{quote}, {{made}}, persistent=False)", made=made
        )
        site.put_statements([behind], [site.statement_node(behind), register], whole=False)
        site.put(call, expression(f"self.{name}"))


def _constant(node: ast.expr) -> bool:
    """A list or tuple, nested or not, of numbers that are written out."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return bool(node.elts) and all(
            literal_number(item) is not None or _constant(item) for item in node.elts
        )
    return False


def constructor_of(site: Site) -> tuple[ast.ClassDef, ast.FunctionDef]:
    """The class around the finding, and its ``__init__``."""
    owner = site.around(ast.ClassDef)
    method = site.function
    if owner is None or not isinstance(method, ast.FunctionDef) or method not in owner.body:
        raise Declined()
    bound = method.args.args and method.args.args[0].arg == "self"
    if not bound or method.decorator_list or method.name == "__init__":
        raise Declined("not in a plain method")
    for item in owner.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return owner, item
    raise Declined("the class has no constructor of its own")


def is_module(site: Site, owner: ast.ClassDef) -> bool:
    return any(site.ask.qualified(base) == "torch.nn.Module" for base in owner.bases)


def super_call(constructor: ast.FunctionDef) -> ast.stmt:
    """The statement ``super().__init__()``, whatever its arguments."""
    for line in constructor.body:
        call = line.value if isinstance(line, ast.Expr) else None
        function = call.func if isinstance(call, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == "__init__":
            inner = function.value
            if isinstance(inner, ast.Call) and dotted(inner.func) == "super":
                return line
    raise Declined("the constructor does not call super().__init__() for itself")


def _name(site: Site, owner: ast.ClassDef) -> str:
    """A name for the buffer that the class does not use."""
    statement = site.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    stem = f"_{target.id.strip('_')}" if isinstance(target, ast.Name) else "_constant"
    used = {node.attr for node in ast.walk(owner) if isinstance(node, ast.Attribute)}
    used |= {node.name for node in own_nodes(owner) if isinstance(node, ast.FunctionDef)}
    used |= {
        node.value
        for node in ast.walk(owner)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    names = (stem, *(f"{stem}_{number}" for number in range(2, 99)))
    return next(name for name in names if name not in used | _TAKEN)
