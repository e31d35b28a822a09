"""Positions that are made on the device, only to be read for the bounds of another range, are a
list of Python numbers.

positions = torch.arange(0, count, device=d) -> positions = list(range(0, count))
torch.arange(positions[0], positions[-1] + 1, device=positions.device) -> device=d

Unsafe: a dtype that rounds large positions no longer does, and methods that other files may call
take a list.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.lists import is_size
from pygraph_lint.fixes.names import own_nodes, parameters, parents, stores
from pygraph_lint.fixes.position_uses import Follower, Uses
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import one_line

CODES = ("PG407",)
_WHOLE = ("torch.int", "torch.int32", "torch.int64", "torch.long")


def propose(proposal: Proposal) -> None:
    """Make the positions in Python, and all that becomes of them."""
    owner = proposal.around(ast.ClassDef)
    finding = next((node for node in reversed(proposal.path) if isinstance(node, ast.Call)), None)
    if owner is None or proposal.names.callee(finding) != "torch.arange":  # type: ignore[arg-type]
        raise Declined("")
    proposal.message = "Keep positions that only bound ranges Python numbers"
    method, seed, uses = _followed(proposal, owner, finding)
    made = _range(seed.value, proposal)
    assert made is not None and isinstance(seed.targets[0], ast.Name)
    bounds = [node for node in uses.bounds if isinstance(node, ast.Call)]
    asked = all(any(item.arg == "dtype" for item in node.keywords) for node in bounds)
    whole = made is seed.value or asked
    proposal.need("dtype", whole, "the range it bounds takes its dtype from them")
    proposal.safe_if("callers", False, "other files may call the methods with tensors")
    proposal.need("list", not proposal.names.taken("list"), "list is another name here")
    written = [*uses.made, *uses.joins]
    nested = any(node in written for item in written for node in ast.walk(item) if node is not item)
    proposal.need("apart", not nested, "what is joined is made in the same expression")
    text = ", ".join(_text(proposal, end) for end in made.args)
    proposal.replace_node(seed.value, f"list(range({text}))")
    for call in uses.made:
        proposal.replace_node(call, proposal.source.segment(call.args[0]))
    for call in uses.joins:
        _join(proposal, call)
    _annotate(proposal, uses)
    _hand_device_on(proposal, method, made, uses)


def _followed(
    proposal: Proposal, owner: ast.ClassDef, finding: ast.AST | None
) -> tuple[ast.FunctionDef, ast.Assign, Uses]:
    """The one range of the class whose positions bound the range that was found."""
    reason = "the bound is not one of the positions of a range"
    for method in owner.body:
        if not isinstance(method, ast.FunctionDef):
            continue
        for node in own_nodes(method):
            if not isinstance(node, ast.Assign) or not _is_seed(proposal, method, node):
                continue
            try:
                uses = Follower(proposal, owner, node).follow(method, ast.unparse(node.targets[0]))
            except Declined as declined:
                reason = str(declined)
                continue
            if finding in uses.bounds:
                return method, node, uses
    raise Declined(reason)


def _is_seed(proposal: Proposal, method: ast.FunctionDef, node: ast.Assign) -> bool:
    """Whether a statement binds one name to a range of Python numbers."""
    made = _range(node.value, proposal)
    single = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    return single and made is not None and all(_is_number(method, end) for end in made.args)


def _range(node: ast.expr, proposal: Proposal) -> ast.Call | None:
    """The call of ``torch.arange`` in ``torch.arange(a, b, device=d)`` or in ``.to(dtype)`` of
    it.
    """
    called = node.func if isinstance(node, ast.Call) and not node.keywords else None
    if isinstance(called, ast.Attribute) and called.attr == "to":
        node = called.value
    if not isinstance(node, ast.Call) or proposal.names.callee(node) != "torch.arange":
        return None
    allowed = all(
        item.arg == "device"
        or (item.arg == "dtype" and proposal.names.qualified(item.value) in _WHOLE)
        for item in node.keywords
    )
    return node if allowed and 1 <= len(node.args) <= 2 else None


def _is_number(method: ast.FunctionDef, node: ast.expr) -> bool:
    """Whether the end of a range is a whole number: a size, or a parameter that is said to be
    one.
    """
    for item in parameters(method):
        if isinstance(node, ast.Name) and item.arg == node.id and len(stores(method, node.id)) == 1:
            return item.annotation is not None and ast.unparse(item.annotation) == "int"
    return is_size(method, node)


def _join(proposal: Proposal, call: ast.Call) -> None:
    """``one + other`` for ``torch.cat([one, other])``."""
    parts = call.args[0]
    assert isinstance(parts, (ast.List, ast.Tuple))
    texts = [
        f"({_text(proposal, part)})" if isinstance(part, ast.IfExp) else _text(proposal, part)
        for part in parts.elts
    ]
    text = " + ".join(texts)
    above = parents(proposal.source.tree).get(call)
    plain = isinstance(above, (ast.Assign, ast.Return)) or len(texts) == 1
    proposal.replace_node(call, text if plain else f"({text})")


def _text(proposal: Proposal, node: ast.expr) -> str:
    return one_line(proposal.source.segment(node))


def _annotate(proposal: Proposal, uses: Uses) -> None:
    """Say of the parameters that held tensors that they hold lists."""
    for place in uses.places:
        for item in parameters(place.method):
            if item.arg == place.name and item.annotation is not None:
                said = ast.unparse(item.annotation)
                if "Tensor" in said:
                    optional = " | None" if "None" in said or "Optional" in said else ""
                    proposal.replace_node(item.annotation, f"list[int]{optional}")


def _hand_device_on(
    proposal: Proposal, method: ast.FunctionDef, made: ast.Call, uses: Uses
) -> None:
    """Name the device where the positions were asked for it; other methods are given it."""
    device = {item.arg: item.value for item in made.keywords}.get("device")
    root = device
    while isinstance(root, ast.Attribute):
        root = root.value
    steady = isinstance(root, ast.Name) and len(stores(method, root.id)) == 1
    proposal.need("steady", steady or not uses.devices, "the device is not a name that stays")
    text = "" if device is None else _text(proposal, device)
    asking = list({id(item): item for item, _ in uses.devices if item is not method}.values())
    for place, read in uses.devices:
        proposal.replace_node(read, text if place is method else "device")
    for called in asking:
        given = called.args
        room = not (given.vararg or given.kwarg or given.kwonlyargs or stores(called, "device"))
        proposal.need("room", room, "the method cannot be given a device")
        last = given.defaults[-1] if given.defaults else given.args[-1]
        end = proposal.source.span(last)[1]
        proposal.replace(end, end, ", device=None")
        for target, call in uses.calls:
            if target is called:
                inside = call in [*own_nodes(method)]
                proposal.need("known-device", inside, "the device is not known where it is called")
                end = proposal.source.span((call.keywords or call.args)[-1])[1]
                proposal.replace(end, end, f", device={text}")
