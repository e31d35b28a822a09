"""A list of sizes that is put together on the device, only to be read back, is made in Python.

shape = torch.cat([torch.as_tensor(x.shape[:1]), torch.as_tensor([4])]) -> shape = [*x.shape[:1], 4]
x.view(shape.tolist()) -> x.view(shape)

One number that only the device knows is -1 where the list is the shape of a view. Safe where all
are sizes of tensors or written out.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.lists import Lists, without_copy
from pygraph_lint.fixes.names import assigned_values, loads, own_nodes, parameters, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import line_span, one_line, written
from pygraph_lint.fixes.unused import no_longer_used, take_out

CODES = ("PG203",)
_MAKERS = ("torch.tensor", "torch.as_tensor")
_LIKE = {"torch.ones_like": "1", "torch.zeros_like": "0"}
_WHOLE = ("torch.int64", "torch.long")
_ASKS = ("shape", "size", "device", "dtype", "dim", "ndim", "numel")
_FIRST = (["0"], ["dim=0"], ["-1"], ["dim=-1"])
_VIEWS = ("view", "reshape")
_TAKES_SIZES = (*_VIEWS, "expand", "new_empty", "new_ones", "new_zeros", "repeat")


class _Use(NamedTuple):
    """One read of the tensor: the list that is made of it, and what takes that list."""

    listed: ast.expr
    takers: list[str]


def propose(proposal: Proposal) -> None:
    """Make the list where the tensor was put together."""
    function = proposal.function
    read = _tensor_read(proposal)
    if read is None or not isinstance(function, ast.FunctionDef):
        raise Declined("")
    statement = _made(function, read.id)
    pieces = _joined(proposal, statement.value)
    body = _block(function, statement)
    proposal.message = "Put the list of sizes together in Python"
    above = parents(function)
    uses = [_use(function, above, one) for one in loads(function, read.id)]
    taken = all(name in _TAKES_SIZES for use in uses for name in use.takers)
    proposal.need("sizes", taken, f"{read.id} is used for more than the sizes of tensors")
    parts = _Parts(proposal, function, body, statement)
    texts = [parts.text(part) for part in pieces]
    if None in texts:
        proposal.need("one-unknown", texts.count(None) == 1, "the device knows more than one size")
        views = all(name in _VIEWS for use in uses for name in use.takers)
        proposal.need("view", views, "only the device knows one of the sizes")
        proposal.safe_if("known", False, "a view of no elements has to be given all sizes")
    callers = not parts.lists.others_may_call
    proposal.safe_if("callers", callers, "callers in other files may give it something else")
    text = f"[{', '.join(one or '-1' for one in texts)}]"
    _write(proposal, body, statement, uses, text)


def _tensor_read(proposal: Proposal) -> ast.Name | None:
    """The name in ``name.tolist()`` at the finding."""
    for node in reversed(proposal.path):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "tolist":
            return called.value if isinstance(called.value, ast.Name) else None
    return None


def _made(function: ast.FunctionDef, name: str) -> ast.Assign:
    """The one statement that binds a name."""
    bindings = stores(function, name)
    for node in own_nodes(function):
        if isinstance(node, ast.Assign) and node.targets == bindings:
            return node
    raise Declined("")


def _block(function: ast.FunctionDef, statement: ast.stmt) -> list[ast.stmt]:
    """The function's own statements, of which the one given has to be one: others may not run."""
    if statement not in function.body:
        raise Declined("the tensor is made in a branch or a loop")
    return function.body


def _joined(proposal: Proposal, call: ast.expr) -> list[ast.expr]:
    """What ``torch.cat`` joins."""
    if isinstance(call, ast.Call) and proposal.names.callee(call) == "torch.cat" and call.args:
        rest = [*map(ast.unparse, call.args[1:]), *map(ast.unparse, call.keywords)]
        parts = call.args[0]
        if rest in ([], *_FIRST) and isinstance(parts, (ast.List, ast.Tuple)):
            return parts.elts
    raise Declined("")


def _use(function: ast.FunctionDef, above: dict[ast.AST, ast.AST], read: ast.Name) -> _Use:
    """What becomes of one read; a taker without a name is none that is known."""
    attribute = above.get(read)
    call = above.get(attribute) if isinstance(attribute, ast.Attribute) else None
    listed = isinstance(call, ast.Call) and call.func is attribute and not call.args
    if not listed or attribute.attr != "tolist":  # type: ignore[union-attr]
        return _Use(read, [""])
    assert isinstance(call, ast.Call)
    node: ast.expr = call
    generator = above.get(call)
    if isinstance(generator, ast.comprehension):
        comprehension = above.get(generator)
        if not _copies(comprehension, generator):
            return _Use(call, [""])
        assert isinstance(comprehension, ast.ListComp)
        node = comprehension
    parent = above.get(node)
    if isinstance(parent, ast.Assign) and parent.value is node and len(parent.targets) == 1:
        target = parent.targets[0]
        if isinstance(target, ast.Name) and stores(function, target.id) == [target]:
            found = loads(function, target.id)
            return _Use(node, [_taker(above, item) for item in found])
    return _Use(node, [_taker(above, node)])


