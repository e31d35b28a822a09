"""What the functions of one module share: bindings, classes, attributes; and the order they are
run in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.algebra import symbol
from pygraph_lint.analysis.annotations import Annotations
from pygraph_lint.analysis.answers import (
    asked_on_import,
    head,
    keeps_answer,
    last_import,
    loaded_by,
)
from pygraph_lint.analysis.events import Need
from pygraph_lint.analysis.exports import exported
from pygraph_lint.analysis.model import ClassFacts, FunctionFacts, ModuleFacts, Root, Sinks
from pygraph_lint.analysis.names import FunctionNode, Names, imports_of, module_statements
from pygraph_lint.analysis.parameters import assigned_names, used_as_arrays, used_as_tensors
from pygraph_lint.analysis.statements import Interpreter
from pygraph_lint.analysis.values import Value

_LOGGER_MAKERS = ("getLogger", "get_logger", "getChild", "get_dist_logger", "setup_logger")
_LOGGERS = frozenset(("loguru.logger", "absl.logging"))
_CLOSED_BASES = frozenset(("object", "abc.ABC", "typing.Generic", "typing.Protocol"))


class ModuleContext(Annotations):
    """One module while its facts are gathered. ``fill`` does it; ``facts`` is the result."""

    interpreter: type[Interpreter] = Interpreter

    def __init__(
        self, tree: ast.Module, path: str, module: str, is_package: bool, sinks: Sinks
    ) -> None:
        self.tree = tree
        self.module = module
        self.is_package = is_package
        self.sinks = sinks
        self.names = Names.of_module(tree, module, is_package)
        self.bindings: dict[str, str | None] = self.names.bindings
        self.module_values: dict[str, Value] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self.class_nodes: dict[str, ast.ClassDef] = {}
        self.facts = ModuleFacts(path, module, is_package)
        self.done: set[str] = set()

    # -- the whole file

    def fill(self, has_roots: bool) -> None:
        """Collect classes and functions, then interpret them: constructors first."""
        self.facts.bindings = {name: target for name, target in self.bindings.items() if target}
        self.collect_values()
        functions = _told_apart(list(self.collect(self.tree.body, self.module, "")))
        for class_name, class_node in self.class_nodes.items():
            self.class_level(class_name, class_node)
        for name, node, owner in functions:
            if owner and node.name == "__init__":
                self.interpret(name, node, owner)
        for name, node, owner in functions:
            self.interpret(name, node, owner)
        if has_roots:
            self.interpret_module()
        self.facts.groups = self.groups
        above = head(self.tree.body)
        self.facts.asked = tuple(asked_on_import(self.tree.body, self.names))
        self.facts.asked_above = tuple(asked_on_import(above, self.names))
        self.facts.loads = tuple(loaded_by(above, self.module, self.is_package))
        self.facts.last_import = last_import(self.tree)
        self.facts.exported = exported(self.tree)

    def collect(
        self, body: list[ast.stmt], prefix: str, owner: str
    ) -> Iterator[tuple[str, FunctionNode, str]]:
        """Functions and methods at import level, classes noted on the way."""
        for node in module_statements(body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = f"{prefix}.{node.name}"
                if owner:
                    self.facts.classes[owner].methods[node.name] = name
                    decorators = {self.names.resolve(item) for item in node.decorator_list}
                    if "functools.cached_property" in decorators:
                        self.facts.classes[owner].kept.add(node.name)
                yield name, node, owner
            elif isinstance(node, ast.ClassDef):
                name = f"{prefix}.{node.name}"
                bases = []
                for base in node.bases:
                    inner = base.value if isinstance(base, ast.Subscript) else base
                    resolved = self.names.resolve(inner)
                    if resolved is not None:
                        bases.append(resolved)
                self.class_nodes[name] = node
                self.facts.classes[name] = ClassFacts(name, node.lineno, tuple(bases))
                yield from self.collect(node.body, name, name)

    def collect_values(self) -> None:
        """Module-level variables: loggers, numbers, tables of functions."""
        for name, target in self.bindings.items():
            if target in _LOGGERS:
                self.module_values[name] = Value(v.OTHER, flags=v.LOGGER)
        for node in module_statements(self.tree.body):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target_node: ast.expr = node.targets[0]
            elif isinstance(node, ast.AnnAssign):
                target_node = node.target
            else:
                continue
            if isinstance(target_node, ast.Name) and node.value is not None:
                self.module_value(target_node.id, node.value)

    def module_value(self, name: str, value: ast.expr) -> None:
        """What one module-level assignment binds."""
        if isinstance(value, ast.Call):
            callee = self.names.resolve(value.func) or ""
            if callee in self.facts.classes or (
                callee.rpartition(".")[2][:1].isupper() and callee[:6] != "torch."
            ):
                self.module_values[name] = Value(v.INSTANCE, cls=callee)
                self.facts.instances[f"{self.module}.{name}"] = callee
            if callee.rpartition(".")[2] in _LOGGER_MAKERS:
                self.module_values[name] = Value(v.OTHER, flags=v.LOGGER)
        elif isinstance(value, ast.Constant):
            self.module_values[name] = _kind_of_constant(value)
        elif isinstance(value, ast.Dict):
            found = self.functions_in(value)
            if found:
                self.groups[f"{self.module}.{name}"] = found
                self.module_values[name] = Value(v.MAPPING, item=Value(v.CALLABLE | v.UNKNOWN))
            else:
                self.module_values[name] = v.MAPPING_VALUE
        elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
            self.module_values[name] = v.SEQUENCE_VALUE

    def functions_in(self, table: ast.Dict) -> tuple[str, ...]:
        """The project's functions that a dictionary literal holds."""
        held = [
            self.names.resolve(value)
            for value in table.values
            if isinstance(value, (ast.Name, ast.Attribute))
        ]
        return tuple(name for name in held if name and not name.startswith("torch."))

    def class_level(self, name: str, node: ast.ClassDef) -> None:
        """Attributes declared in the class body."""
        attributes = self.facts.classes[name].attributes
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                what = f"{node.name}.{statement.target.id}"
                attributes[statement.target.id] = self.annotated(statement.annotation, what)
            elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        attributes[target.id] = _kind_of_constant(statement.value)
            elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
                found = self.functions_in(statement.value)
                for target in statement.targets:
                    if isinstance(target, ast.Name) and found:
                        self.groups[f"{name}.{target.id}"] = found

    def interpret_module(self) -> None:
        """The module's own statements: where scripts compile, capture and call."""
        facts = FunctionFacts(f"{self.module}.<module>", "", 1, ())
        skipped = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
        body = [node for node in self.tree.body if not isinstance(node, skipped)]
        self.guarded(self.interpreter(self, facts, {}), body, facts)

    # -- functions

    def interpret(
        self, name: str, node: FunctionNode, owner: str, closure: dict[str, Value] | None = None
    ) -> None:
        """Run one function abstractly and keep what was seen."""
        if name in self.done:
            return
        self.done.add(name)
        marks = {
            decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)
        }
        bound = bool(owner) and "staticmethod" not in marks
        facts = FunctionFacts(name, owner, node.lineno, _parameter_names(node, bound))
        self.decorators(node, facts)
        facts.keeps_answer = not owner and keeps_answer(node, self.names)
        env = dict(closure or {})
        self_name = ""
        ordered = [*node.args.posonlyargs, *node.args.args]
        if bound and ordered:
            self_name = ordered[0].arg
            env[self_name] = Value(v.INSTANCE, cls=owner)
            ordered = ordered[1:]
        self.parameters(facts, node, ordered, owner, self_name, env)
        interpreter = self.interpreter(self, facts, env)
        interpreter.self_name = "" if "classmethod" in marks else self_name
        interpreter.locals = set(env) | assigned_names(node)
        self.guarded(interpreter, node.body, facts)
        if node.returns is not None and facts.returns is not None:
            declared = self.annotated(node.returns, "")
            if not declared.kinds & v.UNKNOWN and facts.returns.kinds & v.UNKNOWN:
                why = f"{node.name}() is annotated to return a tensor"
                facts.returns = declared._replace(why=why) if declared.is_tensor else declared

    def guarded(self, interpreter: Interpreter, body: list[ast.stmt], facts: FunctionFacts) -> None:
        """Run a body; code nested beyond reason is left without facts rather than stopping the
        run.
        """
        try:
            interpreter.run(body)
        except RecursionError:
            return
        interpreter.note_uses()
        facts.events += interpreter.events.values()
        facts.calls += interpreter.calls.values()
        self.facts.functions[facts.name] = facts

    def parameters(
        self,
        facts: FunctionFacts,
        node: FunctionNode,
        ordered: list[ast.arg],
        owner: str,
        self_name: str,
        env: dict[str, Value],
    ) -> None:
        """Values of the parameters: annotation, else the way they are used, else what callers
        pass.
        """
        arguments = node.args
        defaults: dict[str, ast.expr] = {}
        if arguments.defaults:
            for argument, default in zip(reversed(ordered), reversed(arguments.defaults)):
                defaults[argument.arg] = default
        for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults):
            if keyword_default is not None:
                defaults[argument.arg] = keyword_default
        unknown: list[str] = []
        for argument in (*ordered, *arguments.kwonlyargs):
            value = v.UNKNOWN_VALUE
            if argument.annotation is not None:
                value = self.annotated(argument.annotation, f"parameter `{argument.arg}`")
            if value.kinds & v.UNKNOWN and not value.is_tensor:
                unknown.append(argument.arg)
            elif value.items and all(item.kinds == v.NUMBER for item in value.items):
                value = _numbers_or_tensors(facts.name, argument.arg, len(value.items))
            elif value == v.NUMBER_VALUE and argument.arg not in defaults:
                value = _number_or_tensor(facts.name, argument.arg)
            default_node = defaults.get(argument.arg)
            if isinstance(default_node, ast.Constant):
                if default_node.value is None:
                    value = value._replace(kinds=value.kinds | v.NONE)
                elif value.is_tensor:  # annotated as a tensor, but a plain value by default
                    value = _kind_of_constant(default_node)
            env[argument.arg] = value
        if unknown:
            used = used_as_tensors(node, set(unknown), self_name, self.layer_names(owner))
            open_ones = {p for p in unknown if p not in used and p not in defaults}
            arrays = used_as_arrays(node, open_ones) if open_ones else {}
            facts.arrays = tuple(arrays)
            for parameter in unknown:
                env[parameter] = _guessed(
                    facts.name, parameter, used, arrays, defaults.get(parameter), env[parameter]
                )
        if arguments.vararg is not None:
            item = self.annotated(arguments.vararg.annotation, f"`*{arguments.vararg.arg}`")
            env[arguments.vararg.arg] = Value(v.SEQUENCE, item=item)
        if arguments.kwarg is not None:
            env[arguments.kwarg.arg] = v.MAPPING_VALUE

    def layer_names(self, owner: str) -> frozenset[str]:
        """Attributes of a class that hold layers of torch.nn which take one tensor."""
        facts = self.facts.classes.get(owner)
        if facts is None:
            return frozenset()
        return frozenset(name for name, value in facts.attributes.items() if value.flags & v.MODULE)

    def decorators(self, node: FunctionNode, facts: FunctionFacts) -> None:
        """What decorators say about regions."""
        names = []
        for decorator in node.decorator_list:
            inner = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = self.names.resolve(inner)
            if name == "functools.partial" and isinstance(decorator, ast.Call) and decorator.args:
                name = self.names.resolve(decorator.args[0])
            if name is None:
                continue
            if name in ops.COMPILERS:
                self.facts.roots.append(
                    Root("function", facts.name, f"decorated with {name}", node.lineno)
                )
            elif name in ops.REGION_ENDS:
                facts.ends_region = True
                facts.disabled = name in ops.DISABLERS
            elif not name.startswith(("torch.", "functools.", "typing.")):
                names.append(name)
        facts.decorators = tuple(names)

    def nested(self, node: FunctionNode, outer: Interpreter) -> str:
        """A function defined inside another one; it sees the names around it."""
        name = f"{outer.function.name}.<locals>.{node.name}"
        for key in outer.origins.values():  # the inner function may use what this one made
            outer.loads.setdefault(key, set()).add((node.lineno, -1))
        if name not in self.done:
            self.interpret(name, node, "", dict(outer.env))
        return name

    def imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
        """What an import statement inside a function binds."""
        for name, target in imports_of(node, self.module, self.is_package):
            if name != "*":
                self.facts.inner_imports.add(target)
            yield name, target

    # -- classes

    def lineage(self, owner: str) -> Iterator[ClassFacts]:
        """A class and its bases in this file, nearest first."""
        seen: set[str] = set()
        stack = [owner]
        while stack:
            name = stack.pop(0)
            facts = self.facts.classes.get(name)
            if facts is None or name in seen:
                continue
            seen.add(name)
            yield facts
            stack.extend(facts.bases)

    def class_attribute(self, owner: str, name: str) -> Value | None:
        """What ``self.name`` is known to hold, from this file alone."""
        for facts in self.lineage(owner):
            value = facts.attributes.get(name)
            if value is not None:
                return value
        return None

    def set_attribute(self, owner: str, name: str, value: Value) -> None:
        """Remember that an attribute may hold ``value``."""
        facts = self.facts.classes.get(owner)
        if facts is None:
            return
        if value.const is not None:
            value = value._replace(const=None)
        old = facts.attributes.get(name)
        facts.attributes[name] = value if old is None else v.shallow(v.join(old, value), 2)

    def has_method(self, owner: str, name: str) -> bool:
        """Whether a class of this file, or a base in this file, defines the method."""
        return any(name in facts.methods for facts in self.lineage(owner))

    def is_kept(self, owner: str, name: str) -> bool:
        """Whether the class, or the nearest base in this file that defines the name, computes it
        once and keeps it.
        """
        defining = next((facts for facts in self.lineage(owner) if name in facts.methods), None)
        return defining is not None and name in defining.kept

    def is_open(self, owner: str) -> bool:
        """Whether a class has bases outside this file that may add attributes."""
        for facts in self.lineage(owner):
            for base in facts.bases:
                if base not in self.facts.classes and base not in _CLOSED_BASES | ops.MODULE_BASES:
                    return True
        return False


