"""A tensor that a module keeps as a plain attribute becomes a buffer that is not saved.

self.mask = torch.tril(torch.ones(n, n)) -> self.register_buffer("mask", torch.tril(torch.ones(n,
n)), persistent=False)

Unsafe: a buffer moves with its module and, if floating-point, takes its dtype.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.constant_buffer import constructor_of, is_module, super_call
from pygraph_lint.fixes.names import all_nodes
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.tensors import visibly_tensor

CODES = ("PG105", "PG106")


def propose(proposal: Proposal) -> None:
    """Register it where it is set."""
    name = _attribute(proposal)
    owner, constructor = constructor_of(proposal)
    proposal.message = "Keep the tensor in a buffer, which moves with the module"
    made = _set_once(owner, constructor, name)
    proposal.need("module", is_module(proposal, owner), "the class is not certainly a module")
    ready = super_call(constructor).lineno < made.lineno
    proposal.need("ready", ready, "it is set before the module is made")
    proposal.need("tensor", _plain_tensor(proposal, made.value), "it may be something else")
    proposal.need("alone", proposal.source.alone(made), "the line holds more than this statement")
    proposal.safe_if(
        "follows",
        False,
        "a buffer is on the module's device, and in its dtype if floating-point; what sets the "
        "attribute from elsewhere has to give it a tensor",
    )
    source = proposal.source
    text = source.segment(made.value)
    quoted = f"{source.quote}{name}{source.quote}"
    proposal.replace_node(made, f"self.register_buffer({quoted}, {text}, persistent=False)")


def _attribute(proposal: Proposal) -> str:
    """The attribute that the finding reads, or moves."""
    node: ast.expr | None = proposal.around(ast.Attribute)
    if proposal.finding.code == "PG106":
        call = proposal.around(ast.Call)
        function = call.func if call is not None else None
        moves = isinstance(function, ast.Attribute) and function.attr in ("to", "cuda")
        node = function.value if moves and isinstance(function, ast.Attribute) else None
    if not isinstance(node, ast.Attribute):
        raise Declined
    if not isinstance(node.value, ast.Name) or node.value.id != "self":
        raise Declined
    return node.attr


def _set_once(owner: ast.ClassDef, constructor: ast.FunctionDef, name: str) -> ast.Assign:
    """The only statement of the class that sets ``self.name``, directly in its constructor."""
    found = [
        node
        for node in all_nodes(owner)
        if isinstance(node, ast.Attribute)
        and node.attr == name
        and not isinstance(node.ctx, ast.Load)
    ]
    for statement in constructor.body:
        if isinstance(statement, ast.Assign) and statement.targets == found:
            return statement
    raise Declined("it is not set once, in the constructor")


def _plain_tensor(proposal: Proposal, value: ast.expr) -> bool:
    """Whether a value is a tensor, and neither a parameter nor one that gradients go to."""
    named = [
        proposal.names.callee(node) or "" for node in ast.walk(value) if isinstance(node, ast.Call)
    ]
    keywords = [node.arg for node in ast.walk(value) if isinstance(node, ast.keyword)]
    apart = any(name.startswith("torch.nn.") for name in named) or "requires_grad" in keywords
    return visibly_tensor(proposal, value, set()) and not apart