def _copies(comprehension: ast.AST | None, generator: ast.comprehension) -> bool:
    """``[int(x) for x in ...]``: a list of the same whole numbers."""
    return (
        isinstance(comprehension, ast.ListComp)
        and isinstance(generator.target, ast.Name)
        and not generator.ifs
        and not generator.is_async
        and len(comprehension.generators) == 1
        and ast.unparse(comprehension.elt) in (generator.target.id, f"int({generator.target.id})")
    )


def _taker(above: dict[ast.AST, ast.AST], node: ast.expr) -> str:
    """The method that takes a list as its only argument, or as its first for a new tensor."""
    call = above.get(node)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    name = call.func.attr
    alone = call.args == [node] and (not call.keywords or name.startswith("new_"))
    return name if alone else ""


class _Parts:
    """Writes the parts of the joined tensor as elements of a list."""

    def __init__(
        self,
        proposal: Proposal,
        function: ast.FunctionDef,
        body: list[ast.stmt],
        statement: ast.Assign,
    ) -> None:
        self.lists = Lists(proposal.source.tree, proposal.finding.own)
        self._proposal = proposal
        self._function = function
        self._before = body[: body.index(statement)]

    def text(self, part: ast.expr) -> str | None:
        """A part's elements; None for one number that only the device knows."""
        callee = self._proposal.names.callee(part)
        if isinstance(part, ast.Name):
            return f"*{self._given(part.id)}"
        if not isinstance(part, ast.Call):
            raise Declined("a part of it is not made of Python numbers")
        if callee in _LIKE and len(part.args) == 1 and isinstance(part.args[0], ast.Name):
            self._check_whole(part)
            return f"*[{_LIKE[callee]}] * len({self._given(part.args[0].id)})"
        if callee in _MAKERS:
            return self._of_numbers(part)
        rest = [*map(ast.unparse, part.args), *map(ast.unparse, part.keywords)]
        if isinstance(part.func, ast.Attribute) and part.func.attr == "unsqueeze":
            self._proposal.need("new-dimension", rest in _FIRST, "it gets another dimension")
            return None
        raise Declined("a part of it is not made of Python numbers")

    def _of_numbers(self, call: ast.Call) -> str:
        """The elements of ``torch.as_tensor([2, 3])`` or of the tensor of a list."""
        self._check_whole(call)
        data = call.args[0] if len(call.args) == 1 else None
        if isinstance(data, ast.List) and data.elts and all(map(_is_whole, data.elts)):
            return ", ".join(self._text(item) for item in data.elts)
        if data is None or not self.lists.holds_numbers(self._function, data):
            raise Declined("a part of it is not proven to hold single numbers")
        self._check_filled(call)
        return f"*{self._text(without_copy(data))}"

    def _given(self, name: str) -> str:
        """A list that a name's only tensor was made of, under a name that still holds it."""
        making = [
            node
            for node in self._before
            if isinstance(node, ast.Assign) and [*map(ast.unparse, node.targets)] == [name]
        ]
        call = making[0].value if making else None
        if not isinstance(call, ast.Call) or self._proposal.names.callee(call) not in _MAKERS:
            raise Declined(f"{name} is not made of a Python list")
        self._check_whole(call)
        self._check_filled(call)
        data = call.args[0] if len(call.args) == 1 else None
        own = stores(self._function, name)
        again = isinstance(data, ast.Name) and data.id == name
        once = len(own) == len(making) + again == 1 + again
        self._proposal.need("once", once, f"{name} changes")
        untouched = isinstance(data, ast.Name) and self._untouched(making[0], name, data.id)
        self._proposal.need("untouched", untouched, f"{name} or its list may change in place")
        if again:
            return self._kept(making[0], name)
        if not isinstance(data, ast.Name) or not self.lists.holds_numbers(self._function, data):
            raise Declined(f"{name} is not made of a Python list")
        steady = len(stores(self._function, data.id)) == 1
        self._proposal.need("steady", steady, f"{data.id} changes")
        return data.id

    def _untouched(self, making: ast.Assign, name: str, data: str) -> bool:
        """Whether nothing before the concatenation can write to a tensor, or to the list that it
        was made of, or gives one of them another name.
        """
        values = assigned_values(self._function, data) or ()
        if data != name and any(isinstance(value, ast.Name) for value in values):
            return False
        above = parents(self._function)
        place = self._before.index(making)
        kept = f"{name}_list"
        for position, statement in enumerate(self._before):
            if ast.unparse(statement) == f"{kept} = {name}":
                continue
            for read in [read for one in (name, data, kept) for read in loads(statement, one)]:
                parent = above[read]
                earlier = position < place and isinstance(parent, (ast.Attribute, ast.Subscript))
                if position != place and not earlier and not self._only_reads(above, read):
                    return False
        return True

    def _only_reads(self, above: dict[ast.AST, ast.AST], read: ast.Name) -> bool:
        """Whether what takes a tensor or a list neither writes to it nor keeps it."""
        parent = above[read]
        if isinstance(parent, ast.Attribute):
            return parent.attr in _ASKS
        if isinstance(parent, (ast.Starred, ast.BinOp)) or ast.unparse(parent) == f"len({read.id})":
            return True
        if isinstance(parent, (ast.List, ast.Tuple)):
            return self._proposal.names.callee(above[parent]) == "torch.cat"
        return self._proposal.names.callee(parent) in ("torch.tensor", "torch.is_tensor", *_LIKE)

    def _kept(self, statement: ast.Assign, name: str) -> str:
        """A second name for a parameter that is turned into a tensor of the same name."""
        proposal, function = self._proposal, self._function
        parameter = name in [item.arg for item in parameters(function)]
        if not parameter or not self.lists.parameter_holds_numbers(function, name):
            raise Declined(f"{name} is not proven to be a list of single numbers")
        kept = f"{name}_list"
        place = function.body.index(statement)
        above = function.body[place - 1] if place else None
        if above is not None and ast.unparse(above) == f"{kept} = {name}":
            return kept
        if proposal.names.taken(kept) or loads(proposal.source.tree, kept):
            raise Declined(f"the name {kept} is used for something else")
        source = proposal.source
        start = source.line_start(statement.lineno)
        line = f"{source.indent(statement)}{kept} = {name}{source.newline}"
        proposal.replace(start, start, line)
        return kept

    def _check_whole(self, call: ast.Call) -> None:
        """Decline a tensor that is not of whole numbers."""
        for keyword in call.keywords:
            name = self._proposal.names.qualified(keyword.value)
            known = keyword.arg == "device" or (keyword.arg == "dtype" and name in _WHOLE)
            self._proposal.need("whole", known, "the tensor is asked for another dtype")

    def _check_filled(self, call: ast.Call) -> None:
        """Without a dtype, an empty list makes a floating tensor, and of all it is joined to."""
        asked = any(keyword.arg == "dtype" for keyword in call.keywords)
        self._proposal.safe_if("filled", asked, "of an empty list torch makes floats, no sizes")

    def _text(self, node: ast.expr) -> str:
        return one_line(self._proposal.source.segment(node))


