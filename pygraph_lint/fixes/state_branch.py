"""A branch on a tensor that registers a buffer again is computed, and what it sets is selected.

if n > limit:                                  chosen = n > limit
    long = compute()                           long = compute()
    self.register_buffer("freq", long)   ->    short = self.short.to(device)
else:                                          freq = torch.where(chosen, long, short)
    short = self.short.to(device)              self.register_buffer("freq", freq)
    self.register_buffer("freq", short)

What only one arm sets is selected against what it was. Unsafe: both arms are computed.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.conditions import operands, with_parentheses
from pygraph_lint.fixes.flow import used_outside
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted, own_nodes
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import line_span, one_line, shifted, written
from pygraph_lint.fixes.tensor_branch import BOTH_ARMS, is_elif, within

CODES = ("PG301",)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class Setting(NamedTuple):
    """What an arm sets: ``before + value + after``, and how it is read (``self.x``)."""

    before: str
    value: str
    after: str
    read: str
    names: frozenset[str]
    comments: tuple[str, ...]


def propose(proposal: Proposal) -> None:
    """Compute both arms, and select."""
    node, function = proposal.around(ast.If), proposal.function
    if node is None or function is None or not within(proposal, node.test):
        raise Declined
    if is_elif(proposal, node) or not _registers(node):
        raise Declined
    proposal.message = "Select what is registered with torch.where instead of branching"
    condition = _condition(proposal, node)
    first, second = _Arm(proposal, node.body), _Arm(proposal, node.orelse)
    names = first.bound | second.bound
    kept = any(used_outside(function, name, node) for name in names)
    proposal.need("locals", not kept, "what an arm computes is used after the branch")
    apart = not (first.bound & (second.read | second.bound) or second.bound & first.given)
    proposal.need("apart", apart, "an arm reads what the other one computes")
    proposal.safe_if("both-arms", False, BOTH_ARMS)
    proposal.safe_if(
        "called",
        False,
        "functions that an arm calls are called in either case, what it computes once is computed"
        " earlier, and numbers that are selected become tensors",
    )
    _write(proposal, node, condition, first, second)


def _registers(node: ast.If) -> bool:
    """Whether a branch registers a buffer."""
    called = [item.func for item in ast.walk(node) if isinstance(item, ast.Call)]
    return any(isinstance(it, ast.Attribute) and it.attr == "register_buffer" for it in called)


def _condition(proposal: Proposal, node: ast.If) -> str:
    """Comparisons joined by ``&``: one is a tensor, the others are at least truth values."""
    texts = []
    for part in operands(node.test):
        if not isinstance(part, ast.Compare) or len(part.ops) != 1:
            raise Declined("the condition is more than comparisons")
        if not isinstance(part.ops[0], _COMPARISONS):
            raise Declined("the condition is more than comparisons")
        start, end = with_parentheses(proposal.source, part, node.test)
        texts.append(one_line(proposal.source.text[start:end]))
    if len(texts) == 1:
        return texts[0]
    return " & ".join(text if text.startswith("(") else f"({text})" for text in texts)


class _Arm:
    """The statements of an arm that are kept as they are, and what it sets."""

    def __init__(self, proposal: Proposal, body: list[ast.stmt]) -> None:
        self.proposal = proposal
        self.lines: list[str] = []
        self.set: dict[str, Setting] = {}
        self.bound: set[str] = set()
        self.read: set[str] = set()
        self._once: set[str] = set()
        self._body = body
        for place, statement in enumerate(body):
            if not proposal.source.alone(statement):
                raise Declined("the branch is written on one line")
            self._follow(place, statement)
            self.read |= {it.id for it in ast.walk(statement) if isinstance(it, ast.Name)}
            assigned = _names(statement, ast.Store)
            again = assigned & (self.bound | self.given)
            proposal.need("once", not again, "an arm computes a name twice")
            self.bound |= assigned

    @property
    def given(self) -> set[str]:
        """The names in what the arm sets."""
        return {name for setting in self.set.values() for name in setting.names}

    def _follow(self, place: int, statement: ast.stmt) -> None:
        if isinstance(statement, ast.If):
            self._guarded(place, statement)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self._assigned(place, statement, statement.targets[0])
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            self._called(place, statement, statement.value)
        else:
            raise Declined("an arm does more than compute and set")

    def _guarded(self, place: int, statement: ast.If) -> None:
        """``if not hasattr(self, name): ...``. Where it gives names values that are read behind it,
        they would be missing otherwise, so it is taken off.
        """
        asked = statement.test.operand if isinstance(statement.test, ast.UnaryOp) else None
        missing = isinstance(asked, ast.Call) and dotted(asked.func) == "hasattr"
        plain = all(isinstance(item, ast.Assign) for item in statement.body)
        if not missing or not plain or statement.orelse:
            raise Declined("an arm does more than compute and set")
        later = {name for item in self._body[place + 1 :] for name in _names(item, ast.Load)}
        once = _names(statement, ast.Store)
        if not once & later:
            self._keep(place, statement)
            return
        sets = any(isinstance(it, ast.Attribute) for it in _stored(statement))
        if sets:
            raise Declined("an arm does more than compute and set")
        self._once |= once
        unit = self.proposal.source.indent_unit
        source, asked_to = self.proposal.source, statement.test.end_lineno
        assert asked_to is not None
        end = line_span(source, statement, statement.body[-1])[1]
        text = source.text[source.line_start(asked_to + 1) : end]
        self.lines += [*self._above(place), *shifted(text, remove=2 * unit).splitlines()]

    def _assigned(self, place: int, statement: ast.Assign, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._keep(place, statement)
        elif isinstance(target, ast.Tuple):
            self._unpacked(place, statement, target)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            computed = statement.value
            missing = isinstance(computed, ast.Name) and computed.id in self._once
            if missing or _converts(computed, ast.unparse(target)):
                self._keep(place, statement)
            else:
                name = ast.unparse(target)
                self._sets(place, f"{name} = ", statement.value, "", name)
        else:
            raise Declined("an arm does more than compute and set")

    def _unpacked(self, place: int, statement: ast.Assign, target: ast.Tuple) -> None:
        """``a, self.b = f()``: the attribute's value gets a name first."""
        source = self.proposal.source
        start, end = line_span(source, statement, statement)
        text = source.text[start:end]
        for item in reversed(target.elts):
            if isinstance(item, ast.Name):
                continue
            if not isinstance(item, ast.Attribute) or not isinstance(item.value, ast.Name):
                raise Declined("an arm does more than compute and set")
            name, read = self.proposal.names.free(item.attr), ast.unparse(item)
            low, high = source.span(item)
            text = text[: low - start] + name + text[high - start :]
            self.bound.add(name)
            self._sets(place, f"{read} = ", ast.Name(name, ast.Load()), "", read, said=False)
        self.lines += [*self._above(place), *shifted(text, remove=source.indent_unit).splitlines()]

    def _called(self, place: int, statement: ast.Expr, call: ast.Call) -> None:
        """``self.register_buffer(name, value)`` and ``setattr(self, name, value)``."""
        source, arguments = self.proposal.source, call.args
        if dotted(call.func) == "setattr" and len(arguments) == 3 and not call.keywords:
            holder, name, value = arguments
            if self._again(name, value):
                self._keep(place, statement)
                return
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer":
            if len(arguments) != 2 or any(item.arg != "persistent" for item in call.keywords):
                raise Declined("a buffer is registered in a way that is not known")
            holder, (name, value) = call.func.value, arguments
        else:
            raise Declined("an arm does more than compute and set")
        given = [one_line(source.segment(item)) for item in (*arguments[:-1], *call.keywords)]
        front, behind = given[: len(arguments) - 1], given[len(arguments) - 1 :]
        before = f"{source.segment(call.func)}({', '.join(front)}, "
        after = "".join(f", {item}" for item in behind) + ")"
        self._sets(place, before, value, after, self._reading(holder, name))

    def _again(self, name: ast.expr, value: ast.expr) -> bool:
        """Whether an attribute only gets what it holds already, on another device, or what was
        computed because it was missing.
        """
        if not isinstance(value, ast.Name):
            return False
        if value.id in self._once:
            return True
        converted = [it.value for it in self._body if isinstance(it, ast.Assign)]
        if not any(_converts(it, value.id) for it in converted):
            return False
        function = self.proposal.function
        assert function is not None
        inside = {node for item in self._body for node in ast.walk(item)}
        values = [
            it.value
            for it in own_nodes(function)
            if isinstance(it, ast.Assign) and it not in inside and value.id in _names(it, ast.Store)
        ]
        chosen = [it for value in values for it in _alternatives(value)]
        return bool(chosen) and all(_ending(it).endswith(_ending(name)) for it in chosen)

    def _reading(self, holder: ast.expr, name: ast.expr) -> str:
        """How the attribute of that name is read: as the function does, where it does."""
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return f"{ast.unparse(holder)}.{name.value}"
        wanted = [ast.unparse(holder), ast.unparse(name)]
        function = self.proposal.function
        assert function is not None
        for node in own_nodes(function):
            asked = isinstance(node, ast.Call) and dotted(node.func) == "getattr"
            given = [ast.unparse(it) for it in node.args] if isinstance(node, ast.Call) else []
            if asked and len(given) == 3 and given[:2] == wanted:
                return one_line(self.proposal.source.segment(node))
        source = self.proposal.source
        return f"getattr({source.segment(holder)}, {source.segment(name)})"

    def _sets(
        self, place: int, before: str, value: ast.expr, after: str, read: str, *, said: bool = True
    ) -> None:
        text = value.id if isinstance(value, ast.Name) else self.proposal.source.segment(value)
        later = [ast.unparse(node) for it in self._body[place + 1 :] for node in ast.walk(it)]
        again = read in later or read in self.set
        self.proposal.need("set-once", not again, f"an arm reads {read} after it was set")
        comments = tuple(self._comments(place)) if said else ()
        names = frozenset(_names(value, ast.Load))
        self.set[read] = Setting(before, one_line(text), after, read, names, comments)

    def _keep(self, place: int, statement: ast.stmt) -> None:
        start, end = line_span(self.proposal.source, statement, statement)
        text = shifted(
            self.proposal.source.text[start:end], remove=self.proposal.source.indent_unit
        )
        self.lines += [*self._above(place), *text.splitlines()]

    def _above(self, place: int) -> list[str]:
        """The comments directly above a statement, as they stand above the branch's level."""
        source = self.proposal.source
        row = self._body[place].lineno
        found: list[str] = []
        while source.line(row - 1).lstrip().startswith("#"):
            row -= 1
            found.insert(0, source.line(row).removeprefix(source.indent_unit))
        return found

    def _comments(self, place: int) -> list[str]:
        """The comments above a statement, and the one behind it."""
        source, statement = self.proposal.source, self._body[place]
        assert statement.end_lineno is not None
        end = source.span(statement)[1] - source.line_start(statement.end_lineno)
        behind = source.line(statement.end_lineno)[end:].strip()
        return [line.strip() for line in (*self._above(place), behind) if line.strip()]


