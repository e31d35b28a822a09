"""A function that is left out of compiled code as a whole, by ``@torch.compiler.disable``.

The decorator puts a wrapper in the function's place, which ``inspect.getfullargspec``, ``__code__``
and frames show.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache

from pygraph_lint.analysis.control_flow.reaching_definitions import FileDefinitions
from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine.imports import imported_above, use_torch
from pygraph_lint.fixes.engine.names import own_nodes
from pygraph_lint.fixes.engine.site import Declined, Site
from pygraph_lint.fixes.shared.call_chains import calls_of
from pygraph_lint.fixes.shared.guards import says


def plain_function(site: Site) -> tuple[ast.FunctionDef, ast.AST]:
    """The function around the finding, which is made once, and the class or module around it."""
    function = site.function
    around = site.ask.parent(function) if function is not None else None
    if not isinstance(function, ast.FunctionDef) or around is None:
        raise Declined("not inside a plain function")
    site.expect_compiler()
    outer = around if isinstance(around, ast.Module) else site.ask.parent(around)
    named = isinstance(around, (ast.Module, ast.ClassDef)) and isinstance(outer, ast.Module)
    site.require("named", named, "the function is made anew in each call")
    return function, around


def disable(site: Site, function: ast.FunctionDef, only_itself: bool = False) -> None:
    """Decorate a function. What it warns of or logs would name the decorator's line.
    ``only_itself``: what it calls is still compiled.
    """
    torch = use_torch(site)
    above = imported_above(site, torch, function)
    site.require("torch-first", above, "torch is imported below the function")
    silent = not any(
        isinstance(node, ast.stmt) and says(site, node, False) for node in own_nodes(function)
    )
    site.safe_only_if(
        "silent",
        silent,
        "warnings and log records name the decorator's line instead of the caller's",
    )
    stay_unseen(site)
    site.safe_only_if(
        "decorators", _from_here(site, function), "a decorator may look at the function's code"
    )
    own = (function.name, f"self.{function.name}")
    again = any(isinstance(each, ast.expr) and dotted(each) in own for each in own_nodes(function))
    site.safe_only_if("deep", not again, "a function that calls itself needs deeper stacks")
    source, number = site.source, function.lineno
    start, line = source.line_start(number), source.line(number)
    given = "(recursive=False)" if only_itself else ""
    decorator = f"{source.indent(function)}@{torch}.compiler.disable{given}{source.newline}"
    site.replace(start, start + len(line), decorator + line)
    disable_wrappers(site, function)


def disable_wrappers(site: Site, function: ast.FunctionDef) -> None:
    """Leave out what decorators put around a function, too: where the graph ends in the function,
    it would end in each of them.
    """
    source = site.source
    for each in wrappers(site, function):
        text = f"{source.indent(function)}@{use_torch(site)}.compiler.disable(recursive=False)"
        start = source.line_start(each.lineno)
        site.replace(start, start, f"{text}{source.newline}")


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


def leave_out(site: Site, nodes: Iterable[ast.AST], known: bool = True) -> None:
    """State when it is safe to leave code out of compiled code. ``nodes`` are all of it that stand
    in the file, ``known`` says that it calls nothing of other files.
    """
    view = site.finding.view
    site.safe_only_if(
        "seen",
        view.closed and not view.traced_whole,
        "torch.export and torch.jit.script do not see into it",
    )
    may_ask = "compiling" in site.source.text or "exporting" in site.source.text
    asks = may_ask and any(_COMPILING.fullmatch(_name(node) or "") for node in nodes)
    site.safe_only_if("asks", known and not asks, "it may ask whether it is compiled")


def stay_unseen(site: Site) -> None:
    """State that nobody looks at functions or frames."""
    closed = site.finding.view.closed and not _is_inspected(site.ask.definitions)
    reason = "inspect, stack frames and warnings see the decorator's wrapper"
    site.safe_only_if("inspected", closed, reason)


def _from_here(site: Site, function: ast.FunctionDef) -> bool:
    """Whether all that decorates a function comes from Python, torch, or the same package."""
    defined = (getattr(each, "name", "") for each in site.source.tree.body)
    known = {*_OF_PYTHON, "torch", site.finding.view.module.partition(".")[0], *defined}
    names = (site.ask.decorator(each) or ast.unparse(each) for each in function.decorator_list)
    return all(re.split(r"\W", name)[0] in known for name in names)


_OF_PYTHON = ("functools", "contextlib", "abc", "staticmethod", "classmethod", "property")


@lru_cache(maxsize=1)
def _is_inspected(file: FileDefinitions) -> bool:
    """Whether code of a file looks at functions or at frames."""
    return any(
        _name(node) in _INSPECTING or getattr(node, "module", "") in ("inspect", "traceback")
        for node in file.nodes
    )


def is_called(site: Site, function: ast.FunctionDef, here: bool = False) -> bool:
    """Whether other code of a region leads here: a call path, or a call in this file or another. A
    name that begins with `_` is not for users, so some file calls it, and nobody compiles a
    constructor. ``here``: whether it is more than what only other files call, which their users
    may compile by itself.
    """
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


def passed_to(site: Site, function: ast.FunctionDef) -> frozenset[str]:
    """The parameters with a default that most calls of a function pass."""
    name, called = _qualified(site, function), site.finding.view.called
    return frozenset(it.arg for it in parameters(function) if f"{name}({it.arg})" in called)


def _qualified(site: Site, function: ast.FunctionDef) -> str:
    owner = site.ask.parent(function)
    parts = (site.finding.view.module, getattr(owner, "name", ""), function.name)
    return ".".join(filter(None, parts))


_INSPECTING = frozenset(
    (
        *("inspect", "stacklevel", "_getframe", "currentframe", "f_back", "__wrapped__"),
        *("__code__", "__defaults__", "__kwdefaults__", "__globals__", "traceback"),
        "save_hyperparameters",  # of Lightning: looks at the frames of constructors
    )
)


_COMPILING = re.compile(r"is_(torch)?(dynamo)?_?(compiling|exporting)")


def _name(node: ast.AST) -> str | None:
    return getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None)
