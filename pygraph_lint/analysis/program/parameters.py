"""Parameters: what annotation, default and use say that a caller passes."""

from __future__ import annotations

import ast
from functools import cached_property

from pygraph_lint.analysis.control_flow.statement_graph import defaults as defaults_of
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import KEYWORDS, PLACES, Need
from pygraph_lint.analysis.domain.symbols import symbol
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.annotations import annotated
from pygraph_lint.analysis.program.argument_values import literal_defaults
from pygraph_lint.analysis.program.facts import FunctionFacts
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.program.module_values import kind_of_constant, tensor_made_at_import
from pygraph_lint.analysis.program.names import FunctionNode
from pygraph_lint.analysis.syntax.index_masks import beside_another, called_mask, compared_name
from pygraph_lint.analysis.syntax.nodes import Body, children_but, is_constant, source_of, walk

_KNOWN = (
    ops.TENSOR_METHODS
    | ops.TENSOR_ATTRIBUTES
    | ops.NUMBER_ATTRIBUTES
    | ops.TENSOR_ONLY_ATTRIBUTES
    | {"shape", "device", "dtype", "grad_fn"}
)


_ONLY_TENSORS_HAVE = ops.TENSOR_ONLY_ATTRIBUTES | ops.TENSOR_ONLY_METHODS
# Libraries whose objects hold no tensors: images, tables, crystals, molecules.
_WITHOUT_TENSORS = ("PIL.", "pandas.", "pymatgen.", "ase.", "rdkit.")
# How parameters are called that are no tensors, but say where or of what kind one is.
_DESCRIPTIONS = {"dtype": v.DTYPE, "device": v.DEVICE}
BY_AXES = "is indexed by several axes"
# Expressions in which no name is bound, or none that is looked for.
_BINDING_NOTHING = frozenset(ast.expr.__subclasses__()) - {
    *(ast.Name, ast.NamedExpr, ast.Tuple, ast.List, ast.Starred),
}
_COMPREHENSIONS = frozenset((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
# What runs on some calls only, or later.
_SOMETIMES = _COMPREHENSIONS | {
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.IfExp, ast.BoolOp),
    *(ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
}
_TELLING = frozenset((ast.Assign, ast.Attribute, ast.Call, ast.Subscript))


class Uses:
    """How a function uses some of its parameters, as long as they are what the caller passed.

    ``shows`` has evidence, a sentence, for those that only a tensor can be; ``suggests`` for those
    with methods that arrays have; ``against`` the names that are something else, and ``tested``
    those that may be several things.
    """

    def __init__(self, module: Module, function: FunctionNode, body: Body) -> None:
        self.module = module
        self.shows: dict[str, str] = {}
        self.suggests: dict[str, str] = {}
        self.against: set[str] = set()
        self.tested: set[str] = set()
        self.function = function
        self.body = body
        self._called: dict[ast.expr, ast.Call] = {}
        self._masks: dict[str, ast.expr] = {}
        self._placed: set[str] = set()
        self._indexed: set[str] = set()
        self._tested_arms: dict[str, set[ast.AST]] = {}

    def read(self, names: set[str]) -> None:
        """Collect what is known of ``names``."""
        made_of = {name: name for name in names}
        last = _last_lines(self.function, names)
        hidden = _hidden(self.body.nodes, names)
        nodes = [
            node for node in self.body.nodes if node.__class__ in _TELLING and node not in hidden
        ]
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, (ast.Compare, ast.UnaryOp)):
                    self._masks[node.targets[0].id] = node.value
                source = _operand(node.value, names)
                if isinstance(node.value, ast.Name):
                    source = made_of.get(node.value.id, "")
                if source:
                    made_of.setdefault(node.targets[0].id, source)
            elif isinstance(node, ast.Call):
                self._called[node.func] = node
        for node in self.body.nodes:
            if isinstance(node, (ast.If, ast.IfExp)):
                self._note_arm(node)
        for node in nodes:
            if isinstance(node, ast.Attribute):
                name = self._used_name(node.value, names, made_of)
                if name and node.lineno <= last.get(name, node.lineno):
                    self._read_attribute(name, node)
            elif isinstance(node, ast.Subscript):
                self._read_subscript(node, names, last)
            elif isinstance(node, ast.Call):
                for place, argument in enumerate(node.args[:2]):
                    if argument.__class__ is ast.Name and argument.id in names:
                        name = argument.id
                        if node.lineno <= last.get(name, node.lineno):
                            self._read_argument(name, node, place)
        for name in self._placed & self._indexed:
            self.shows.setdefault(name, f"`{name}` is indexed and has a device")

    @cached_property
    def _always(self) -> set[ast.AST]:
        """The nodes that each call of the function runs, as long as it does not return before."""
        found: set[ast.AST] = set()
        stack: list[ast.AST] = children_but(self.function, _SOMETIMES)
        while stack:
            node = stack.pop()
            found.add(node)
            stack += children_but(node, _SOMETIMES)
        return found

    def _note_arm(self, node: ast.If | ast.IfExp) -> None:
        """Note an arm that only runs for one class of a name: it says nothing of the others."""
        for call in walk(node.test):
            if isinstance(call, ast.Call) and self._tests_class(call):
                name = call.args[0].id  # type: ignore[attr-defined]
                arm = node.body if isinstance(node.body, list) else [node.body]
                known = self._tested_arms.setdefault(name, set())
                known.update(inner for each in arm for inner in walk(each))

    def _tests_class(self, call: ast.Call) -> bool:
        named = isinstance(call.func, ast.Name) and call.func.id == "isinstance"
        return named and len(call.args) == 2 and isinstance(call.args[0], ast.Name)

    def _read_subscript(self, node: ast.Subscript, names: set[str], last: dict[str, int]) -> None:
        """A parameter that is indexed, or whose comparison is an index: a mask."""
        if isinstance(node.value, ast.Name):
            name = node.value.id
            if name in names and node.lineno <= last.get(name, node.lineno):
                self._indexed.add(name)
                if _by_axes(node.slice):
                    self.shows.setdefault(name, f"`{name}` {BY_AXES}")
        if isinstance(node.value, (ast.Tuple, ast.List, ast.Dict, ast.Constant)):
            return
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            mask = self._masks.get(part.id) if isinstance(part, ast.Name) else None
            name = (
                compared_name(part, names) or compared_name(mask, names) or called_mask(part, names)
            )
            indexed = isinstance(node.value, ast.Name) and node.value.id == name
            if not indexed and beside_another(mask or part):
                continue
            if name and node.lineno <= last.get(name, node.lineno):
                text = source_of(node, 40)
                self.suggests.setdefault(name, f"`{name}` is used as a tensor: {text}")

    def _used_name(self, node: ast.expr, names: set[str], made_of: dict[str, str]) -> str:
        return made_of.get(node.id, "") if isinstance(node, ast.Name) else _operand(node, names)

    def _read_attribute(self, name: str, node: ast.Attribute) -> None:
        if node in self._tested_arms.get(name, ()):
            return
        attribute = node.attr
        itself = isinstance(node.value, ast.Name) and node.value.id == name
        call = self._called.get(node)
        other = call is not None and call.args and attribute in ops.WITHOUT_ARGUMENTS
        if itself and attribute == "device":
            self._placed.add(name)
        plain = attribute in ops.TENSOR_METHODS and not call  # no method: `net.dim == 2`
        if itself and (attribute not in _KNOWN or other or plain):
            self.against.add(name)
        elif itself and attribute in _ONLY_TENSORS_HAVE:
            self.shows.setdefault(name, f"`{name}` is used as a tensor: {name}.{attribute}")
        elif attribute == "to" and self.function.name == "__init__":
            pass  # modules are moved in the same way
        elif attribute in ops.ARRAY_METHODS and call is not None and not other:
            text = source_of(node.value, 40)
            self.suggests.setdefault(name, f"`{name}` is used as a tensor: {text}.{attribute}()")

    def _read_argument(self, name: str, node: ast.Call, place: int) -> None:
        callee = node.func
        if isinstance(callee, ast.Name) and callee.id == "isinstance":
            if place == 0:
                self.tested.add(name)
            return
        taker = self.module.names.resolve(callee) or ""
        if place == 1 and taker in ops.OF_TWO_TENSORS:
            self.shows.setdefault(name, f"`{name}` is passed to {taker}")
        elif place == 0 and node in self._always and ops.takes_tensor_first(taker):
            self.suggests.setdefault(name, f"`{name}` is passed to {taker}")


def holds_of_arrays(evidence: str) -> bool:
    """Whether what shows that a value is a tensor is as true of NumPy's arrays."""
    used = " is used as a tensor: " in evidence or evidence.startswith("only a tensor has .")
    last = evidence.rpartition(".")[2].removesuffix("()")
    return evidence.endswith(BY_AXES) or (used and last in ops.OF_NUMPY_ARRAYS)


def _hidden(nodes: list[ast.AST], names: set[str]) -> set[ast.AST]:
    """The nodes of comprehensions that bind one of ``names`` themselves."""
    found: set[ast.AST] = set()
    for node in nodes:
        for each in node.generators if node.__class__ in _COMPREHENSIONS else ():  # type: ignore[attr-defined]
            bound = (part.id for part in walk(each.target) if isinstance(part, ast.Name))
            if not names.isdisjoint(bound):
                found.update(walk(node))
    return found


def _last_lines(function: FunctionNode, names: set[str]) -> dict[str, int]:
    """The line up to which a name that the function always binds again is the parameter, or what
    is calculated from it and a constant (``x = x + 1``).
    """
    last: dict[str, int] = {}
    for statement in function.body:
        if not isinstance(statement, ast.Assign):
            continue
        value = statement.value
        calculated = _operand(value, names) if isinstance(value, ast.BinOp) else ""
        for target in statement.targets:
            if isinstance(target, ast.Name) and target.id in names and target.id != calculated:
                last.setdefault(target.id, statement.end_lineno or statement.lineno)
    return last


def _by_axes(index: ast.expr) -> bool:
    """Whether an index has slices or ``...`` among several axes, as no list takes it."""
    return isinstance(index, ast.Tuple) and any(
        isinstance(part, ast.Slice)
        or (isinstance(part, ast.Constant) and (part.value is None or part.value is Ellipsis))
        for part in index.elts
    )


def _operand(node: ast.expr, names: set[str]) -> str:
    """The one of ``names`` that is compared or calculated with a constant or an attribute."""
    operands: list[ast.expr] = []
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        if not isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
            operands = [node.left, node.comparators[0]]
    elif isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        operands = [node.operand]
    used = [part.id for part in operands if isinstance(part, ast.Name) and part.id in names]
    plain = (ast.Constant, ast.Attribute) if isinstance(node, ast.Compare) else (ast.Constant,)
    others = [part for part in operands if not (isinstance(part, ast.Name) and part.id in used)]
    explained = len(used) == 1 and all(isinstance(part, plain) for part in others)
    return used[0] if explained else ""


def assigned_names(function: ast.AST) -> set[str]:
    """Names that a function binds itself: they hide the module's."""
    found: set[str] = set()
    stack: list[ast.AST] = list(getattr(function, "body", []))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        else:
            stack += children_but(node, _BINDING_NOTHING)
    return found


def parameter_names(node: FunctionNode, bound: bool) -> tuple[str, ...]:
    """The parameters a caller fills, in order."""
    arguments = node.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if bound:
        names = names[1:]
    return (*names, *(argument.arg for argument in arguments.kwonlyargs))


def bind_parameters(
    module: Module, facts: FunctionFacts, node: FunctionNode, self_name: str, body: Body
) -> dict[str, Value]:
    """Values of the parameters: annotation, else the way they are used, else what callers pass."""
    env: dict[str, Value] = {}
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    ordered = positional[1:] if self_name else positional
    defaults = defaults_of(node)
    unknown: list[str] = []
    either: list[str] = []  # annotated as a number or a tensor
    for argument in (*ordered, *arguments.kwonlyargs):
        default = defaults.get(argument.arg)
        value = _declared(module, facts.name, argument, default)
        if value.kinds & v.UNKNOWN and (not value.is_tensor or _typed(value)):
            unknown.append(argument.arg)
        if value.kinds & (v.SEQUENCE | v.MAPPING) and value.item == v.UNKNOWN_VALUE:
            value = value._replace(item=_held(facts.name, argument.arg))
        if value.kinds & ~v.NONE == v.TENSOR | v.NUMBER and not value.needs:
            either.append(argument.arg)
        env[argument.arg] = value
    if unknown:
        uses = Uses(module, node, body)
        uses.read(set(unknown))
        _note_unexplained(facts, unknown, uses, defaults)
        for name in unknown:
            env[name] = _guessed(facts.name, name, uses, defaults.get(name), env[name])
    facts.arrays += tuple(either)
    if arguments.vararg is not None:
        item = _of_places(module, facts.name, arguments.vararg)
        env[arguments.vararg.arg] = Value(v.SEQUENCE, item=item)
    _note_bound(module, facts, env, defaults)
    for name, value in env.items():
        if value.device_of is None and value.kinds & (v.TENSOR | v.SEQUENCE | v.MAPPING):
            env[name] = _housed(value, Need("param", facts.name, name))
    if arguments.kwarg is not None:
        need = Need("param", facts.name, KEYWORDS)
        env[arguments.kwarg.arg] = v.MAPPING_VALUE._replace(needs=(need,), flags=v.SYMBOL)
    return env


def _of_places(module: Module, function: str, argument: ast.arg) -> Value:
    """What ``*args`` holds."""
    item = annotated(module.names, argument.annotation, f"`*{argument.arg}`")
    if item.kinds != v.UNKNOWN:
        return item
    return symbol(Need("param", function, PLACES), f"callers pass tensors as `*{argument.arg}`")


def _held(function: str, parameter: str) -> Value:
    """What a list or a dictionary holds that is passed for a parameter."""
    why = f"callers pass tensors in `{parameter}`"
    return symbol(Need("param", function, f"{parameter}|0"), why)


def _is_of_tensors(value: Value) -> bool:
    """Whether a value may be a tensor, or several, without conditions."""
    held = v.parts(value) if value.kinds & v.SEQUENCE else ()
    return (value.is_tensor and not value.needs) or any(map(_is_of_tensors, held))


def _housed(value: Value, need: Need) -> Value:
    """A parameter's value with where its tensors are: where those are that a caller passes."""
    if value.is_tensor:
        return value._replace(device_of=need) if value.device_of is None else value
    if value.items is not None:
        places = value.keys or range(len(value.items))
        items = tuple(
            _housed(item, need._replace(name=f"{need.name}|{place}"))
            for place, item in zip(places, value.items)
        )
        return value._replace(items=items)
    if value.item is None:
        return value
    return value._replace(item=_housed(value.item, need._replace(name=f"{need.name}|0")))


def _note_bound(
    module: Module, facts: FunctionFacts, env: dict[str, Value], defaults: dict[str, ast.expr]
) -> None:
    """Note what the parameters are, and their defaults; `arrays` is known."""
    facts.typed = tuple(name for value in env.values() if (name := _typed(value)))
    facts.tensors = tuple(
        name for name, value in env.items() if value.is_tensor and not value.needs
    )
    facts.on_host = any(
        value.kinds == v.INSTANCE and value.cls.startswith(_WITHOUT_TENSORS)
        for value in env.values()
    )
    plain = [not value.kinds & ~(v.NUMBER | v.TEXT | v.NONE) for value in env.values()]
    facts.of_numbers = bool(plain) and all(plain) and not facts.owner
    facts.takes_tensors = bool(facts.arrays) or any(map(_is_of_tensors, env.values()))
    made = [name for name, default in defaults.items() if module.is_host_tensor(default)]
    tensors = tuple((name, tensor_made_at_import(name)) for name in made)
    facts.defaults = (*literal_defaults(defaults), *tensors)
    facts.switched_on = tuple(
        name for name, default in defaults.items() if is_constant(default, True)
    )


def _note_unexplained(
    facts: FunctionFacts, unknown: list[str], uses: Uses, defaults: dict[str, ast.expr]
) -> None:
    """Keep which parameters nothing in the function explains, and which of them are arrays."""
    facts.unexplained = tuple(
        name
        for name in unknown
        if not (name in uses.shows or name in uses.against or name in uses.tested)
        and _is_none(defaults.get(name))
    )
    facts.arrays = tuple(name for name in uses.suggests if name in facts.unexplained)


def _typed(value: Value) -> str:
    """The name of the type, in another file, that a value is annotated with; empty for others."""
    return value.needs[0].owner if value.needs and value.needs[0].kind == "type" else ""


def _is_none(default: ast.expr | None) -> bool:
    """Whether a parameter has no default, or None."""
    return default is None or is_constant(default, None)


def _declared(module: Module, function: str, argument: ast.arg, default: ast.expr | None) -> Value:
    """What annotation and default say of a parameter."""
    name = argument.arg
    value = annotated(module.names, argument.annotation, f"parameter `{name}`")
    if not value.kinds & v.UNKNOWN or value.is_tensor:
        if value.items and all(item.kinds == v.NUMBER for item in value.items):
            value = _numbers_or_tensors(function, name, len(value.items))
        elif value == v.NUMBER_VALUE and default is None:
            value = _number_or_tensor(function, name)
    if isinstance(default, ast.Constant):
        if default.value is None:
            return value._replace(kinds=value.kinds | v.NONE)
        if value.is_tensor:  # annotated as a tensor, but a plain value by default
            number = type(default.value) in (int, float)
            return _maybe_tensor(function, name) if number else kind_of_constant(default)
    return value


def _numbers_or_tensors(function: str, parameter: str, count: int) -> Value:
    """A parameter annotated ``tuple[int, int]``: annotations do not keep a caller from passing 0-d
    tensors.
    """
    items = (_maybe_tensor(function, parameter, f"|{place}") for place in range(count))
    return Value(v.SEQUENCE, items=tuple(items))


def _maybe_tensor(function: str, parameter: str, place: str = "") -> Value:
    """A number, unless a caller passes a tensor."""
    why = f"a caller passes a tensor {'in' if place else 'as'} `{parameter}`"
    need = Need("param", function, f"{parameter}{place}")
    return symbol(need, why)._replace(kinds=v.TENSOR | v.NUMBER)


def _number_or_tensor(function: str, parameter: str) -> Value:
    """A parameter annotated ``int``: a number, unless some caller passes nothing but a tensor."""
    why = f"a caller passes a tensor as `{parameter}`"
    need = Need("given", function, parameter)
    return v.NUMBER_VALUE._replace(needs=(need,), why=why, flags=v.SYMBOL)


def _is_number(default: ast.expr | None) -> bool:
    """Whether a default is written as a number: ``-1``, ``1 / 3``, ``-float("inf")``."""
    if isinstance(default, ast.UnaryOp):
        return isinstance(default.op, ast.USub) and _is_number(default.operand)
    if isinstance(default, ast.BinOp):
        return _is_number(default.left) and _is_number(default.right)
    if isinstance(default, ast.Call):
        return isinstance(default.func, ast.Name) and default.func.id in ("float", "int")
    if isinstance(default, ast.Attribute):
        return default.attr in ("inf", "nan", "pi", "e", "eps") and isinstance(
            default.value, (ast.Name, ast.Call)
        )
    return isinstance(default, ast.Constant) and type(default.value) in (int, float)


def _guessed(
    function: str, parameter: str, uses: Uses, default: ast.expr | None, declared: Value
) -> Value:
    """The value of a parameter that no annotation explains."""
    optional = declared.kinds & v.NONE
    described = _DESCRIPTIONS.get(parameter.rpartition("_")[2])
    if described is not None and declared.kinds & v.UNKNOWN and _is_none(default):
        return Value(described | v.NONE)
    if parameter in uses.against:
        return Value(v.INSTANCE | optional, cls=declared.cls) if _typed(declared) else declared
    if default is not None and uses.module.is_host_tensor(default):
        return v.tensor(f"`{parameter}` is a tensor by default", device=v.ON_DEVICE)
    why = uses.shows.get(parameter)
    if why:  # a caller may still pass None
        return Value(v.TENSOR | v.NONE, device=v.ON_DEVICE, why=why)
    if _typed(declared):
        return declared
    if _is_number(default):
        return _maybe_tensor(function, parameter)
    if isinstance(default, ast.Constant) and default.value not in (None, Ellipsis):
        return Value(v.TEXT if isinstance(default.value, str) else v.NUMBER)
    why = uses.suggests.get(parameter, f"a caller passes a tensor as `{parameter}`")
    return symbol(Need("param", function, parameter), why, optional)