def _write(proposal: Proposal, node: ast.If, condition: str, first: _Arm, second: _Arm) -> None:
    """Put the condition, what both arms compute, and what is selected, in place of the branch."""
    source, indent = proposal.source, proposal.source.indent(node)
    torch, chosen = use_torch(proposal), proposal.names.free("chosen")
    lines = written(proposal, indent, [f"{chosen} = {condition}"]).splitlines()
    head = source.line(node.test.end_lineno or node.lineno).rpartition(":")[2].strip()
    if head.startswith("#") and len(lines) == 1:
        lines[0] += f"  {head}"
    lines += [*first.lines, *second.lines]
    for read in (*first.set, *(it for it in second.set if it not in first.set)):
        one, other = first.set.get(read), second.set.get(read)
        form = one or other
        assert form is not None
        same = not one or not other or (one.before, one.after) == (other.before, other.after)
        then, otherwise = (it.value if it else read for it in (one, other))
        if not same:
            raise Declined(f"the arms set {read} in different ways")
        value = f"{torch}.where({chosen}, {then}, {otherwise})"
        lines += [indent + comment for comment in form.comments]
        lines += written(proposal, indent, [f"{form.before}{value}{form.after}"]).splitlines()
    start, end = line_span(source, node, (node.orelse or node.body)[-1])
    proposal.replace(start, end, source.newline.join(lines))


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    inner = ast.walk(node)
    return {it.id for it in inner if isinstance(it, ast.Name) and isinstance(it.ctx, context)}


def _stored(node: ast.AST) -> list[ast.AST]:
    return [it for it in ast.walk(node) if isinstance(getattr(it, "ctx", None), ast.Store)]


def _converts(value: ast.expr, name: str) -> bool:
    """``x.to(device)`` of a name."""
    called = value.func if isinstance(value, ast.Call) else None
    if not isinstance(called, ast.Attribute) or called.attr != "to":
        return False
    return ast.unparse(called.value) == name


def _alternatives(value: ast.expr) -> list[ast.expr]:
    """Both values of ``a if t else b``, or the value alone."""
    return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]


def _ending(node: ast.expr) -> str:
    """The end of an attribute's name: of ``self.x``, ``getattr(self, "x")``, ``f"{y}_x"``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call) and dotted(node.func) == "getattr" and len(node.args) > 1:
        return _ending(node.args[1])
    last = node.values[-1] if isinstance(node, ast.JoinedStr) else node
    if isinstance(last, ast.Constant) and isinstance(last.value, str):
        return last.value
    return ast.unparse(node)
