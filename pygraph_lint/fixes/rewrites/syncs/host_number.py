"""Work a product out in Python instead of numpy, which torch.compile does not trace into a number.

    int(np.prod(x.shape))      ->  int(x.numel())
    int(np.prod(x.shape[1:]))  ->  int(x.shape[1:].numel())

Safe: of no sizes numpy gives 1.0, which ``int`` makes to 1, and ``numel`` wraps as numpy does.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.syntax.nodes import receiver
from pygraph_lint.fixes.engine.build import expression, operand
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site


class HostNumber(Rewrite):
    """PG520: a product of a tensor's sizes that goes through ``int`` at once."""

    codes = ("PG520",)
    message = "Work the number out in Python"
    order = 63

    def rewrite(self, site: Site) -> None:
        call = site.path[-1]
        if not isinstance(call, ast.Call):
            raise Declined()
        product = site.ask.callee(call) == "numpy.prod"
        plain = product and len(call.args) == 1 and not call.keywords
        site.require("plain", plain, "numpy is asked for more than the one number")
        numbers, parent = call.args[0], site.ask.parent(call)
        part = isinstance(numbers, ast.Subscript) and isinstance(numbers.slice, ast.Slice)
        tensor = _of_shape(numbers.value if part else numbers)  # type: ignore[attr-defined]
        sizes = tensor is not None and site.proven_tensor(tensor)
        site.require("numbers", sizes, "it is not proven to be a tensor's sizes")
        converted = isinstance(parent, ast.Call) and site.ask.callee(parent) == "builtins.int"
        site.require("converted", converted, "what numpy gives is asked for more than a number has")
        made = numbers if part or tensor is None else tensor
        site.put(call, expression("{it}.numel()", it=operand(site.expression_node(made))))


def _of_shape(node: ast.expr) -> ast.expr | None:
    """``x`` of ``x.shape`` or ``x.size()``."""
    if isinstance(node, ast.Call):
        return receiver(node, ("size",)) if not node.args and not node.keywords else None
    return node.value if isinstance(node, ast.Attribute) and node.attr == "shape" else None