def _told_apart(
    functions: list[tuple[str, FunctionNode, str]],
) -> list[tuple[str, FunctionNode, str]]:
    """A name that is defined again (property setters, fallbacks) gets its line added."""
    seen: set[str] = set()
    told: list[tuple[str, FunctionNode, str]] = []
    for name, node, owner in functions:
        told.append((f"{name}@{node.lineno}" if name in seen else name, node, owner))
        seen.add(name)
    return told


def _numbers_or_tensors(function: str, parameter: str, count: int) -> Value:
    """A parameter annotated ``tuple[int, int]``: annotations do not keep a caller from passing 0-d
    tensors.
    """
    why = f"a caller passes a tensor in `{parameter}`"
    needs = (Need("param", function, f"{parameter}|{place}") for place in range(count))
    items = (symbol(need, why)._replace(kinds=v.TENSOR | v.NUMBER) for need in needs)
    return Value(v.SEQUENCE, items=tuple(items))


def _number_or_tensor(function: str, parameter: str) -> Value:
    """A parameter annotated ``int``: a number, unless it is asked for a size."""
    why = f"a caller passes a tensor as `{parameter}`"
    return v.NUMBER_VALUE._replace(needs=(Need("given", function, parameter),), why=why)


def _guessed(
    function: str,
    parameter: str,
    used: dict[str, str],
    arrays: dict[str, str],
    default: ast.expr | None,
    declared: Value,
) -> Value:
    """The value of a parameter that no annotation explains."""
    optional = declared.kinds & v.NONE
    why = used.get(parameter)
    if why:
        return Value(v.TENSOR | optional, device=v.ON_DEVICE, why=why)
    if isinstance(default, ast.Constant) and default.value is not None:
        return Value(v.TEXT if isinstance(default.value, str) else v.NUMBER)
    if why is None:
        need = Need("param", function, parameter)
        why = arrays.get(parameter, f"a caller passes a tensor as `{parameter}`")
        return symbol(need, why, optional)
    return declared


def _kind_of_constant(node: ast.Constant) -> Value:
    if isinstance(node.value, str):
        return v.TEXT_VALUE
    if node.value is None:
        return Value(v.NONE | v.UNKNOWN)
    return v.NUMBER_VALUE


def _parameter_names(node: FunctionNode, bound: bool) -> tuple[str, ...]:
    arguments = node.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if bound:
        names = names[1:]
    return (*names, *(argument.arg for argument in arguments.kwonlyargs))
