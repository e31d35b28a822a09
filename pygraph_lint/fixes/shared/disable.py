"""A function that is left out of compiled code as a whole, by ``@torch.compiler.disable``."""

from __future__ import annotations

import ast
import re

from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.domain.region import RegionKind
from pygraph_lint.analysis.syntax.nodes import last_part
from pygraph_lint.fixes.engine.imports import imported_above, use_torch
from pygraph_lint.fixes.engine.names import stores
from pygraph_lint.fixes.engine.site import Declined, Site
from pygraph_lint.fixes.shared.call_chains import calls_of


def plain_function(site: Site) -> tuple[ast.FunctionDef, ast.AST]:
    """The function around the finding, which is made once, and the class or module around it."""
    function = site.function
    around = site.ask.parent(function) if function is not None else None
    if not isinstance(function, ast.FunctionDef) or around is None:
        raise Declined("it is not inside a plain function")
    site.expect_compiler()
    outer = around if isinstance(around, ast.Module) else site.ask.parent(around)
    named = isinstance(around, (ast.Module, ast.ClassDef)) and isinstance(outer, ast.Module)
    site.require("named", named, "the function is made anew in each call")
    return function, around


def disable(site: Site, function: ast.FunctionDef, only_itself: bool = False) -> None:
    """Decorate a function. ``only_itself``: what it calls is still compiled."""
    _decorate(site, function, function.lineno, "(recursive=False)" if only_itself else "")
    disable_wrappers(site, function)


def _decorate(site: Site, function: ast.FunctionDef, number: int, given: str) -> None:
    """Note a decorator above a line, and above what comments there tell tools about the line."""
    source, torch, first = site.source, _torch_above(site, function), number
    indent = source.indent(function)
    for above in range(number - 1, 0, -1):
        line = source.line(above)
        if not line.startswith(f"{indent}#") or above in source.rows_of_strings:
            break
        first = above if _DIRECTIVE.match(line.lstrip()) else first
    start = source.line_start(first)
    site.replace(start, start, f"{indent}@{torch}.compiler.disable{given}{source.newline}")


_DIRECTIVE = re.compile(r"#\s*(pyre-|noqa\b|(pyright|pylint|type|mypy):)")


def _torch_above(site: Site, function: ast.FunctionDef) -> str:
    """How torch is written where a function is decorated."""
    torch, owner = use_torch(site), site.ask.parent(function)
    above = imported_above(site, torch, function)
    above = above and not (isinstance(owner, ast.ClassDef) and stores(owner, torch))
    site.require("torch-first", above, "torch is imported below the function")
    return torch


def leave_out(site: Site) -> None:
    """State that it is not safe to leave a function out of compiled code."""
    site.safe_only_if("left-out", False, _LEFT_OUT)


_LEFT_OUT = (
    "the function is no longer compiled: it gives what eager code gives, torch.export and torch.jit"
    " do not see into it, and a warning with `stacklevel` may name another line"
)


def disable_wrappers(site: Site, function: ast.FunctionDef) -> None:
    """Leave out what decorators put around a function, too: where the graph ends in the function,
    it would end in each of them.
    """
    for each in wrappers(site, function):
        _decorate(site, function, each.lineno, "(recursive=False)")


def wrappers(site: Site, function: ast.FunctionDef) -> list[ast.expr]:
    """The decorators that put a function of their own around one, which is not left out yet."""
    listed, own = function.decorator_list, decorators(site, function)
    above = [None, *listed]
    found = zip(above, listed, strict=False)
    return [each for before, each in found if _wraps(site, each) and before in (None, *own)]


def decorators(site: Site, function: ast.FunctionDef) -> list[ast.expr]:
    """What decorates a function, but for what only leaves out what another one puts around it."""
    listed = function.decorator_list
    below = [*listed, None][1:]
    return [
        each
        for each, after in zip(listed, below, strict=True)
        if after is None or not _wraps(site, after) or site.ask.decorator(each) != _DISABLE
    ]


def _wraps(site: Site, decorator: ast.expr) -> bool:
    return site.ask.decorator(decorator) in site.finding.view.wrapping


_DISABLE = "torch.compiler.disable"


def is_called(site: Site, function: ast.FunctionDef, here: bool = False) -> bool:
    """Whether other code of a region leads here: a call path, or a call in this file or another. A
    name that begins with `_` is not for users, so some file calls it, and nobody compiles a
    constructor. ``here``: whether it is more than what only other files call, which their users
    may compile by itself. What is given to torch.compile is none.
    """
    if _is_compiled(site, function):
        return False
    if re.match(r"_(?!_)|__init__$", function.name):
        return True
    owner = site.ask.parent(function)
    layer = isinstance(owner, ast.ClassDef) and function.name == "forward"
    calls = site.ask.definitions.calls.get(function.name, ())
    scopes = map(site.ask.scope, calls_of(site, function) if layer else calls)
    if any(each is not function and not isinstance(each, ast.Module) for each in scopes):
        return True
    if here or _qualified(site, function) in site.finding.view.called:
        return not here
    region = site.finding.region
    steps = region.call_path[1:] if region is not None else ()
    before = rf"{getattr(owner, 'name', '')}\." if layer else r"(\S+\.)?"
    named = re.compile(rf"calls {before}{re.escape(function.name)}(, |$)")
    return bool(steps) and (function is site.function or any(map(named.search, steps)))


def _is_compiled(site: Site, function: ast.FunctionDef) -> bool:
    """Whether torch.compile is given the function itself: ``torch.compile(self._loss)``."""
    region = site.finding.region
    root = region is not None and region.kind is RegionKind.COMPILED and len(region.call_path) == 1
    given = (
        each.args[0]
        for each in site.ask.of_kind(ast.Call)
        if each.args and site.ask.callee(each) == "torch.compile"
    )
    return (root and function is site.function) or any(
        last_part(each) == function.name for each in given
    )


def passed_to(site: Site, function: ast.FunctionDef) -> frozenset[str]:
    """The parameters with a default that most calls of a function pass."""
    name, called = _qualified(site, function), site.finding.view.called
    return frozenset(it.arg for it in parameters(function) if f"{name}({it.arg})" in called)


def _qualified(site: Site, function: ast.FunctionDef) -> str:
    owner = site.ask.parent(function)
    parts = (site.finding.view.module, getattr(owner, "name", ""), function.name)
    return ".".join(filter(None, parts))
