"""A loop over the groups that got rows, each multiplied by matrices of its own, becomes products
of all rows, in blocks of one length.

mask = one_hot(index, num_classes=n).permute(2, 1, 0)
hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
for group in hit:
    choice, token = torch.where(mask[group[0]])
    y = F.linear(x[token], self.weight[group[0]]) * scale[token, choice, None]
    output.index_add_(0, token, y)

becomes

sizes = mask.sum(dim=(-1, -2))
order = index.flatten().argsort(stable=True)
token, choice = order // index.size(1), order % index.size(1)
y = grouped_matmul(x[token], self.weight.transpose(1, 2), sizes) * scale[token, choice, None]
output.index_add_(0, token, y)

Each token has as many rows as the index has columns, whichever groups they go to. Where large
numbers stand for groups without a matrix, their rows are selected afterwards.

Unsafe: products are rounded otherwise, and the matrix of each block is copied.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.blocks import use_grouped_matmul
from pygraph_lint.fixes.flow import used_outside
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.layout import wrap
from pygraph_lint.fixes.names import assigned_values, loads, own_nodes, parameters, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.row_wise import Kind, RowWise
from pygraph_lint.fixes.statements import line_span, shifted, written

CODES = ("PG401",)


class _Groups(NamedTuple):
    """Which rows go to which group: ``mask`` counts them, ``index`` has the numbers."""

    hit: ast.Assign
    mask: str
    total: str
    choices: str
    classes: str


def propose(proposal: Proposal) -> None:
    """Multiply the rows of all groups in blocks."""
    proposal.message = "Multiply groups of rows in blocks of a fixed length"
    function = proposal.function
    if not isinstance(function, ast.FunctionDef):
        raise Declined
    groups = _groups(proposal, function)
    hit = groups.hit.targets[0]
    assert isinstance(hit, ast.Name)
    loop = next((item for item in function.body if _over(item, hit.id)), None)
    if not isinstance(loop, ast.For) or len(loads(function, hit.id)) != 1:
        raise Declined
    once = len(stores(function, groups.choices)) == 1
    proposal.need("index-once", once, f"{groups.choices} is another one when the loop runs")
    changed = any(_written(function, name) for name in (groups.mask, groups.choices))
    proposal.need("unchanged", not changed, "rows are taken out of groups, or put into others")
    turns = _Loop(proposal, loop, groups)
    turns.follow()
    kept = any(used_outside(function, name, loop) for name in turns.bound)
    proposal.need("inside", not kept, "what the last turn computes is used after the loop")
    proposal.safe_if(
        "blocks",
        False,
        "products of rows (vectors) are rounded otherwise, under autocast they keep their dtype,"
        " the matrix of each block is copied, which makes it slower on a CPU, matrices that no"
        " row goes to get zero gradients, activations that are looked up are taken to be"
        " elementwise, and modules that get the group's matrices get the sizes as well",
    )
    turns.write()


def _written(function: ast.FunctionDef, name: str) -> bool:
    """Whether a tensor may be written to: by index, or by a method."""
    for node in own_nodes(function):
        held: ast.AST = node
        while isinstance(held, (ast.Subscript, ast.Attribute)):
            held = held.value
        if not isinstance(held, ast.Name) or held.id != name or held is node:
            continue
        if not isinstance(getattr(node, "ctx", None), ast.Load):
            return True
        method = node.attr if isinstance(node, ast.Attribute) else ""
        if method.endswith("_") and not method.endswith("__"):
            return True
    return False


def _over(statement: ast.stmt, name: str) -> bool:
    """``for x in name:``."""
    if not isinstance(statement, ast.For) or statement.orelse:
        return False
    plain = isinstance(statement.target, ast.Name)
    return plain and isinstance(statement.iter, ast.Name) and statement.iter.id == name


def _groups(proposal: Proposal, function: ast.FunctionDef) -> _Groups:
    """``hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()``, and what the mask is."""
    hit = proposal.statement
    if not isinstance(hit, ast.Assign) or len(hit.targets) > 1 or not _named(hit.targets[0]):
        raise Declined
    total = _counted(proposal, _found(proposal, hit.value))
    mask = total.func.value if total and isinstance(total.func, ast.Attribute) else None
    if not isinstance(mask, ast.Name) or total is None:
        raise Declined
    values = assigned_values(function, mask.id) or []
    if len(values) == 2 and ast.unparse(values[1]) == f"{mask.id}.permute(2, 1, 0)":
        made = values[0]
    elif len(values) == 1 and ast.unparse(values[0]).endswith(".permute(2, 1, 0)"):
        made = values[0].func.value  # type: ignore[attr-defined]
    else:
        raise Declined
    if not isinstance(made, ast.Call):
        raise Declined
    if proposal.names.callee(made) != "torch.nn.functional.one_hot" or len(made.args) != 1:
        raise Declined
    counts = [item.value for item in made.keywords if item.arg == "num_classes"]
    index = made.args[0]
    if len(counts) != 1 or not isinstance(index, ast.Name):
        raise Declined
    segment = proposal.source.segment(total)
    return _Groups(hit, mask.id, segment, index.id, ast.unparse(counts[0]))


def _named(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def _found(proposal: Proposal, node: ast.expr) -> ast.expr:
    """``x`` of ``x.nonzero()`` or ``torch.nonzero(x)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        raise Declined
    given = list(node.args)
    if proposal.names.callee(node) != "torch.nonzero":
        given.insert(0, node.func.value)
    said = [ast.unparse(item) for item in node.keywords]
    if node.func.attr != "nonzero" or len(given) != 1 or said not in ([], ["as_tuple=False"]):
        raise Declined
    return given[0]


