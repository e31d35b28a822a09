"""What the functions of one module share: bindings, classes, attributes, module-level values."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.annotations import alias_values, annotated
from pygraph_lint.analysis.program.dependencies import DependencyTracker, tracked
from pygraph_lint.analysis.program.facts import ClassFacts, ModuleFacts, Sinks
from pygraph_lint.analysis.program.module_values import (
    fields_of_named_tuple,
    kind_of_constant,
    tensor_made_at_import,
)
from pygraph_lint.analysis.program.names import FunctionNode, Names, imports_of, module_statements
from pygraph_lint.analysis.program.tables import added, holding, is_registered, members
from pygraph_lint.analysis.syntax.literal_tests import asks_for_none
from pygraph_lint.analysis.syntax.nodes import Body, children, statements

_LOGGER_MAKERS = ("getLogger", "get_logger", "getChild", "get_dist_logger", "setup_logger")
_LOGGERS = frozenset(("loguru.logger", "absl.logging"))
_MAPPINGS = ("dict", "OrderedDict")
_NAMED_TUPLES = ("collections.namedtuple", "typing.NamedTuple")
_NO_HOST_TENSOR = ("to", "cuda", "item", "tolist", "numpy", "size", "dim")  # methods that give
_OF_NUMBERS = ("math.", "builtins.float", "builtins.int", "numpy.sqrt", "numpy.log")
_CLOSED_BASES = frozenset(("object", "abc.ABC", "typing.Generic", "typing.Protocol"))

Definition = tuple[str, FunctionNode, str]  # qualified name, node, class that owns it


class Module:
    """One module while its facts are gathered: ``facts`` is the result."""

    def __init__(
        self, tree: ast.Module, path: str, name: str, is_package: bool, sinks: Sinks
    ) -> None:
        self.tree = tree
        self.name = name
        self.is_package = is_package
        self.sinks = sinks
        self.names = Names.of_module(tree, name, is_package)
        self.bindings: dict[str, str | None] = self.names.bindings
        self.module_values: dict[str, Value] = {}
        self.class_nodes: dict[str, ast.ClassDef] = {}
        self.named_tuples: dict[str, tuple[str, ...]] = {}  # by qualified name: fields
        self.facts = ModuleFacts(path, name, is_package)
        self.facts.bindings = {key: target for key, target in self.bindings.items() if target}
        self.facts.types = alias_values(self.names)
        self.done: set[str] = set()  # functions that were run
        self.text: str | None = None  # where it is known: for a look before the costly ones
        self._parts: dict[str, bool] = {}
        self._bodies: dict[FunctionNode, Body] = {}
        self._rebound: dict[str, frozenset[str]] = {}
        self._lineages: dict[str, list[ClassFacts]] = {}
        self._collect_values()
        # Runs a function that is not run yet, for what it returns; set by the interpreter.
        self.run_first: Callable[[str], None] | None = None
        # Sees what the function that is run asks; set where runs are kept.
        self.tracker: DependencyTracker | None = None
        self.functions = _disambiguate(list(self._collect(tree.body, name, "")))
        for class_name, node in self.class_nodes.items():
            self._read_class_body(class_name, node)

    # -- what there is

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the file, in no certain order."""
        bodies: dict[ast.AST, Body] = {node: self.body(node) for _, node, _ in self.functions}
        found: list[ast.AST] = [self.tree]
        for node in found:
            below = children(node)
            if node in bodies:
                below = [each for each in below if not isinstance(each, ast.stmt)]
            found += below
        return [*found, *(each for node in found if node in bodies for each in bodies[node].nodes)]

    def body(self, function: FunctionNode) -> Body:
        """The body of a function."""
        if function not in self._bodies:
            self._bodies[function] = Body(function.body)
        return self._bodies[function]

    def may_have(self, part: str) -> bool:
        """Whether the text of the file has a part; where no text is known it may."""
        if self.text is None:
            return True
        found = self._parts.get(part)
        if found is None:
            found = self._parts[part] = part in self.text
        return found

    def _collect(self, body: list[ast.stmt], prefix: str, owner: str) -> Iterator[Definition]:
        """Functions and methods at import level, classes noted on the way."""
        for node in module_statements(body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = f"{prefix}.{node.name}"
                if owner and not _property_part(node):
                    self.facts.classes[owner].methods[node.name] = name
                    decorators = {self.names.resolve(item) for item in node.decorator_list}
                    if "functools.cached_property" in decorators:
                        self.facts.classes[owner].kept.add(node.name)
                    if _is_property(node):
                        self.facts.classes[owner].properties.add(node.name)
                yield name, node, owner
            elif isinstance(node, ast.ClassDef):
                name = f"{prefix}.{node.name}"
                bases = [
                    self.names.resolve(base.value if isinstance(base, ast.Subscript) else base)
                    for base in node.bases
                ]
                known = tuple(base for base in bases if base is not None)
                self.class_nodes[name] = node
                made = ClassFacts(name, node.lineno, known, registered=is_registered(node))
                self.facts.classes[name] = made
                yield from self._collect(node.body, name, name)

    def add_class(self, node: ast.ClassDef, prefix: str) -> list[Definition]:
        """Note a class inside a function; the methods that are new."""
        name = f"{prefix}.{node.name}"
        if name in self.class_nodes:
            return []
        self.cannot_repeat()
        self._lineages.clear()
        methods = _disambiguate(list(self._collect([node], prefix, "")))
        self._read_class_body(name, node)
        return methods

    def _collect_values(self) -> None:
        """Module-level variables: loggers, numbers, tables of functions."""
        for name, target in self.bindings.items():
            if target in _LOGGERS:
                self.module_values[name] = Value(v.OTHER, flags=v.LOGGER, cls=target)
        for node in module_statements(self.tree.body):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target_node: ast.expr = node.targets[0]
            elif isinstance(node, ast.AnnAssign):
                target_node = node.target
            else:
                continue
            put = added(node)
            if put is not None:
                self._read_table(*put)
            if isinstance(target_node, ast.Name) and node.value is not None:
                self._read_assignment(target_node.id, node.value)

    def _read_assignment(self, name: str, value: ast.expr) -> None:
        """What one module-level assignment binds."""
        value = self.names.compiled(value)
        if self._is_number(value):
            self.module_values[name] = v.NUMBER_VALUE
        elif isinstance(value, ast.Call):
            self._read_made_object(name, value)
        elif self.is_host_tensor(value):
            self.module_values[name] = tensor_made_at_import(name)
        elif isinstance(value, ast.Constant):
            self.module_values[name] = kind_of_constant(value)
        elif isinstance(value, ast.Dict):
            self.module_values[name] = v.MAPPING_VALUE
            self._read_table(name, value)
        elif isinstance(value, (ast.List, ast.Tuple, ast.Set, ast.ListComp)):
            elements = [value.elt] if isinstance(value, ast.ListComp) else value.elts
            of_tensors = bool(elements) and all(map(self.is_host_tensor, elements))
            item = tensor_made_at_import(name) if of_tensors else v.UNKNOWN_VALUE
            self.module_values[name] = Value(v.SEQUENCE, item=item)
            self._read_table(name, value)

    def _read_table(self, name: str, table: ast.expr) -> None:
        """The functions and classes that a container of the module holds, or that are added."""
        found = members(table, self.names)
        if found:
            table_name = f"{self.name}.{name}"
            found = (*self.facts.groups.get(table_name, ()), *found)
            self.facts.groups[table_name] = found
            self.module_values[name] = holding(table, found)

    def _read_made_object(self, name: str, call: ast.Call) -> None:
        """What a name of the module holds that a call makes."""
        callee = self.names.resolve(call.func) or ""
        last = callee.rpartition(".")[2]
        if isinstance(call.func, ast.Name) and call.func.id in _MAPPINGS:
            self.module_values[name] = v.MAPPING_VALUE
            self._read_table(name, call)
        if callee in _NAMED_TUPLES:
            self.named_tuples[f"{self.name}.{name}"] = fields_of_named_tuple(call)
        elif callee in self.facts.classes or (last[:1].isupper() and callee[:6] != "torch."):
            self.module_values[name] = Value(v.INSTANCE, cls=callee)
            self.facts.instances[f"{self.name}.{name}"] = callee
        if last in _LOGGER_MAKERS:
            self.module_values[name] = Value(v.OTHER, flags=v.LOGGER)
        elif self.is_host_tensor(call):
            self.module_values[name] = tensor_made_at_import(name)

    def _is_number(self, node: ast.expr) -> bool:
        """Whether an expression that is evaluated at import computes a number of numbers."""
        if isinstance(node, ast.UnaryOp):
            return self._is_number(node.operand)
        if isinstance(node, ast.BinOp):
            return self._is_number(node.left) and self._is_number(node.right)
        if isinstance(node, ast.Name):
            return self.module_values.get(node.id) == v.NUMBER_VALUE
        if isinstance(node, ast.Call):
            return (self.names.resolve(node.func) or "").startswith(_OF_NUMBERS)
        return isinstance(node, ast.Constant) and type(node.value) in (bool, int, float)

    def is_host_tensor(self, node: ast.expr) -> bool:
        """Whether an expression that is evaluated at import makes a tensor where none says where,
        or computes with one.
        """
        if isinstance(node, ast.BinOp):
            return self.is_host_tensor(node.left) or self.is_host_tensor(node.right)
        if not isinstance(node, ast.Call) or any(
            keyword.arg in ("device", None) for keyword in node.keywords
        ):
            return False
        head, _, tail = (self.names.resolve(node.func) or "").rpartition(".")
        if head == "torch":
            return tail in ops.FACTORIES | ops.FROM_DATA
        if not isinstance(node.func, ast.Attribute) or node.func.attr in _NO_HOST_TENSOR:
            return False
        return self.is_host_tensor(node.func.value)

    def _read_class_body(self, name: str, node: ast.ClassDef) -> None:
        """Attributes declared in the class body."""
        attributes = self.facts.classes[name].attributes
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                what = f"{node.name}.{statement.target.id}"
                declared = annotated(self.names, statement.annotation, what)
                both = declared.kinds & v.NUMBER and declared.kinds & v.TENSOR
                attributes[statement.target.id] = v.UNKNOWN_VALUE if both else declared
            elif isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        self._read_class_attribute(name, target.id, statement.value)

    def _read_class_attribute(self, owner: str, name: str, value: ast.expr) -> None:
        """What an assignment in the body of a class binds."""
        facts = self.facts.classes[owner]
        if isinstance(value, ast.Name) and value.id in facts.methods:
            facts.methods[name] = facts.methods[value.id]
        elif isinstance(value, ast.Constant):
            facts.attributes[name] = kind_of_constant(value)
        elif self.is_host_tensor(value):
            short = f"{owner.rpartition('.')[2]}.{name}"
            facts.attributes[name] = tensor_made_at_import(short)
        elif found := members(value, self.names):
            self.facts.groups[f"{owner}.{name}"] = found
            facts.attributes[name] = holding(value, found)

    def imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
        """What an import statement inside a function binds."""
        self.cannot_repeat()
        for name, target in imports_of(node, self.name, self.is_package):
            if name != "*":
                self.facts.inner_imports.add(target)
                yield name, target

    # -- classes

    def lineage(self, owner: str) -> Iterable[ClassFacts]:
        """A class and its bases in this file, nearest first."""
        known = self._lineages.get(owner)
        if known is None:
            found: dict[str, ClassFacts] = {}
            front = [owner]
            for name in front:
                facts = self.facts.classes.get(name)
                if facts is not None and name not in found:
                    found[name] = facts
                    front += facts.bases
            known = self._lineages[owner] = [*found.values()]
        return known

    @tracked
    def class_attribute(self, owner: str, name: str) -> Value | None:
        """What ``self.name`` is known to hold, from this file alone."""
        for facts in self.lineage(owner):
            value = facts.attributes.get(name)
            if value is not None:
                return value
        return None

    @tracked
    def is_rebound(self, owner: str, name: str) -> bool:
        """Whether a method other than the constructor binds ``self.name`` to what it computes."""
        return any(name in self._rebound_by(facts.name) for facts in self.lineage(owner))

    def _rebound_by(self, owner: str) -> frozenset[str]:
        if owner not in self._rebound:
            node = self.class_nodes.get(owner)
            methods = [
                each
                for each in (node.body if node is not None else ())
                if isinstance(each, ast.FunctionDef) and each.name != "__init__"
            ]
            self._rebound[owner] = frozenset(
                target.attr
                for method in methods
                for statement in statements(method.body)
                if isinstance(statement, ast.Assign)
                and not isinstance(statement.value, ast.Constant)
                for root in statement.targets
                for target in (root.elts if isinstance(root, ast.Tuple) else [root])
                if isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            )
        return self._rebound[owner]

    @tracked
    def is_lasting(self, owner: str) -> bool:
        """Whether a class is one of modules, as far as this file says: other objects may be made
        anew on each call.
        """
        lineage = list(self.lineage(owner))
        bases = {base for facts in lineage for base in facts.bases}
        named = any(base.endswith("Module") for base in bases)
        return named or any("forward" in facts.methods for facts in lineage)

    @tracked
    def is_unset(self, name: str) -> bool:
        """Whether a function of this file other than a constructor sets an attribute of that name
        to None, or deletes it.
        """
        return name in self._unset

    @cached_property
    def _unset(self) -> frozenset[str]:
        found = [*statements(self.tree.body)]
        made = {
            each
            for node in found
            if node.__class__ is ast.FunctionDef and node.name == "__init__"
            for each in statements(node.body)
        }
        stores: list[ast.expr] = []
        for node in found:
            if isinstance(node, ast.Delete):
                stores += node.targets
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                stores += node.targets if node.value.value is None and node not in made else ()
        return frozenset(each.attr for each in stores if isinstance(each, ast.Attribute))

    def set_attribute(self, owner: str, name: str, value: Value) -> None:
        """Remember that an attribute may hold ``value``."""
        if self.tracker is None:
            self.keep_attribute(owner, name, value)
        else:
            self.tracker.store((owner, name), value, self.keep_attribute)

    def keep_attribute(self, owner: str, name: str, value: Value) -> None:
        """The same, without telling who watches."""
        facts = self.facts.classes.get(owner)
        if facts is None:
            return
        value = v.kept(value)
        if value.const is not None:
            value = value._replace(const=None)
        old = facts.attributes.get(name)
        facts.attributes[name] = value if old is None else v.shallow(v.join(old, value), 2)

    @tracked
    def holder_of(self, name: str) -> str:
        """The one class of this file whose objects have an attribute or a property; else empty."""
        found = [
            each.name
            for each in self.facts.classes.values()
            if name in each.attributes or name in each.properties
        ]
        return found[0] if len(found) == 1 else ""

    @tracked
    def has_method(self, owner: str, name: str) -> bool:
        """Whether a class of this file, or a base in this file, defines the method."""
        return any(name in facts.methods for facts in self.lineage(owner))

    @tracked
    def is_kept(self, owner: str, name: str) -> bool:
        """Whether the class, or the nearest base in this file that defines the name, computes it
        once and keeps it.
        """
        defining = next((facts for facts in self.lineage(owner) if name in facts.methods), None)
        return defining is not None and name in defining.kept

    @tracked
    def is_property(self, owner: str, name: str) -> bool:
        """Whether reading the attribute calls a method of this file."""
        defining = next((facts for facts in self.lineage(owner) if name in facts.methods), None)
        return defining is not None and name in defining.properties

    @tracked
    def is_open(self, owner: str) -> bool:
        """Whether a class has bases outside this file that may add attributes."""
        closed = _CLOSED_BASES | ops.MODULE_BASES
        return any(
            base not in self.facts.classes and base not in closed
            for facts in self.lineage(owner)
            for base in facts.bases
        )

    # -- functions

    @tracked
    def returned(self, function: str) -> Value | None:
        """What a function of this file returns, which is run first where it was not yet."""
        if function not in self.facts.functions and self.run_first is not None:
            self.run_first(function)
        facts = self.facts.functions.get(function)
        return facts.returns if facts is not None else None

    def asks_for_none(self, function: str) -> bool | None:
        """Whether a function of this file says that its argument is None, or that it is not; None
        for other functions.
        """
        return self._asking.get(function)

    @cached_property
    def _asking(self) -> dict[str, bool]:
        """The functions that are one such test: ``return value is not None``."""
        found = {}
        for name, node, owner in self.functions:
            last = node.body[-1]
            given = [each.arg for each in node.args.args]
            if owner or len(node.body) > 1 or not isinstance(last, ast.Return):
                continue
            asked = asks_for_none(last.value) if last.value is not None else None
            left = last.value.left if isinstance(last.value, ast.Compare) else None
            if asked is not None and isinstance(left, ast.Name) and given == [left.id]:
                found[name] = asked
        return found

    def cannot_repeat(self) -> None:
        """The function that is run changes more than what attributes hold: its run is not kept."""
        if self.tracker is not None:
            self.tracker.repeatable = False


def _is_property(node: FunctionNode) -> bool:
    marks = {item.id for item in node.decorator_list if isinstance(item, ast.Name)}
    return bool(marks & {"property", "cached_property"}) or any(
        isinstance(item, ast.Attribute) and item.attr == "cached_property"
        for item in node.decorator_list
    )


def _disambiguate(functions: list[Definition]) -> list[Definition]:
    """A name that is defined again, as a fallback, is numbered. What sets or deletes a property has
    its own name: reading the property does not run it.
    """
    seen: Counter[str] = Counter()
    unique: list[Definition] = []
    for defined, node, owner in functions:
        name = ".".join((defined, *_property_part(node)))
        seen[name] += 1
        unique.append((f"{name}@{seen[name]}" if seen[name] > 1 else name, node, owner))
    return unique


def _property_part(node: FunctionNode) -> list[str]:
    """``setter`` or ``deleter`` for one of a property: ``@x.setter``."""
    marks = (item.attr for item in node.decorator_list if isinstance(item, ast.Attribute))
    return [mark for mark in marks if mark in ("setter", "deleter")][:1]
