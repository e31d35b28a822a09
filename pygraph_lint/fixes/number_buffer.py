"""A whole number that a module keeps as a tensor, and only uses as a number, stays a number.

self.register_buffer("stride", torch.tensor(stride), persistent=False) -> self.stride = stride, and
torch.ceil(n / self.stride).to(torch.int64) -> math.ceil(n / self.stride)

Each read of such a buffer as a number asks the device for its value; a number is known while
tracing, and is right on the meta device too. Unsafe: other files get numbers where there were
tensors, and Python divides in double precision.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from pygraph_lint.fixes.imports import use_module
from pygraph_lint.fixes.names import own_nodes, parents
from pygraph_lint.fixes.number_kinds import NUMBERS, OTHER, ROUNDED, WHOLE, Kinds, View, joined
from pygraph_lint.fixes.number_setters import may_go, only_for, written_out
from pygraph_lint.fixes.number_uses import Uses
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import FUNCTIONS

CODES = ("PG201", "PG202", "PG206", "PG301", "PG407")
_SETTERS = frozenset(("copy_", "constant_", "fill_"))


class _Scope(NamedTuple):
    """A function, and what its expressions are before and after."""

    function: ast.FunctionDef
    before: Kinds
    after: Kinds

    def converted(self) -> set[ast.AST]:
        """Its expressions that are numbers after the rewrite, and were not certainly before."""
        return {
            node
            for node in own_nodes(self.function)
            if isinstance(node, ast.expr)
            and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
            and self.before.of(node) not in NUMBERS
            and self.after.of(node) in NUMBERS
        }


def propose(proposal: Proposal) -> None:
    """Keep the number."""
    proposal.message = "Keep the number as a number"
    owner = proposal.around(ast.ClassDef)
    constructor = next(
        (
            item
            for item in (owner.body if owner is not None else ())
            if isinstance(item, ast.FunctionDef) and item.name == "__init__"
        ),
        None,
    )
    if owner is None or constructor is None or not any(_registrations(constructor)):
        raise Declined
    held = _Held(proposal, owner, constructor)
    if not held.buffers or not held.concerns(proposal.path[-1], proposal.function):
        raise Declined
    saved = [name for name, call in held.buffers.items() if not _unsaved(call)]
    proposal.need("not-saved", not saved, "the buffer is saved with the model")
    proposal.need("whole", held.all_whole(), "the number is not certainly whole")
    proposal.need("never-set", not held.set_elsewhere(), "the number is also set elsewhere")
    proposal.need("not-by-name", not held.by_name(), "the number is also read by its name")
    misused = held.misused()
    proposal.need("number-like", misused is None, f"{misused} may be wanted as a tensor")
    proposal.safe_if(
        "never",
        False,
        "other files get a number where there was a tensor, the module has these buffers no longer,"
        " and a division rounds in double precision, not in single",
    )
    held.rewrite()


def _registrations(constructor: ast.FunctionDef) -> Iterator[ast.Call]:
    """The statements ``self.register_buffer("name", value)`` of a constructor."""
    for statement in constructor.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or len(call.args) < 2:
            continue
        if ast.unparse(call.func) != "self.register_buffer":
            continue
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
            yield call


def _unsaved(call: ast.Call) -> bool:
    """Whether a buffer is left out of the state that is saved."""
    asked = [item.value for item in call.keywords if item.arg == "persistent"] or call.args[2:3]
    return bool(asked) and isinstance(asked[0], ast.Constant) and asked[0].value is False


class _Held:
    """The numbers that a class keeps as tensors, and everything in the file that reads them."""

    def __init__(
        self, proposal: Proposal, owner: ast.ClassDef, constructor: ast.FunctionDef
    ) -> None:
        self._proposal = proposal
        self._owner = owner
        self._tree = proposal.source.tree
        self._above = parents(self._tree)
        self._wraps: set[ast.Call] = set()
        self.buffers: dict[str, ast.Call] = {}
        self._names: set[str] = set()  # of the buffers, and of attributes computed from them
        self._returned: list[dict[str, str | None]] = [{}, {}]
        self._constructor = constructor
        for call in _registrations(constructor):
            self._add(call)
        if self.buffers:
            self._names = set(self.buffers)
            self._setters = list(self._find_setters())
            self._settle()
            self._uses = Uses(self._tree, self._above)
            self._converted = {scope.function: scope.converted() for scope in self._scopes}
            self._misused = sorted(self._find_misused(), key=proposal.source.span)

    # -- what is kept

    def _add(self, call: ast.Call) -> None:
        """Take a buffer in, if its value is a number once torch.tensor is left out."""
        wraps = self._wraps | set(self._wraps_behind(self._constructor, call.args[1]))
        scope = self._scope(self._constructor, wraps)
        value = call.args[1]
        if scope.before.of(value) not in NUMBERS and scope.after.of(value) == WHOLE:
            self._wraps = wraps
            self.buffers[str(call.args[0].value)] = call  # type: ignore[attr-defined]

    def _wraps_behind(self, function: ast.FunctionDef, value: ast.expr) -> Iterator[ast.Call]:
        """The calls of torch.tensor that a value is made of."""
        calls = {node for node in own_nodes(function) if isinstance(node, ast.Call)}
        plain = self._scope(function, set()).after
        kinds = self._scope(function, {call for call in calls if plain.wraps(call)}).after
        pending, seen = [value], set[str]()
        while pending:
            node = pending.pop()
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and kinds.wraps(inner):
                    sure = kinds.of(inner.args[0]) == WHOLE or bool(inner.keywords)
                    if sure and not isinstance(inner.args[0], (ast.List, ast.Tuple)):
                        yield inner
                if isinstance(inner, ast.Name) and inner.id not in seen:
                    seen.add(inner.id)
                    pending += [
                        assign.value
                        for assign in own_nodes(function)
                        if isinstance(assign, ast.Assign)
                        and any(getattr(it, "id", "") == inner.id for it in assign.targets)
                    ]

    def _find_setters(self) -> Iterator[tuple[ast.Expr, ast.expr, ast.expr]]:
        """Statements like ``init.copy_(module.stride, value)``: they become assignments."""
        for node in ast.walk(self._tree):
            call = node.value if isinstance(node, ast.Expr) else None
            if not isinstance(node, ast.Expr) or not isinstance(call, ast.Call) or call.keywords:
                continue
            function = call.func
            if not isinstance(function, ast.Attribute) or function.attr not in _SETTERS:
                continue
            target, *values = [function.value, *call.args][_of_module(self._tree, function.value) :]
            if len(values) == 1 and isinstance(target, ast.Attribute) and self._held(target):
                value = values[0]
                inside = self._function(node)
                if inside is not None:
                    self._wraps |= set(self._wraps_behind(inside, value))
                    yield node, target, value

    def _held(self, node: ast.Attribute) -> bool:
        """Whether an attribute may be one of those kept: a 0-d tensor is neither indexed nor
        called.
        """
        parent = self._above.get(node)
        if node.attr not in self._names or (
            isinstance(parent, (ast.Subscript, ast.Call))
            and node in (getattr(parent, "value", None), getattr(parent, "func", None))
        ):
            return False
        if not isinstance(node.value, ast.Name) or node.value.id != "self":
            return True
        owner: ast.AST | None = node
        while owner is not None and not isinstance(owner, ast.ClassDef):
            owner = self._above.get(owner)
        return owner is self._owner or (owner is not None and self._inherits(owner))

    def _inherits(self, owner: ast.ClassDef) -> bool:
        bases = {getattr(base, "id", "") for base in owner.bases}
        return self._owner.name in bases or any(
            isinstance(node, ast.ClassDef) and node.name in bases and self._inherits(node)
            for node in self._tree.body
            if node is not owner
        )

    def _function(self, node: ast.AST) -> ast.FunctionDef | None:
        """The function around a node, if it is no lambda."""
        while node in self._above:
            node = self._above[node]
            if isinstance(node, FUNCTIONS):
                return node if isinstance(node, ast.FunctionDef) else None
        return None

    def _scope(self, function: ast.FunctionDef, wraps: set[ast.Call]) -> _Scope:
        path: list[ast.AST] = [function]
        while path[0] in self._above:
            path.insert(0, self._above[path[0]])
        names = self._proposal.file_names
        views = (
            View(names, after, self._held, wraps, self._returned[after]) for after in (False, True)
        )
        return _Scope(function, *(Kinds(view, path) for view in views))

    def _settle(self) -> None:
        """Follow the numbers through attributes that are computed from them, and through what the
        methods return, until nothing new is found.
        """
        methods = {item for item in self._owner.body if isinstance(item, ast.FunctionDef)}
        for _ in range(len(methods) + 2):
            known = set(self._names), self._returned
            inside = (self._function(read) for read in self._reads())
            functions = methods.union(function for function in inside if function is not None)
            self._scopes = [self._scope(function, self._wraps) for function in functions]
            own = [scope for scope in self._scopes if scope.function in methods]
            self._returned = [
                {scope.function.name: _returns(scope.function, scope.before) for scope in own},
                {scope.function.name: _returns(scope.function, scope.after) for scope in own},
            ]
            self._names |= {name for scope in own for name in _computed(scope)}
            if known == (self._names, self._returned):
                break

    def _reads(self) -> list[ast.Attribute]:
        return [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and self._held(node)
        ]

    # -- what is asked of it

    def concerns(self, node: ast.AST, function: ast.AST | None) -> bool:
        """Whether one of the numbers is used at a place, or goes to the function around it."""
        inside = set(ast.walk(node))
        used = any(inside & converted for converted in self._converted.values())
        return used or function in self._uses.called

    def all_whole(self) -> bool:
        """Whether every number that was put in a tensor is whole."""
        found = [
            scope.after.of(node.args[0])
            for scope in self._scopes
            for node in own_nodes(scope.function)
            if node in self._wraps and isinstance(node, ast.Call)
        ]
        return all(kind == WHOLE for kind in found)

    def set_elsewhere(self) -> bool:
        """Whether an attribute is given another value than those that become numbers."""
        numbers = {
            node.targets[0]
            for scope in self._scopes
            for node in own_nodes(scope.function)
            if isinstance(node, ast.Assign) and scope.after.of(node.value) in NUMBERS
        }
        return any(
            isinstance(node, ast.Attribute)
            and not isinstance(node.ctx, ast.Load)
            and self._held(node)
            and (node not in numbers or node.attr in self.buffers)
            for node in ast.walk(self._tree)
        )

    def by_name(self) -> bool:
        """Whether the file has an attribute's name as a string: ``getattr(conv, "stride")``."""
        known = {call.args[0] for call in self.buffers.values()}
        return any(
            isinstance(node, ast.Constant) and node.value in self._names and node not in known
            for node in ast.walk(self._tree)
        )

    def misused(self) -> str | None:
        """The first expression, as it is written, whose place is not certainly one for numbers."""
        first = self._misused[0] if self._misused else None
        if isinstance(first, ast.FunctionDef):
            return f"the result of {first.name}"
        return ast.unparse(first) if first is not None else None

    def _find_misused(self) -> Iterator[ast.AST]:
        """Expressions that become numbers where a tensor may be wanted."""
        setting = {node for statement, *_ in self._setters for node in ast.walk(statement)}
        registering = {call.args[1] for call in self.buffers.values()}
        seen = {node for those in self._converted.values() for node in those}
        yield from (read for read in self._reads() if read not in seen)
        for scope in self._scopes:
            elsewhere = self._converted[scope.function] - setting - registering
            yield from (node for node in elsewhere if not self._flows(scope, node))
            if _converts(scope, self._returned) and not self._only_called(scope.function):
                yield scope.function
        scopes = {scope.function: scope for scope in self._scopes}
        for statement, _, value in self._setters:
            inside = self._function(statement)
            if inside is None or scopes[inside].after.of(value) not in NUMBERS:
                yield statement

    def _flows(self, scope: _Scope, node: ast.AST) -> bool:
        """Whether a number may stand at a place, and is known to be one where it goes from
        there.
        """
        parent, after = self._above[node], scope.after
        if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.IfExp)) and after.of(parent) == OTHER:
            return isinstance(getattr(parent, "op", None), ast.Not)
        if isinstance(parent, ast.Return):
            return self._returned[True].get(scope.function.name) in NUMBERS
        if isinstance(parent, ast.Assign):
            target = parent.targets[0]
            if len(parent.targets) > 1:
                return False
            if isinstance(target, ast.Name):
                return not after.lost(target.id)
            return isinstance(target, ast.Attribute) and target.attr in self._names
        converted = self._converted[scope.function]
        return self._uses.fits(node, after, converted) or self._rounded(scope, node)

    def _rounded(self, scope: _Scope, node: ast.AST) -> bool:
        """Whether a number stands inside a rounding that becomes Python's."""
        call = self._above[node]
        cast = self._above[self._above[call]]
        return cast in self._converted[scope.function] and scope.after.rounded(cast) is call

    def _only_called(self, function: ast.FunctionDef) -> bool:
        """Whether a method is only called on ``self`` in its class."""
        inside = set(ast.walk(self._owner))
        for node in ast.walk(self._tree):
            quoted = isinstance(node, ast.Constant) and node.value == function.name
            reached = isinstance(node, ast.Attribute) and node.attr == function.name
            if quoted:
                return False
            if not reached or not isinstance(node, ast.Attribute):
                continue
            call = self._above[node]
            called = isinstance(call, ast.Call) and call.func is node
            if not called or node not in inside or ast.unparse(node.value) != "self":
                return False
        return True

    # -- the change

    def rewrite(self) -> None:
        """Note all changes."""
        proposal, source = self._proposal, self._proposal.source
        values = [call.args[1] for call in self.buffers.values()]
        values += [value for *_, value in self._setters]
        values += [wrap.args[0] for wrap in self._wraps]
        if any(value.lineno != value.end_lineno for value in values):
            raise Declined("the number is written over several lines")
        for name, call in self.buffers.items():
            start, end = source.span(call)
            first, last = source.span(call.args[1])
            proposal.replace(start, first, f"self.{name} = ")
            proposal.replace(last, end, "")
        gone = self._take_branches()
        for statement, target, value in self._setters:
            if statement in gone:
                continue
            start, end = source.span(statement)
            first, last = source.span(value)
            proposal.replace(start, first, f"{source.segment(target)} = ")
            proposal.replace(last, end, "")
        for wrap in self._wraps - gone:
            self._unwrap(wrap, wrap.args[0])
        for scope in self._scopes:
            self._in_python(scope)

    def _take_branches(self) -> set[ast.AST]:
        """Take out branches that only fill the buffers with what the constructor put there;
        returns all that goes.
        """
        source = self._proposal.source
        again: set[ast.stmt] = {
            statement for statement, *values in self._setters if self._same(*values)
        }
        name = self._owner.name
        bases = {name, *map(ast.unparse, self._owner.bases), "nn.Module", "object"}
        gone: set[ast.AST] = set()
        for branch in {self._above[statement] for statement in again}:
            function = self._function(branch)
            if not isinstance(branch, ast.If) or function is None:
                continue
            if only_for(branch, again, function) and may_go(branch, self._above, name, bases):
                last = branch.body[-1].end_lineno or branch.lineno
                start, end = source.line_start(branch.lineno), source.line_start(last + 1)
                self._proposal.replace(start, end, "")
                gone |= {node for part in branch.body for node in ast.walk(part)}
        return gone

    def _same(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether a value that a buffer is filled with is the one that the constructor gave it."""
        scopes = {scope.function: scope for scope in self._scopes}
        inside = self._function(value)
        made = self.buffers.get(target.attr) if isinstance(target, ast.Attribute) else None
        if inside is None or made is None or not isinstance(target, ast.Attribute):
            return False
        first = written_out(scopes[self._constructor].after, made.args[1], "self")
        second = written_out(scopes[inside].after, value, ast.unparse(target.value))
        return first is not None and first == second

    def _unwrap(self, outer: ast.AST, inner: ast.expr) -> None:
        """Leave of a call only its argument."""
        start, end = self._proposal.source.span(outer)
        first, last = self._proposal.source.span(inner)
        around = isinstance(self._above[outer], (ast.BinOp, ast.UnaryOp, ast.Attribute))
        simple = isinstance(inner, (ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.Subscript))
        opened, closed = ("(", ")") if around and not simple else ("", "")
        self._proposal.replace(start, first, opened)
        self._proposal.replace(last, end, closed)

    def _in_python(self, scope: _Scope) -> None:
        """Round as Python does, and say that the method returns a number."""
        proposal = self._proposal
        for node in self._converted[scope.function]:
            inner = scope.after.rounded(node)
            if inner is not None:
                name = f"{use_module(proposal, 'math')}.{ROUNDED[scope.after.callee(inner)]}"
                proposal.replace_node(inner.func, name)
                end = proposal.source.span(inner)[1]
                proposal.replace(end, proposal.source.span(node)[1], "")
        result = scope.function.returns
        if result is not None and _converts(scope, self._returned):
            kind = self._returned[True][scope.function.name]
            proposal.replace_node(result, "int" if kind == WHOLE else "float")


def _computed(scope: _Scope) -> Iterator[str]:
    """Attributes of ``self`` that hold what is computed from the numbers."""
    converted = scope.converted()
    for node in own_nodes(scope.function):
        if not isinstance(node, ast.Assign) or node.value not in converted:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
            yield target.attr


def _returns(function: ast.FunctionDef, kinds: Kinds) -> str | None:
    """What a method returns, whichever of its returns it takes."""
    values = [node.value for node in own_nodes(function) if isinstance(node, ast.Return)]
    return joined([kinds.of(value) for value in values if value is not None])


def _converts(scope: _Scope, returned: list[dict[str, str | None]]) -> bool:
    """Whether a method returned a tensor, and then returns a number."""
    before, after = (kinds.get(scope.function.name) for kinds in returned)
    return before not in NUMBERS and after in NUMBERS


def _of_module(tree: ast.Module, node: ast.expr) -> bool:
    """Whether a name, or the start of a dotted one, is imported."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and any(
        (alias.asname or alias.name.partition(".")[0]) == node.id
        for statement in tree.body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for alias in statement.names
    )
