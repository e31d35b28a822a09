"""A function that only reads numbers or indices off tensors is left out of compiled code.

    def index_of(self, step):             @torch.compiler.disable
        found = (self.steps == step)  ->  def index_of(self, step):
        return found.nonzero()[0].item()      ...

A method that keeps what it read as an attribute, ``self.step = found[0].item()``, is one, too.
So is one that works out positions from sizes that it reads: ``cu_seqlens`` from ``grid_thw``, say.
Each read ends the graph in the function, and again in each function that it is traced into; now
there is one break, where the function is called. Unsafe: an export does not see into it.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.queries.interface import Known, Type
from pygraph_lint.analysis.queries.side_effects import NONE
from pygraph_lint.analysis.syntax.nodes import dotted, method_name
from pygraph_lint.fixes.breaking_places import breaking_places, in_avoided_arm
from pygraph_lint.fixes.decorated import disable, is_called, leave_out, passed_to, plain_function
from pygraph_lint.fixes.indices import makes_positions
from pygraph_lint.fixes.names import own_nodes
from pygraph_lint.fixes.passing_on import passing_on
from pygraph_lint.fixes.site import Rewrite, Site

_READ = frozenset(("item", "tolist"))
_MADE = frozenset(("int", "float", "bool", "len"))
_INDICES = frozenset(("nonzero", "argwhere", "unique", "bincount", "unique_consecutive"))


class ReadingFunction(Rewrite):
    """Any rule of a value that is read, in a function that gives or keeps only what it read."""

    codes = (
        *("PG201", "PG202", "PG203", "PG206", "PG207"),
        *("PG301", "PG401", "PG402", "PG403", "PG404", "PG407"),
    )
    message = "Decorate the function that reads the value with `@torch.compiler.disable`"
    order = 95
    trusting = True

    def rewrite(self, site: Site) -> None:
        function, _ = plain_function(site)
        site.require("helper", is_called(site, function), "")
        site.require("bare", not function.decorator_list, "the function has decorators")
        nodes = own_nodes(function)
        read = _results(nodes)
        numbers = bool(read) and all(_is_read(site, each) for each in read)
        positions = not numbers and makes_positions(site, function)
        site.require("only-reads", numbers or positions, "")
        places = breaking_places(site, function, self.codes)
        given = passed_to(site, function, optional=True)
        site.require(
            "always-reads",
            not all(in_avoided_arm(path, places, given, by_callers=True) for path in places),
            "",
        )
        local = {node.id for node in nodes if isinstance(node, ast.Name)}
        found = NONE
        for statement in function.body:
            found = found | site.ask.effects(statement)
        own = local | {place for node in nodes if (place := _kept(node))}
        clean = not (found.unknown or found.draws or found.mutates) and found.rebinds <= own
        site.require("pure", clean or positions, "the function does more than read")
        leave_out(site, site.ask.nodes)
        disable(site, function)
        for caller in passing_on(site, function):
            disable(site, caller, only_itself=True)


def _results(nodes: tuple[ast.AST, ...]) -> list[ast.expr]:
    """What a function returns, and what it sets attributes of ``self`` to."""
    returned = [node.value for node in nodes if isinstance(node, ast.Return)]
    kept = [node.value for node in nodes if isinstance(node, ast.Assign) and _kept(node)]
    return [each for each in (*returned, *kept) if each is not None]


def _kept(node: ast.AST) -> str:
    """The attribute of ``self`` that an assignment sets; empty for other nodes."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    name = (dotted(target) or "") if isinstance(target, ast.Attribute) else ""
    return name if name.startswith("self.") and name.count(".") == 1 else ""


def _is_read(site: Site, node: ast.expr) -> bool:
    """Whether an expression is a number that was read, or indices that were looked for."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_is_read(site, each) for each in node.elts)
    if isinstance(node, ast.IfExp):
        return _is_read(site, node.body) and _is_read(site, node.orelse)
    if isinstance(node, ast.Name):
        values = site.ask.values(node)
        if values is not None and all(_is_read(site, each) for each in values):
            return True
    if isinstance(node, ast.Call):
        name = site.ask.callee(node)
        last = (name or (dotted(node.func) or f".{method_name(node)}")).rpartition(".")[2]
        if (name is None and last in _READ) or (name == f"builtins.{last}" and last in _MADE):
            return True
        torch = name is None or name.startswith("torch.")
        if torch and (last in _INDICES or (last == "where" and len(node.args) == 1)):
            return True
    return _is_plain(site.ask.known(node))


def _is_plain(known: Known) -> bool:
    number = known.must_be(Type.NUMBER | Type.NONE | Type.TEXT)
    return number or (known.must_be(Type.TENSOR) and known.dtype == "int")
