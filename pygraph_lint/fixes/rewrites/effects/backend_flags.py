"""Flags of a backend are only set outside compiled code.

with torch.backends.cudnn.flags(enabled=False): -> with contextlib.nullcontext() if
torch.compiler.is_compiling() else torch.backends.cudnn.flags(enabled=False):

Always unsafe: compiled code runs with the flags it finds.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.engine.build import expression
from pygraph_lint.fixes.engine.imports import use_module, use_torch
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site


class BackendFlags(Rewrite):
    """PG519: a backend's flags set in a with statement."""

    codes = ("PG519",)
    message = "Set the backend's flags only when not compiling"
    order = 66

    def rewrite(self, site: Site) -> None:
        call = site.around(ast.Call)
        name = site.ask.callee(call) if call is not None else None
        if call is None or name is None or not name.startswith("torch.backends."):
            raise Declined("only a backend's flags can be left as they are")
        unnamed = all(
            item.optional_vars is None
            for item in getattr(site.statement, "items", [])
            if item.context_expr is call
        )
        site.require("unnamed", unnamed, "what the context manager gives is used")
        site.safe_only_if("flags", False, "compiled code runs with the flags it finds")
        empty = f"{use_module(site, 'contextlib')}.nullcontext()"
        asked = f"{use_torch(site)}.compiler.is_compiling()"
        flags = site.expression_node(call)
        site.put(call, expression(f"{empty} if {asked} else {{flags}}", flags=flags))
