"""A tensor that is written out in a module's method is made once, as a buffer that is not saved.

weights = torch.tensor([0.3, 0.6], device=x.device) -> weights = self._weights, and in __init__
self.register_buffer("_weights", torch.tensor([0.3, 0.6]), persistent=False)

Unsafe: a buffer is where the module is and, for floating-point numbers, in the module's dtype.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.factories import literal_number
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted, own_nodes
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import one_line, written
from pygraph_lint.fixes.tensors import joins_others

CODES = ("PG104",)
_TAKEN = frozenset(("_parameters", "_buffers", "_modules", "_version"))


def propose(proposal: Proposal) -> None:
    """Move the tensor into the constructor."""
    call = proposal.around(ast.Call)
    if call is None or proposal.names.callee(call) != "torch.tensor":
        raise Declined("not a call of torch.tensor")
    proposal.message = "Make the constant once, as a buffer"
    keywords = {item.arg: item.value for item in call.keywords}
    plain = len(call.args) == 1 and keywords.keys() <= {"dtype", "device"}
    proposal.need("plain", plain, "more than values, a dtype and a device is asked for")
    proposal.need("constant", _constant(call.args[0]), "the values are not written out as a list")
    dtype = keywords.get("dtype")
    fixed = dtype is None or (proposal.names.qualified(dtype) or "").startswith("torch.")
    proposal.need("fixed-dtype", fixed, "the dtype is not the same in every call")
    owner, constructor = constructor_of(proposal)
    proposal.need("module", is_module(proposal, owner), "the class is not certainly a module")
    behind = super_call(constructor)
    joined = joins_others(proposal, call)
    proposal.need("joined", joined, "the tensor may be changed, or is used outside arithmetic")
    proposal.safe_if(
        "follows", False, "a buffer is on the module's device, and in its dtype if floating-point"
    )
    name = _name(proposal, owner)
    kept = f", dtype={proposal.source.segment(dtype)}" if dtype is not None else ""
    values = one_line(proposal.source.segment(call.args[0]))
    made = f"{use_torch(proposal)}.tensor({values}{kept})"
    line = f'self.register_buffer("{name}", {made}, persistent=False)'
    source = proposal.source
    assert behind.end_lineno is not None
    end = source.line_start(behind.end_lineno) + len(source.line(behind.end_lineno))
    text = written(proposal, source.indent(behind), [line.replace('"', source.quote)])
    proposal.replace(end, end, source.newline + text)
    proposal.replace_node(call, f"self.{name}")


def _constant(node: ast.expr) -> bool:
    """A list or tuple, nested or not, of numbers that are written out."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return bool(node.elts) and all(
            literal_number(item) is not None or _constant(item) for item in node.elts
        )
    return False


def constructor_of(proposal: Proposal) -> tuple[ast.ClassDef, ast.FunctionDef]:
    """The class around the finding, and its ``__init__``."""
    owner = proposal.around(ast.ClassDef)
    method = proposal.function
    if owner is None or not isinstance(method, ast.FunctionDef) or method not in owner.body:
        raise Declined("not in a method")
    bound = method.args.args and method.args.args[0].arg == "self"
    if not bound or method.decorator_list or method.name == "__init__":
        raise Declined("not in a plain method")
    for item in owner.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return owner, item
    raise Declined("the class has no constructor of its own")


def is_module(proposal: Proposal, owner: ast.ClassDef) -> bool:
    return any(proposal.names.qualified(base) == "torch.nn.Module" for base in owner.bases)


def super_call(constructor: ast.FunctionDef) -> ast.stmt:
    """The statement ``super().__init__()``, whatever its arguments."""
    for statement in constructor.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        function = call.func if isinstance(call, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == "__init__":
            inner = function.value
            if isinstance(inner, ast.Call) and dotted(inner.func) == "super":
                return statement
    raise Declined("the constructor does not call super().__init__() for itself")


def _name(proposal: Proposal, owner: ast.ClassDef) -> str:
    """A name for the buffer that the class does not use."""
    statement = proposal.statement
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
