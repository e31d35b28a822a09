"""Read what each layer would read once, before the loop over the layers, and hand it on.

    for layer in self.layers:               lengths = ends.diff().tolist()
        x = layer(x, ends)              ->  for layer in self.layers:
                                                x = layer(x, ends, lengths=lengths)

A layer reads ``ends.diff().tolist()`` only where it was not given the list. Every method between
the loop and the read gets a parameter more. Always unsafe: it is read where no layer needs it, too.
"""

from __future__ import annotations

import ast
import re

from pygraph_lint.analysis.syntax.nodes import method_name
from pygraph_lint.fixes.engine.names import all_nodes, changed_in_place, stores
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.breaking_places import in_avoided_arm
from pygraph_lint.fixes.shared.call_chains import Chain, add_argument, add_parameter, chains_to

_PARAMETER = "\0"
# What raises for an empty tensor, or for one of several elements.
_RAISING = re.compile(r"\.(item|(arg|a)?(max|min)|median|mode|kthvalue)\(")


class CarriedRead(Rewrite):
    """PG201, PG203: a read in a method of a layer that depends on one parameter alone."""

    codes = ("PG201", "PG203")
    message = "Read the value once, in front of the loop over the layers"
    order = 16

    def rewrite(self, site: Site) -> None:
        read, function = site.path[-1], site.function
        if not isinstance(read, ast.Call) or not isinstance(function, ast.FunctionDef):
            raise Declined
        owner, given = site.ask.parent(function), isinstance(site.ask.parent(read), ast.IfExp)
        if not isinstance(owner, ast.ClassDef) or given or not _is_read(read):
            raise Declined
        found: set[str] = set()
        text = _spelled(site, read, found)
        if text is None or len(found) != 1:
            raise Declined
        (parameter,) = found
        chains = chains_to(site, owner, function, parameter)
        site.require("loop", bool(chains) and not function.decorator_list, "")
        target = getattr(site.ask.statement(read), "targets", [None])[0]
        kept = not isinstance(target, ast.Name) or not changed_in_place(function, target.id)
        pure = site.ask.is_pure(read) and kept
        site.require("pure", pure, "the value that is read may be changed")
        functions = {each for chain in chains for each in (*chain.functions, chain.top, function)}
        names = {name for chain in chains for name in chain.sources} | {parameter}
        same = not any(changed_in_place(each, name) for each in functions for name in names)
        site.require("same", same, "what is read may be changed between two layers")
        path = site.path[site.path.index(function) :]
        avoided = in_avoided_arm(path, [], by_callers=True)
        may_raise = avoided and _RAISING.search(text) is not None
        site.require("raises", not may_raise, "the read may raise where no layer needs it")
        reason = "it is read in any case, and other layers in their place must take the argument"
        site.safe_only_if("once", False, reason)
        site.remains = True
        name = _free(site, f"{parameter}_read")
        _use(site, read, function, name, chains)
        for each in {chain.loop: chain for chain in chains}.values():
            _put(site, each, text, name)


def _free(site: Site, base: str) -> str:
    """A name that nothing in the file has."""
    used = {getattr(node, "id", None) or getattr(node, "arg", None) for node in site.ask.nodes}
    names = (base, *(f"{base}_{number}" for number in range(2, 99)))
    return next(each for each in names if each not in used)


def _use(site: Site, read: ast.Call, last: ast.FunctionDef, name: str, chains: list[Chain]) -> None:
    """Pass what was read down to where it is needed, and take it there."""
    kept = f"{site.source.segment(read)} if {name} is None else {name}"
    alone = getattr(site.ask.statement(read), "value", None) is read
    site.replace_node(read, kept if alone else f"({kept})")
    for function in dict.fromkeys([last, *(each for it in chains for each in it.functions)]):
        add_parameter(site, function, name)
    for call in dict.fromkeys(each for chain in chains for each in chain.calls):
        add_argument(site, call, name)


def _put(site: Site, chain: Chain, text: str, name: str) -> None:
    """Read before a loop; where the loop chooses, take there what belongs to the choice."""
    source = site.source
    names = dict.fromkeys(chain.sources, name)
    if chain.chosen:
        names = {each: _free(site, f"{each}_values") for each in chain.sources}
    for each, kept in names.items():
        value = text.replace(_PARAMETER, each)
        value = f"None if {each} is None else {value}" if chain.may_be_none else value
        place = _place(site, chain.loop, each)
        line = f"{source.indent(chain.loop)}{kept} = {value}{source.newline}"
        site.replace(place, place, line)
        site.adds = (*site.adds, site.finding.code)
    for statement in chain.chosen:
        assert isinstance(statement.value, ast.Name)
        end, new = source.span(statement)[1], f"{name} = {names[statement.value.id]}"
        site.replace(end, end, f"{source.newline}{source.indent(statement)}{new}")


def _place(site: Site, loop: ast.For, name: str) -> int:
    """The offset of the line behind the statement that gives a name the value it has at a loop, if
    that is in the loop's block; else of the loop.
    """
    body = getattr(site.ask.parent(loop), "body", [])
    before = body[: body.index(loop)] if loop in body else []
    bound = {site.ask.statement(each) for each in stores(site.ask.scope(loop), name)}
    binding = [each for each in before if not bound.isdisjoint(all_nodes(each))]
    alone = binding and site.source.alone(binding[-1])
    return site.source.line_start(binding[-1].end_lineno + 1 if alone else loop.lineno)


def _is_read(call: ast.Call) -> bool:
    return method_name(call) in ("tolist", "item") and not call.args and not call.keywords


def _spelled(site: Site, node: ast.expr, found: set[str]) -> str | None:
    """An expression with its local names written out, and the place of the parameter marked, which
    is added to ``found``; None where it depends on something else.
    """
    text, start = site.source.segment(node), site.source.span(node)[0]
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    if "\n" in text or any(isinstance(each, ast.Lambda) for each in ast.walk(node)):
        return None
    for name in sorted(names, key=lambda each: -site.source.span(each)[0]):
        definition = site.ask.only_definition(name)
        if definition is None or (site.ask.qualified(name) or "").startswith("torch"):
            new = None if site.ask.qualified(name) is None else name.id
        elif isinstance(definition.node, ast.arg):
            found.add(name.id)
            new = _PARAMETER
        else:
            value = definition.value
            same = value is not None and site.ask.same_value(value, name)
            inner = _spelled(site, value, found) if value is not None and same else None
            new = f"({inner})" if inner is not None else None
        if new is None:
            return None
        low, high = site.source.span(name)
        text = f"{text[: low - start]}{new}{text[high - start :]}"
    return text
