"""Sizes that every layer copies to the host are copied once, where the layers are called.

for layer in self.layers:                   sizes_list = (ends[1:] - ends[:-1]).tolist()
    x = layer(x, ends=ends)          ->     for layer in self.layers:
                                                x = layer(x, ends=ends, sizes_list=sizes_list)

What the layer is made of may be two modules of the file, the outer one passing its keywords on.
The inner one still copies where it is given none. Unsafe: a layer may not need the sizes.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.flow import binds
from pygraph_lint.fixes.names import (
    Names,
    all_nodes,
    assigned_values,
    dotted,
    loads,
    own_nodes,
    parameters,
    parents,
    stores,
)
from pygraph_lint.fixes.pieces import with_keywords
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Source
from pygraph_lint.fixes.statements import line_span, shifted, written

CODES = ("PG203",)


class _Read(NamedTuple):
    """``target = value.tolist()`` in a method, ``value`` made of the parameter ``given`` alone."""

    method: ast.FunctionDef
    statements: list[ast.stmt]
    target: str
    value: ast.expr
    given: str


class Use(NamedTuple):
    """A call in a method of a module held by ``owner``, and the name it passes."""

    owner: ast.ClassDef
    method: ast.FunctionDef
    call: ast.Call
    passed: str


def propose(proposal: Proposal) -> None:
    """Copy the sizes in front of the loop over the layers, and pass them on."""
    read = _read(proposal)
    owner = proposal.around(ast.ClassDef)
    if owner is None or read.method not in owner.body:
        raise Declined
    proposal.message = "Copy the sizes to the host once, where the layers are called"
    proposal.remains, proposal.adds = True, ("PG203",)
    inner = user_of(proposal, owner, read.method, read.given)
    loop = _loop(inner)
    outer = inner
    if loop is None:
        steady = len(stores(inner.method, inner.passed)) == 1
        proposal.need("passed-on", steady, f"{inner.passed} is another one where it is passed on")
        if not _passes_keywords(inner):
            raise Declined(f"{inner.owner.name} does not pass its keywords on")
        outer = user_of(proposal, inner.owner, inner.method, inner.passed)
        loop = _loop(outer)
    if loop is None:
        raise Declined("no loop calls the layers")
    again = binds(loop, outer.passed)
    proposal.need("same", not again, f"{outer.passed} is another one in each turn")
    _need_free(proposal, outer, read)
    proposal.safe_if(
        "early",
        False,
        "the sizes are copied once in front of the layers, where they may not be needed (another"
        " kind of attention), and a layer that changes them changes nothing for the next",
    )
    _take(proposal, read)
    _give(proposal, outer, loop, read)


def _read(proposal: Proposal) -> _Read:
    """The statement around the finding, as what it is."""
    statement, method = proposal.statement, proposal.function
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(method, ast.FunctionDef) or not isinstance(target, ast.Name):
        raise Declined
    called = call.func if isinstance(call, ast.Call) and not call.args else None
    if not isinstance(called, ast.Attribute) or called.attr != "tolist":
        raise Declined
    value, statements = called.value, [statement]
    given = [item.arg for item in parameters(method)]
    if isinstance(value, ast.Name) and value.id not in given:
        values = assigned_values(method, value.id) or []
        above = _above(proposal, statement)
        if len(values) == 1 and above is not None and getattr(above, "value", None) is values[0]:
            if len(loads(method, value.id)) == 1:
                statements.insert(0, above)
            value = values[0]
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    if len(names) != 1 or not names <= set(given) or len(stores(method, target.id)) != 1:
        raise Declined
    if any(isinstance(node, ast.Call) for node in ast.walk(value)):
        raise Declined
    name = names.pop()
    proposal.need("unchanged", len(stores(method, name)) == 1, f"{name} is not what is passed")
    return _Read(method, statements, target.id, value, name)


def _above(proposal: Proposal, statement: ast.stmt) -> ast.stmt | None:
    """The statement right above another one, in the same block."""
    parent = proposal.parent(statement)
    for block in ("body", "orelse"):
        body = getattr(parent, block, [])
        if statement in body and body.index(statement):
            above: ast.stmt = body[body.index(statement) - 1]
            return above
    return None


def user_of(proposal: Proposal, owner: ast.ClassDef, method: ast.FunctionDef, given: str) -> Use:
    """The one call of a module of a class, and the name that it passes for a parameter."""
    tree = proposal.source.tree
    above = parents(tree)
    if method.name != "forward" or not isinstance(above.get(method), ast.ClassDef):
        raise Declined
    uses = [above[node] for node in loads(tree, owner.name)]
    made = [it for it in uses if isinstance(it, ast.Call) and dotted(it.func) == owner.name]
    if any(isinstance(it, ast.ClassDef) for it in uses) or len(made) != 1:
        raise Declined(f"{owner.name} is not made in one place")
    holder: ast.AST = made[0]
    while not isinstance(holder, (ast.Assign, ast.Module)):
        holder = above[holder]
        if isinstance(holder, ast.Call) and _callee(proposal, holder) != "torch.nn.ModuleList":
            raise Declined(f"{owner.name} is wrapped in something else")
    held = dotted(holder.targets[0]) if isinstance(holder, ast.Assign) else None
    user: ast.AST = holder
    while not isinstance(user, (ast.ClassDef, ast.Module)):
        user = above[user]
    if not isinstance(user, ast.ClassDef) or held is None or not held.startswith("self."):
        raise Declined(f"{owner.name} is not held by another module")
    calls = list(_calls(user, held))
    if len(calls) != 1:
        raise Declined(f"{owner.name} is not called in one place")
    function, call = calls[0]
    passed = _argument(method, call, given)
    if passed is None:
        raise Declined(f"nothing shows what is passed for {given}")
    return Use(user, function, call, passed)


def _callee(proposal: Proposal, call: ast.Call) -> str | None:
    """The qualified name of what a call at any place of the file calls."""
    return Names(proposal.file_names, []).qualified(call.func)


def _calls(user: ast.ClassDef, held: str) -> list[tuple[ast.FunctionDef, ast.Call]]:
    """Calls of ``self.layer``, or of the turns' ``layer`` of ``for layer in self.layers``."""
    found = []
    for method in user.body:
        if not isinstance(method, ast.FunctionDef):
            continue
        names = {held}
        for node in own_nodes(method):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                names |= {node.target.id} if dotted(node.iter) == held else set()
        calls = [node for node in own_nodes(method) if isinstance(node, ast.Call)]
        found += [(method, node) for node in calls if dotted(node.func) in names]
    return found


