"""Copy a batch to the device without waiting, from memory that the data loader pins.

    x = x.to(device)        ->  x = x.to(device, non_blocking=True)
    DataLoader(data, 32)    ->  DataLoader(data, 32, pin_memory=True)

Always unsafe: nobody may write to the batch before it is copied, only tensors of the host can be
pinned, pinned memory is not swapped, and where the device is the host, nothing waits for the copy.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import dotted, keyword, method_name
from pygraph_lint.fixes.engine.build import expression, starred, with_keyword
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site


class LoopCopy(Rewrite):
    """PG704: ``t.to(device)``, ``t.cuda()``, and the data loader whose batches are not pinned."""

    codes = ("PG704",)
    message = "Copy with `non_blocking=True`, which does not wait if the batch is pinned"
    kinds = (ast.Call,)

    def rewrite(self, site: Site) -> None:
        call = site.tree
        assert isinstance(call, ast.Call)
        loader, method = (dotted(call.func) or "").endswith("DataLoader"), method_name(call)
        name = "pin_memory" if loader else "non_blocking"
        moved = method in ("to", "cuda") and site.ask.callee(call) is None and len(call.args) <= 1
        if not loader and not moved:
            raise Declined
        spread = starred(call) or any(isinstance(each, ast.Starred) for each in call.args)
        site.require("written", not spread, "arguments come from elsewhere")
        given = keyword(call, name)
        off = given is None or (isinstance(given, ast.Constant) and not given.value)
        site.require("given", off, f"{name} is decided elsewhere")
        sure = method not in site.finding.view.waiting or site.proven_tensor(call.func.value)  # type: ignore[attr-defined]
        site.require("own-method", sure, f"a class of the project has a .{method}() of its own")
        reason = (
            "the batches have to be on the host, and take memory that is not swapped"
            if loader
            else "what writes to the batch while it is being copied changes what arrives, and what"
            " is copied from a GPU to the host may be read before it has arrived"
        )
        site.safe_only_if("stays", False, reason)
        if loader:
            site.message = "Have the loader put its batches into pinned memory: `pin_memory=True`"
        node = cst.ensure_type(site.expression_node(call), cst.Call)
        site.put(call, with_keyword(node, name, expression("True")))
