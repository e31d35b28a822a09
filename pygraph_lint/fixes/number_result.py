"""A helper that wraps a whole number in a tensor returns the number.

return torch.tensor(max(q.size(-2), k.size(-2))) -> return max(q.size(-2), k.size(-2))

The number is known on the host, and so are then the slices and bounds that are made of it. Always
unsafe: who calls the helper from another file gets a number where there was a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.fixes.names import assigned_values, loads, parameters, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import FUNCTIONS, Function
from pygraph_lint.fixes.tensors import shown_in

CODES = ("PG103",)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)
_BOUNDED = ("clamp", "clip")


def propose(proposal: Proposal) -> None:
    """Return the number itself."""
    proposal.message = "Return the number instead of wrapping it in a tensor"
    call, function = proposal.around(ast.Call), proposal.function
    wrapped = call is not None and proposal.names.callee(call) == "torch.tensor"
    if call is None or not wrapped or function is None:
        raise Declined
    if not isinstance(proposal.parent(call), ast.Return):
        raise Declined
    module = proposal.path[0]
    if not isinstance(function, ast.FunctionDef) or proposal.parent(function) is not module:
        raise Declined("the helper is not a function of the module")
    bare = len(call.args) == 1 and not call.keywords
    proposal.need("value-only", bare, "more than a number is asked for")
    if _returns(function) != 1 or function.returns is not None:
        raise Declined("the helper returns more than once, or is annotated to return a tensor")
    whole = bool(call.args) and _whole(function, call.args[0])
    proposal.need("whole", whole, "the value is not certainly a whole number")
    above = parents(module)
    uses = list(_uses(module, function))
    calls = [above[use] for use in uses if _callee(above, use)]
    called = bool(uses) and len(calls) == len(uses)
    proposal.need("called", called, "the helper is not only called in this file")
    fits = all(_as_number(proposal, item, above) for item in calls)
    proposal.need("number-like", fits, "a result is used where a number is not the same")
    proposal.safe_if(
        "never",
        False,
        "code in other files that calls the helper gets a number, not a tensor, and with another"
        " 0-d tensor a number may promote differently",
    )
    proposal.replace_node(call, proposal.source.segment(call.args[0]))


def _returns(function: Function) -> int:
    return sum(isinstance(node, ast.Return) for node in ast.walk(function))


def _whole(function: Function, node: ast.expr) -> bool:
    """An int certainly: sizes, literals, parameters annotated so, and what they add up to."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Name):
        kinds = {item.arg: item.annotation for item in parameters(function)}
        kind = kinds.get(node.id)
        return (
            isinstance(kind, ast.Name) and kind.id == "int" and len(stores(function, node.id)) == 1
        )
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        fits = isinstance(node.op, (*_ARITHMETIC, ast.FloorDiv))
        return fits and all(_whole(function, side) for side in sides)
    if isinstance(node, ast.Subscript):
        shape = node.value
        single = not isinstance(node.slice, ast.Slice)
        return isinstance(shape, ast.Attribute) and shape.attr == "shape" and single
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr == "size" and len(node.args) == 1
    if not isinstance(node.func, ast.Name) or node.func.id not in ("min", "max", "len"):
        return False
    return node.func.id == "len" or all(_whole(function, item) for item in node.args)


def _uses(module: ast.AST, function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Every place of the file that names the helper, as a name, an attribute or a string."""
    for node in ast.walk(module):
        named = isinstance(node, ast.Name) and node.id == function.name
        reached = isinstance(node, ast.Attribute) and node.attr == function.name
        quoted = isinstance(node, ast.Constant) and node.value == function.name
        if named or reached or quoted:
            yield node


def _callee(above: dict[ast.AST, ast.AST], use: ast.AST) -> bool:
    call = above.get(use)
    return isinstance(use, ast.Name) and isinstance(call, ast.Call) and call.func is use


def _as_number(
    proposal: Proposal, node: ast.AST, above: dict[ast.AST, ast.AST], deep: bool = True
) -> bool:
    """Whether a 0-d tensor may be a number where ``node`` stands: in sums and products, as the
    bound of a slice or of a clamp, or under a local name that is only used so.
    """
    parent = above.get(node)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, _ARITHMETIC):
        return _tensor_beside(proposal, parent, node, above) or _as_number(
            proposal, parent, above, deep
        )
    if isinstance(parent, ast.Slice):
        return True
    if isinstance(parent, ast.Call) and node is not parent.func:
        name = proposal.names.callee(parent) or ast.unparse(parent.func)
        first = bool(parent.args) and parent.args[0] is node and name.startswith("torch.")
        return name.rpartition(".")[2] in _BOUNDED and not first
    if not deep or not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return False
    target, function = parent.targets[0], _function(parent, above)
    if not isinstance(target, ast.Name) or function is None:
        return False
    if len(stores(function, target.id)) != 1:
        return False
    return all(_as_number(proposal, load, above, deep=False) for load in loads(function, target.id))


def _tensor_beside(
    proposal: Proposal, node: ast.BinOp, side: ast.AST, above: dict[ast.AST, ast.AST]
) -> bool:
    """Whether the other side of a sum or product is shown to be a tensor by the code around it."""
    other = node.right if node.left is side else node.left
    while isinstance(other, ast.UnaryOp):
        other = other.operand
    function = _function(node, above)
    if function is None:
        return False
    values = assigned_values(function, other.id) if isinstance(other, ast.Name) else None
    scripted = bool(values) and all(_scripted(proposal, value) for value in values or ())
    return scripted or shown_in(function, ast.unparse(other))


def _scripted(proposal: Proposal, node: ast.expr) -> bool:
    """A call of a TorchScript function of this file that returns one of its tensors: TorchScript
    takes an argument without annotation for a tensor, and returns one type.
    """
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
    for function in ast.walk(proposal.path[0]):
        if not isinstance(function, ast.FunctionDef) or function.name != name:
            continue
        script = [proposal.names.qualified(item) for item in function.decorator_list]
        tensors = {
            item.arg
            for item in parameters(function)
            if item.annotation is None or ast.unparse(item.annotation).endswith("Tensor")
        }
        returned = [item.value for item in ast.walk(function) if isinstance(item, ast.Return)]
        names = {value.id for value in returned if isinstance(value, ast.Name)}
        return script == ["torch.jit.script"] and bool(names & tensors)
    return False


def _function(node: ast.AST, above: dict[ast.AST, ast.AST]) -> Function | None:
    current = above.get(node)
    while current is not None and not isinstance(current, FUNCTIONS):
        current = above.get(current)
    return current
