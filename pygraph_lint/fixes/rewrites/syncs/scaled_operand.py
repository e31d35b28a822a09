"""A factor that is read from a tensor scales an operand instead.

    torch.add(x, y, alpha=t)         ->  torch.add(x, y * t)
    torch.addcmul(x, y, z, value=t)  ->  torch.addcmul(x, y * t, z)

Always unsafe: the product is rounded before it is added.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.fixes.engine.build import operand
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site

# Function -> the keyword of the number that its second operand is multiplied by.
_FACTORS = {
    **dict.fromkeys(("add", "sub", "subtract"), "alpha"),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), "alpha"),
    **dict.fromkeys(("addcmul", "addcdiv"), "value"),
}


class ScaledOperand(Rewrite):
    """PG202: ``alpha=`` or ``value=`` of a tensor."""

    codes = ("PG202",)
    message = "Multiply an operand by the tensor"
    kinds = (ast.Call,)
    order = 51

    def rewrite(self, site: Site) -> None:
        call = site.tree
        assert isinstance(call, ast.Call)
        name = site.ask.callee(call)
        last = (name or str(getattr(call.func, "attr", ""))).rpartition(".")[2]
        method = name is None and isinstance(call.func, ast.Attribute)
        keyword = _FACTORS.get(last.removesuffix("_"))
        factors = [item.value for item in call.keywords if item.arg == keyword]
        if not factors or not (method or name == f"torch.{last}"):
            raise Declined()
        place = 0 if method else 1
        scaled = call.args[place] if len(call.args) > place else None
        if scaled is None or any(isinstance(each, ast.Starred) for each in call.args):
            raise Declined("the operand is not given by its place")
        pure = site.ask.is_pure(factors[0])
        site.require("pure", pure, "the factor is computed by what may have an effect")
        others = [item for item in call.keywords if item.arg not in (keyword, "out")]
        plain = not others
        site.require("plain", plain, "the call is given more than tensors and the factor")
        site.safe_only_if("rounding", False, "the product is rounded before it is added")
        node = cst.ensure_type(site.expression_node(call), cst.Call)
        left, right = (operand(site.expression_node(each)) for each in (scaled, factors[0]))
        product = cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right)
        site.put(call, _with_product(node, place, product, keyword or ""))


def _with_product(
    call: cst.Call, place: int, product: cst.BaseExpression, keyword: str
) -> cst.Call:
    """The call with the product at its place, and without the keyword."""
    kept = []
    for number, each in enumerate(call.args):
        if each.keyword is not None and each.keyword.value == keyword:
            continue
        kept.append(each.with_changes(value=product) if number == place else each)
    last = call.args[-1]
    kept[-1] = kept[-1].with_changes(
        comma=last.comma, whitespace_after_arg=last.whitespace_after_arg
    )
    return call.with_changes(args=kept)