def _counted(proposal: Proposal, node: ast.expr) -> ast.Call | None:
    """``mask.sum(dim=(-1, -2))`` of ``torch.greater(mask.sum(dim=(-1, -2)), 0)``."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Gt):
        parts = [node.left, *node.comparators]
    elif proposal.names.callee(node) in ("torch.greater", "torch.gt"):
        assert isinstance(node, ast.Call)
        parts = node.args
    if len(parts) != 2 or ast.unparse(parts[1]) != "0" or not isinstance(parts[0], ast.Call):
        return None
    total = parts[0]
    summed = isinstance(total.func, ast.Attribute) and total.func.attr == "sum"
    along = [*(item.value for item in total.keywords if item.arg == "dim"), *total.args]
    pairs = ("(-1, -2)", "(-2, -1)", "(1, 2)", "(2, 1)", "[-1, -2]", "[-2, -1]", "[1, 2]")
    one = len(total.keywords) + len(total.args) == 1
    return total if summed and one and ast.unparse(along[0]) in pairs else None


class _Loop:
    """The turns of the loop as statements that are run once, for the rows of all groups."""

    def __init__(self, proposal: Proposal, loop: ast.For, groups: _Groups) -> None:
        assert isinstance(loop.target, ast.Name)
        assert proposal.function is not None
        self.proposal, self.loop, self.groups = proposal, loop, groups
        self.function = proposal.function
        self.sizes, self.order = proposal.names.free("sizes"), proposal.names.free("order")
        self.bound = _stored(loop)
        self.rows = RowWise(proposal, {loop.target.id: Kind.ROW}, self.bound, self.sizes)
        self.lines: list[str] = []
        self.selected: int | None = None
        self.numbered = False
        self.shown = loop.lineno
        self.unit = proposal.source.indent(loop.body[0]).removeprefix(proposal.source.indent(loop))

    def follow(self) -> None:
        """Follow the turn's statements, and note what they become."""
        *body, last = self.loop.body
        for statement in body:
            self._statement(statement)
            assert statement.end_lineno is not None
            self.shown = statement.end_lineno
        if not self.rows.multiplies and not self.rows.inner:
            raise Declined("nothing is multiplied by a matrix of the group")
        self._added(last)
        self._keep(last)

    def write(self) -> None:
        """Put the statements in place of the loop."""
        proposal, source = self.proposal, self.proposal.source
        use_grouped_matmul(proposal)
        index = self.groups.choices
        lines = [f"{self.sizes} = {self.groups.total}"]
        lines.append(f"{self.order} = {index}.flatten().argsort(stable=True)")
        hit = self.groups.hit
        new = written(proposal, source.indent(hit), lines)
        proposal.replace(*line_span(source, hit, hit), new)
        proposal.replace(*line_span(source, self.loop, self.loop), source.newline.join(self.lines))
        for method, follow in self.rows.inner:
            _take_sizes(proposal, method, self.sizes)
            for edit in follow.edits:
                proposal.replace(*edit)

    def _statement(self, statement: ast.stmt) -> None:
        inner = statement.body[0] if isinstance(statement, ast.With) else statement
        alone = inner is statement or self._without_gradients(statement)
        if alone and self._selects(inner):
            return
        if isinstance(statement, ast.If):
            if not self._skips(statement):
                self._branch(statement)
        elif not isinstance(statement, ast.Assign):
            raise Declined("the loop does more than compute rows")
        elif not self._numbers(statement):
            self.rows.assign(statement)
            self._keep(statement)

    def _numbers(self, statement: ast.Assign) -> bool:
        """``group = group[0]`` or ``number = int(group.item())``: taken out."""
        target, value = statement.targets[0], ast.unparse(statement.value)
        rows = [name for name, kind in self.rows.kinds.items() if kind is Kind.ROW]
        forms = {form for name in rows for form in (f"{name}[0]", f"{name}.item()")}
        forms |= {f"int({form})" for form in (*forms, *rows)}
        if value not in forms or not isinstance(target, ast.Name):
            return False
        self.rows.kinds[target.id] = Kind.GROUP
        return True

    def _selects(self, statement: ast.stmt) -> bool:
        """``choice, token = torch.where(mask[group])``: the positions come from the order."""
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        value = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Call):
            return False
        if self.proposal.names.callee(value) != "torch.where" or len(value.args) != 1:
            return False
        known = self.rows.kinds.items()
        names = [name for name, kind in known if kind in (Kind.ROW, Kind.GROUP)]
        taken = {f"{self.groups.mask}[{name}]" for name in names}
        if ast.unparse(value.args[0]).removesuffix(".squeeze(0)") not in taken:
            return False
        if len(target.elts) != 2 or not all(map(_named, target.elts)):
            return False
        choice, token = (ast.unparse(item) for item in target.elts)
        width = f"{self.groups.choices}.size(1)"
        line = f"{token}, {choice} = {self.order} // {width}, {self.order} % {width}"
        self._add([line])
        self.selected = len(self.lines)
        self.rows.kinds |= {choice: Kind.CHOICE, token: Kind.TOKEN}
        return True

    def _without_gradients(self, statement: ast.stmt) -> bool:
        """``with torch.no_grad():`` around one statement."""
        if not isinstance(statement, ast.With) or len(statement.body) != 1:
            return False
        entered = [self.proposal.names.callee(item.context_expr) for item in statement.items]
        return entered == ["torch.no_grad"]

    def _skips(self, statement: ast.If) -> bool:
        """``if group == count: continue`` or ``if token.numel() == 0: continue``: taken out, for no
        group has that number, and none of those that were found is empty.
        """
        if [type(item) for item in statement.body] != [ast.Continue] or statement.orelse:
            return False
        kinds, test = self.rows.kinds, ast.unparse(statement.test)
        tokens = [name for name, kind in kinds.items() if kind is Kind.TOKEN]
        if test in {f"{name}.numel() == 0" for name in tokens}:
            return True
        numbers = [name for name, kind in kinds.items() if kind is Kind.GROUP]
        never = test in {f"{name} == {self.groups.classes}" for name in numbers}
        self.proposal.need("no-group", never, "some groups are left out")
        return True

    def _branch(self, statement: ast.If) -> None:
        """``if group >= limit or setting: y = x else: ...``: both arms, and then a selection."""
        number, limit, settings = self._parted(statement.test)
        *body, last = [_single(item) for item in statement.orelse] or [None]
        one = _single(statement.body[0]) if len(statement.body) == 1 else None
        if one is None or last is None or one.name != last.name or None in body:
            raise Declined("the arms of a branch do more than give one name its value")
        self.rows.rows(one.value)
        first = self.rows.text(one.value)
        computed = {name for item in statement.orelse for name in _stored(item)}
        if computed & {node.id for node in ast.walk(one.value) if isinstance(node, ast.Name)}:
            raise Declined("an arm of a branch reads what the other one computes")
        self.rows.limit = limit
        for item in statement.orelse:
            assert isinstance(item, ast.Assign)
            self.rows.assign(item)
        self.rows.limit = None
        self.rows.rows(last.target)
        self._number(number)
        torch = use_torch(self.proposal)
        select = f"{one.name} = {torch}.where(({number} >= {limit})[:, None], {first}, {one.name})"
        self._arms(statement, settings, select)

    def _number(self, name: str) -> None:
        """Write the group of each row behind what says which rows there are."""
        if self.numbered or self.selected is None:
            return
        self.numbered = True
        line = f"{name} = {self.groups.choices}.flatten()[{self.order}]"
        margin = self.proposal.source.indent(self.loop)
        self.lines[self.selected : self.selected] = self._wrapped([line], margin)

    def _arms(self, statement: ast.If, settings: str, select: str) -> None:
        """Write both arms, under what the host decides if anything is left of that."""
        source, margin = self.proposal.source, self.proposal.source.indent(self.loop)
        start = source.line_start(statement.orelse[0].lineno)
        other = self._edited(start, line_span(source, statement, statement.orelse[-1])[1])
        if not settings:
            self.lines += shifted(other, remove=2 * self.unit).splitlines()
            self._add([select])
            return
        inside = self._edited(*line_span(source, statement.body[0], statement.body[-1]))
        above = source.text[source.line_start(self.shown + 1) : source.line_start(statement.lineno)]
        self.lines += [*shifted(above, remove=self.unit).splitlines(), f"{margin}if {settings}:"]
        self.lines += shifted(inside, remove=self.unit).splitlines()
        self.lines += [f"{margin}else:", *shifted(other, remove=self.unit).splitlines()]
        self.lines += self._wrapped([select], margin + self.unit)

    def _parted(self, test: ast.expr) -> tuple[str, str, str]:
        """``group``, ``limit`` and what else is asked in ``group >= limit or setting``."""
        either = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
        asked, *settings = test.values if either and isinstance(test, ast.BoolOp) else [test]
        if not isinstance(asked, ast.Compare) or not isinstance(asked.ops[0], ast.GtE):
            raise Declined("a branch asks more than whether the group has a large number")
        limit = asked.comparators[0]
        number = ast.unparse(asked.left)
        shared = [self.rows.kind(item) is Kind.SHARED for item in (limit, *map(_asks, settings))]
        if self.rows.kinds.get(number) is not Kind.GROUP or not all(shared):
            raise Declined("a branch asks more than whether the group has a large number")
        text = " or ".join(map(self.proposal.source.segment, settings))
        return number, self.proposal.source.segment(limit), text

    def _added(self, statement: ast.stmt) -> None:
        """``output.index_add_(0, token, rows)``, the output not read in the loop otherwise."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            raise Declined("the turn does not end in adding its rows")
        output, known = call.func.value, self.rows.kinds
        if call.func.attr != "index_add_" or not isinstance(output, ast.Name) or call.keywords:
            raise Declined("the turn does not end in adding its rows")
        if len(call.args) != 3 or ast.unparse(call.args[0]) != "0":
            raise Declined("the turn does not end in adding its rows")
        if known.get(ast.unparse(call.args[1])) is not Kind.TOKEN:
            raise Declined("the turn does not end in adding its rows")
        self.rows.rows(call.args[2])
        above = parents(self.proposal.source.tree)
        reads = [node for node in loads(self.loop, output.id) if not _asks_dtype(above[node])]
        made = assigned_values(self.function, output.id) or []
        body = self.function.body
        if isinstance(body, list) and self.loop in body:  # what is done with it later is not asked
            made = [value for value in made if value.lineno <= (self.loop.end_lineno or 0)]
        names = {self.proposal.names.callee(value) for value in made}
        alone = len(reads) == 1 and len(made) == 1 and names <= {"torch.zeros", "torch.zeros_like"}
        self.proposal.need("only-added", alone, f"turns may read {output.id}")

    def _keep(self, statement: ast.stmt) -> None:
        """A statement of the turn, and the comments above it, as a statement of the function."""
        start = self.proposal.source.line_start(self.shown + 1)
        text = self._edited(start, line_span(self.proposal.source, statement, statement)[1])
        self.lines += shifted(text, remove=self.unit).splitlines()

    def _edited(self, start: int, end: int) -> str:
        """The lines between two offsets as they will be, those that grew broken again."""
        source = self.proposal.source
        old = set(source.text[start:end].splitlines())
        lines: list[str] = []
        for line in self.rows.edited(start, end).splitlines():
            width = source.width + len(self.unit)
            lines += [line] if line in old else wrap(line, width, source.indent_unit)
        return source.newline.join(lines)

    def _add(self, lines: list[str]) -> None:
        self.lines += self._wrapped(lines, self.proposal.source.indent(self.loop))

    def _wrapped(self, lines: list[str], indent: str) -> list[str]:
        return written(self.proposal, indent, lines).splitlines()


class _Set(NamedTuple):
    """``name = value`` or ``name, name = value``."""

    name: str
    target: ast.expr
    value: ast.expr


def _single(statement: ast.stmt) -> _Set | None:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return _Set(ast.unparse(target), target, statement.value)


def _asks(node: ast.expr) -> ast.expr:
    """What is compared to None."""
    none = isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) == "None"
    return node.left if none and isinstance(node, ast.Compare) and len(node.ops) == 1 else node


def _asks_dtype(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("dtype", "device")


def _stored(node: ast.AST) -> set[str]:
    """The names that a node gives a value."""
    inner = [node, *own_nodes(node)]
    return {it.id for it in inner if isinstance(it, ast.Name) and not isinstance(it.ctx, ast.Load)}


def _take_sizes(proposal: Proposal, method: ast.FunctionDef, sizes: str) -> None:
    """Add a parameter for the sizes, and lay the parameters out again where they get too long."""
    source, last = proposal.source, parameters(method)[-1]
    annotation = ""
    if last.annotation is not None:
        annotation = f": {use_torch(proposal)}.Tensor"
    start, end = source.span(parameters(method)[0])[0], source.span(last)[1]
    given = [source.segment(item) for item in parameters(method)] + [sizes + annotation]
    row = source.line(last.lineno)
    grown = len(row) + len(given[-1]) + 2
    if grown <= source.width or "#" in source.text[start:end]:
        proposal.replace(end, end, f", {given[-1]}")
        return
    opened = source.text.rindex("(", 0, start) + 1
    closed = source.text.index(")", end)
    margin = source.indent(method)
    lines = [f"{margin}{source.indent_unit}{item}," for item in given]
    proposal.replace(opened, closed, source.newline.join(["", *lines, margin]))