def _argument(method: ast.FunctionDef, call: ast.Call, given: str) -> str | None:
    """The name that a call passes for a parameter."""
    for item in call.keywords:
        if item.arg == given:
            return item.value.id if isinstance(item.value, ast.Name) else None
    place = [item.arg for item in method.args.args].index(given) - 1
    value = call.args[place] if len(call.args) > place else None
    starred = any(isinstance(item, ast.Starred) for item in call.args)
    return value.id if isinstance(value, ast.Name) and not starred else None


def _passes_keywords(call: Use) -> bool:
    """Whether a method takes ``**kwargs`` and passes them on."""
    rest = call.method.args.kwarg
    passed = [item.value for item in call.call.keywords if item.arg is None]
    return rest is not None and [dotted(item) for item in passed] == [rest.arg]


def _loop(call: Use) -> ast.For | None:
    """The loop that makes a call for each module."""
    called = dotted(call.call.func)
    for node in call.method.body:
        if isinstance(node, ast.For) and dotted(node.target) == called:
            return node
    return None


def _need_free(proposal: Proposal, outer: Use, read: _Read) -> None:
    path: list[ast.AST] = [proposal.source.tree, outer.owner, outer.method]
    if Names(proposal.file_names, path).taken(read.target):
        raise Declined(f"{read.target} means something else where the layers are called")
    keywords = {
        item.arg for node in all_nodes(outer.owner) for item in getattr(node, "keywords", [])
    }
    if read.target in keywords:
        raise Declined(f"{read.target} is passed for something else")


def _take(proposal: Proposal, read: _Read) -> None:
    """Give the inner method a parameter, and let it copy only what it is not given."""
    source, rest = proposal.source, read.method.args.kwarg
    named = [item for item in parameters(read.method) if item is not rest]
    typed = any(item.annotation is not None for item in named)
    text = f"{read.target}: list[int] | None = None" if typed else f"{read.target}=None"
    if rest is not None:
        start = source.span(rest)[0] - len("**")
        proposal.replace(start, start, text + _comma(source, start))
    else:
        raise Declined("the layer takes no other keywords")
    first, last = read.statements[0], read.statements[-1]
    start, end = line_span(source, first, last)
    indent = source.indent(first)
    body = shifted(source.text[start:end], add=source.indent_unit)
    proposal.replace(start, end, f"{indent}if {read.target} is None:{source.newline}{body}")


def _give(proposal: Proposal, outer: Use, loop: ast.For, read: _Read) -> None:
    """Copy the sizes in front of the loop, and pass them."""
    source = proposal.source
    value = source.segment(read.value)
    for name in reversed(loads(read.value, read.given)):
        start = source.span(name)[0] - source.span(read.value)[0]
        value = value[:start] + outer.passed + value[start + len(read.given) :]
    form = f"({value})" if not isinstance(read.value, (ast.Name, ast.Attribute)) else value
    copied = _copied(outer, loop, f"{form}.tolist()")
    if copied is None:
        line = written(proposal, source.indent(loop), [f"{read.target} = {form}.tolist()"])
        start = source.line_start(loop.lineno)
        proposal.replace(start, start, line + source.newline)
    sizes = copied or read.target
    rest = [item for item in outer.call.keywords if item.arg is None]
    if rest:
        start = source.span(rest[0])[0]
        argument = f"{read.target}={sizes}"
        proposal.replace(start, start, argument + _comma(source, start))
    else:
        text = with_keywords(source.segment(outer.call), {read.target: sizes})
        proposal.replace_node(outer.call, text)


def _copied(outer: Use, loop: ast.For, form: str) -> str | None:
    """The name of a copy that the method has made above the loop, of what is copied there."""
    wanted = ast.unparse(ast.parse(form, mode="eval").body)
    above = outer.method.body[: outer.method.body.index(loop)]
    for place, node in enumerate(above):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Name) or len(stores(outer.method, target.id)) != 1:
            continue
        again = any(binds(later, outer.passed) for later in above[place + 1 :])
        if ast.unparse(node.value) == wanted and not again:  # type: ignore[attr-defined]
            return target.id
    return None


def _comma(source: Source, start: int) -> str:
    """A comma, and the line ending and white space that set apart what begins its line."""
    row = source.location(start).row
    before = source.text[source.line_start(row) : start]
    return ", " if before.strip() else f",{source.newline}{before}"