def _is_whole(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def _write(
    proposal: Proposal,
    body: list[ast.stmt],
    statement: ast.Assign,
    uses: list[_Use],
    text: str,
) -> None:
    """Write the list, and read it where the tensor was turned into one.

    Where that was one place, behind which the list has a name, the name of the tensor goes.
    """
    source = proposal.source
    gone = _without(no_longer_used(proposal, body, [statement.value]), text)
    target = ast.unparse(statement.targets[0])
    if len(uses) == 1 and isinstance(uses[0].listed, ast.ListComp):
        proposal.replace_node(uses[0].listed, text)
        take_out(proposal, body, [*gone, statement])
        return
    start, end = line_span(source, statement, statement)
    proposal.replace(
        start, end, written(proposal, source.indent(statement), [f"{target} = {text}"])
    )
    for use in uses:
        proposal.replace_node(use.listed, target)
    if gone:
        take_out(proposal, body, gone)


def _without(statements: list[ast.stmt], text: str) -> list[ast.stmt]:
    """The statements whose names an expression does not need."""
    needed = _names(ast.parse(text))
    while True:
        kept = [item for item in statements if _names(item, ast.Store) & needed]
        more = {name for item in kept for name in _names(item)} - needed
        if not more:
            return [item for item in statements if item not in kept]
        needed |= more


def _names(node: ast.AST, context: type[ast.expr_context] = ast.Load) -> set[str]:
    return {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, context)
    }
