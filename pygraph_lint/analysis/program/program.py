"""The modules, classes and functions of a project, by qualified name, through re-exports and
inheritance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.argument_values import callables_passed
from pygraph_lint.analysis.program.facts import Call, ClassFacts, FunctionFacts, ModuleFacts
from pygraph_lint.analysis.program.method_names import are_in_few_folders
from pygraph_lint.analysis.program.patches import VALIDATES
from pygraph_lint.analysis.program.unanalysed import EVERYTHING_ANALYSED, UnanalysedModules

_MAX_PARTS = 14
_FEW = 3  # classes with a method of one name


class Program:
    """What a project defines. Names are qualified; ``symbol`` leads to the defining one.

    ``unread`` are modules that exist and whose facts were not given; those of them that a question
    leads to are noted in ``missing``. ``targets`` keeps what calls lead to, by kind, target and
    name, and ``edges`` the same by function.
    """

    def __init__(
        self, modules: Iterable[ModuleFacts], unread: UnanalysedModules = EVERYTHING_ANALYSED
    ) -> None:
        self.modules = {module.module: module for module in modules}
        self.missing: set[str] = set()
        self._unread = unread
        self.functions: dict[str, FunctionFacts] = {}
        self.classes: dict[str, ClassFacts] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self.instances: dict[str, str] = {}
        self.types: dict[str, Value] = {}
        self.targets: dict[tuple[object, ...], Sequence[str]] = {}
        self.edges: dict[str, tuple[FunctionFacts, Sequence[tuple[Call, Sequence[str]]]]] = {}
        for module in self.modules.values():
            self._define(module)
        self._stars = {
            name: [star for key, star in module.bindings.items() if key[0] == "*"]
            for name, module in self.modules.items()
        }
        self._symbols: dict[str, str | None] = {}
        self._given: dict[str, frozenset[str]] = {}
        self._lineages: dict[str, tuple[str, ...]] = {}
        self.subclasses: dict[str, list[str]] = defaultdict(list)  # all below, of those with any
        for name in self.classes:
            for base in self.lineage(name)[1:]:
                self.subclasses[base].append(name)
        self._modules_of_torch = {name for name in self.classes if self._derives_module(name)}
        self._named: dict[tuple[object, ...], list[str]] = {}
        # Old and new facts of the files that were taken last; None where calls may lead elsewhere.
        self.replaced: list[tuple[ModuleFacts, ModuleFacts]] | None = None
        self._tables: dict[str, list[str]] = defaultdict(list)
        for group in self.groups:
            self._tables[group.rpartition(".")[0]].append(group)

    def _define(self, module: ModuleFacts) -> None:
        self.functions.update(module.functions)
        self.classes.update(module.classes)
        self.groups.update(module.groups)
        self.instances.update(module.instances)
        self.types.update(module.types)

    def take(self, modules: Sequence[ModuleFacts]) -> bool:
        """Take new facts of the same files; False, and nothing is taken, where other names are
        defined in them.
        """
        if [module.module for module in modules] != list(self.modules):
            return False
        new = [module for module in modules if self.modules[module.module] is not module]
        old = [self.modules[module.module] for module in new]
        if list(map(_names, new)) != list(map(_names, old)) or not all(map(self._has_all, old)):
            return False
        self.replaced = list(zip(old, new, strict=True))
        if list(map(_held, new)) != list(map(_held, old)):
            self.targets.clear()
            self.edges.clear()
            self.__dict__.pop("constructions", None)
            self.__dict__.pop("passing", None)
            self.replaced = None
        for module in new:
            self.modules[module.module] = module
        moved = [list(each.functions) for each in new] != [list(each.functions) for each in old]
        if moved:
            self.replaced = None
            for name in ("nested", "redefined"):
                self.__dict__.pop(name, None)  # their order is that of the functions
            self.functions.clear()
        for module in self.modules.values() if moved else new:
            self._define(module)
        return True

    def _has_all(self, module: ModuleFacts) -> bool:
        """Whether no other file defines one of the names of a file, too."""
        functions = (self.functions[name] is each for name, each in module.functions.items())
        classes = (self.classes[name] is each for name, each in module.classes.items())
        return all(functions) and all(classes)

    # -- names

    def module_of(self, function: str) -> ModuleFacts | None:
        """The module that has a function, by its qualified name."""
        name = function
        while name:
            name = name.rpartition(".")[0]
            if name in self.modules:
                return self.modules[name]
        return None

    def module(self, name: str, word: str = "") -> ModuleFacts | None:
        """A module by its name; None for what is not in the project, or was not read. ``word`` is
        what is looked for in it.
        """
        found = self.modules.get(name)
        if found is None and self._unread.may_define(name, word):
            self.missing.add(name)
        return found

    def symbol(self, name: str) -> str | None:
        """The defining name of a function, class, table, object or type, through re-exports; None
        for what the project lacks.
        """
        if (
            name in self.functions
            or name in self.classes
            or name in self.groups
            or name in self.instances
            or name in self.types
        ):
            return name
        if name in self._symbols:
            return self._symbols[name]
        self._symbols[name] = None
        found = self._look_up(name)
        self._symbols[name] = found
        return found

    def _look_up(self, name: str) -> str | None:
        parts = name.split(".")
        if len(parts) > _MAX_PARTS or name in self.modules or self._unread.has(name):
            return None
        for count in range(len(parts) - 1, 0, -1):
            name = ".".join(parts[:count])
            module = self.module(name, parts[count])
            if module is not None:
                return self._in_module(module, parts, count)
            if name in self.missing:
                return None
        return None

    def _in_module(self, module: ModuleFacts, parts: list[str], count: int) -> str | None:
        first, rest = parts[count], parts[count + 1 :]
        target = module.bindings.get(first)
        if target is not None and target != f"{module.module}.{first}":
            found = self.symbol(".".join([target, *rest]))
            if found is not None:
                return found
        for star in self._stars[module.module]:
            if star == module.module or self.module(star, first) is None:
                continue
            if self._unread is not EVERYTHING_ANALYSED or first in self._given_by(star):
                found = self.symbol(".".join([star, first, *rest]))
                if found is not None:
                    return found
        if len(rest) == 1:
            owner = self.symbol(".".join([*parts[:count], first]))
            if owner in self.classes:
                return self.method(owner, rest[0])
        return None

    def _given_by(self, module: str) -> frozenset[str]:
        """The names that a module defines, binds or has from others by ``import *``."""
        known = self._given.get(module)
        if known is None:
            seen, front = {module}, [module]
            while front:
                new = [star for star in self._stars.get(front.pop(), ()) if star not in seen]
                seen.update(new)
                front += new
            given = (self._own_names.get(each, ()) for each in seen)
            known = self._given[module] = frozenset(chain.from_iterable(given))
        return known

    @cached_property
    def _own_names(self) -> dict[str, set[str]]:
        """The names that each module defines or binds itself, its own modules among them."""
        found: dict[str, set[str]] = {}
        for name, module in self.modules.items():
            found.setdefault(name, set()).update(module.bindings)
            holder, _, last = name.rpartition(".")
            found.setdefault(holder, set()).add(last)
            tables = module.functions, module.classes, module.groups, module.instances, module.types
            for defined in chain.from_iterable(tables):
                found[name].add(defined[len(name) + 1 :].partition(".")[0])
        return found

    # -- classes

    def class_named(self, name: str) -> str | None:
        """The defining name of a class; None where the name means none of the project."""
        found = self.symbol(name)
        return found if found in self.classes else None

    def lineage(self, name: str) -> tuple[str, ...]:
        """A class and its bases inside the project, nearest first."""
        known = self._lineages.get(name)
        if known is not None:
            return known
        self._lineages[name] = (name,)
        order = [name]
        facts = self.classes.get(name)
        for base in facts.bases if facts is not None else ():
            target = self.class_named(base)
            if target is not None:
                order += [each for each in self.lineage(target) if each not in order]
        self._lineages[name] = tuple(order)
        return self._lineages[name]

    def feeds_data(self, name: str) -> bool:
        """Whether a class reads data for a loader: it runs on the host, outside of any region."""
        bases = (base for each in self.lineage(name) for base in self._bases(each))
        return any(base.startswith("torch.utils.data.") for base in bases)

    def drives_training(self, name: str) -> bool:
        """Whether a class is a trainer, or a callback of one: what it does runs around models."""
        lineage = self.lineage(name)
        names = [*lineage, *(base for each in lineage for base in self._bases(each))]
        return any(each.endswith(("Trainer", "Callback")) for each in names)

    def _bases(self, name: str) -> tuple[str, ...]:
        facts = self.classes.get(name)
        return facts.bases if facts is not None else ()

    def is_module(self, name: str | None) -> bool:
        """Whether a class is an ``nn.Module``."""
        return name in self._modules_of_torch

    def _derives_module(self, name: str) -> bool:
        for each in self.lineage(name):
            for base in self.classes[each].bases:
                if base in ops.MODULE_BASES or base.startswith(ops.MODULE_BASE_PREFIXES):
                    return True
                head, _, tail = base.rpartition(".")
                if head == "torch.nn" and tail[:1].isupper() and base not in ops.NOT_LAYERS:
                    return True
        return False

    def method(self, owner: str, name: str, skip: int = 0) -> str | None:
        """The qualified name of a method, along the inheritance order behind ``skip`` classes."""
        for each in self.lineage(owner)[skip:]:
            facts = self.classes.get(each)
            if facts is not None:
                found = facts.methods.get(name)
                if found is not None:
                    return found
        return None

    def attribute(self, owner: str, name: str) -> Value | None:
        """What an attribute of a class holds, along the inheritance order."""
        for each in self.lineage(owner):
            value = self.classes[each].attributes.get(name) if each in self.classes else None
            if value is not None:
                return value
        return self._set_by_name(owner, name)

    def _set_by_name(self, owner: str, name: str) -> Value | None:
        """What the constructor passes by a keyword to a method that makes attributes of them."""
        maker = self.functions.get(self.method(owner, "__init__") or "")
        for call in maker.calls if maker is not None else ():
            given = dict(call.named).get(name) if call.how in ("method", "super") else None
            if given is not None:
                method = self.functions.get(self.method(owner, call.name) or "")
                if method is not None and method.sets_by_name:
                    return given
        return None

    def called_method(self, owner: str) -> str | None:
        """The method that calling an object of a class runs."""
        return self.method(owner, "forward" if self.is_module(owner) else "__call__")

    @cached_property
    def methods_by_name(self) -> dict[str, list[str]]:
        """The methods of each name, of all classes."""
        found: dict[str, list[str]] = defaultdict(list)
        for facts in self.classes.values():
            for name, method in facts.methods.items():
                found[name].append(method)
        return found

    def takes_tensors(self, function: FunctionFacts) -> bool:
        """Whether a function has a parameter that is a tensor, or computes with a tensor that is
        made elsewhere.
        """
        if function.takes_tensors:
            return True
        values = (self.types.get(self.symbol(name) or "") for name in function.typed)
        return any(value is not None and value.is_tensor for value in values)

    @cached_property
    def nested(self) -> dict[str, list[str]]:
        """The functions inside of each function that has any."""
        found: dict[str, list[str]] = defaultdict(list)
        for name in self.functions:
            outer, mark, _ = name.partition(".<locals>.")
            if mark:
                found[outer].append(name)
        return found

    def wrappers(self, decorator: str) -> list[str]:
        """The functions in a decorator that may stand in the place of what it is given: not one
        that makes such a function.
        """
        inner = self.nested.get(decorator, [])
        making = {each.rpartition(".<locals>.")[0] for each in inner if self.functions[each].wraps}
        return [each for each in inner if each not in making]

    def is_wrapping(self, decorator: str) -> bool:
        """Whether a decorator gives a function of its own that calls what it was given."""
        inner = self.nested.get(self.symbol(decorator) or "", ())
        return any(self.functions[each].wraps for each in inner)

    @cached_property
    def redefined(self) -> dict[str, list[str]]:
        """The later definitions of each function that has several."""
        found: dict[str, list[str]] = defaultdict(list)
        for name in self.functions:
            first, again, _ = name.partition("@")
            if again and first in self.functions:
                found[first].append(name)
        return found

    @cached_property
    def constructions(self) -> dict[str, list[Call]]:
        """The calls that make objects, by the constructor that they run."""
        found: dict[str, list[Call]] = defaultdict(list)
        for function in self.functions.values():
            for call in function.calls:
                if call.how == "function" and self.symbol(call.target) in self.classes:
                    for constructor in self.constructors(call.target):
                        found[constructor].append(call)
        return found

    @cached_property
    def passing(self) -> dict[str, list[Call]]:
        """The calls that pass what may be called, by the last part of what they call."""
        found: dict[str, list[Call]] = defaultdict(list)
        for function in self.functions.values():
            for call in function.calls:
                if call.how not in ("mention", "given") and any(callables_passed(call)):
                    found[call.name or call.target.rpartition(".")[2]].append(call)
        return found

    # -- what other files mean

    @cached_property
    def patched(self) -> frozenset[str]:
        """What some file assigns to from outside, by the names that it uses."""
        return frozenset(name for module in self.modules.values() for name in module.patched)

    @cached_property
    def checks_distributions(self) -> bool:
        """Whether no file may turn off that distributions check their arguments."""
        self.missing.update(self._unread.saying("validate_args"))
        return VALIDATES not in self.patched

    def patched_in(self, module: ModuleFacts) -> frozenset[str]:
        """What some file assigns to of all that a module defines."""
        prefix = f"{module.module}."
        own = (*module.functions, *module.classes, *module.bindings)
        words = {name.rpartition(".")[2] for name in own}
        found = set()
        for name in self.patched:
            if name.startswith(prefix) or name.rpartition(".")[2] in words:
                found.add(self.symbol(name) or name)
        return frozenset(name for name in found if name.startswith(prefix))

    # -- tables

    def members(self, holder: str) -> list[str]:
        """Functions and classes kept in a module-level table, or in tables of the class of a
        module-level object.
        """
        names = list(self.groups.get(holder, ()))
        owner = self.symbol(self.instances.get(holder, ""))
        for each in self.lineage(owner) if owner in self.classes else ():
            for group in self._tables.get(each, ()):
                names += self.groups[group]
        found = [self.symbol(name) for name in names]
        return [name for name in found if name in self.functions or name in self.classes]

    def functions_named(self, name: str) -> list[str]:
        """The functions a qualified name stands for: itself, or the members of a table."""
        found = self.symbol(name)
        if found in self.groups or found in self.instances:
            return [name for name in self.members(found) if name in self.functions]
        return [found] if found in self.functions else []

    def constructors(self, name: str) -> list[str]:
        """What runs where a class, or any class of a table, is made an object of."""
        found = self.symbol(name)
        classes = self.members(found) if found in self.groups else [found]
        made = (
            self.method(each, "__init__") or self.method(each, "__post_init__")
            for each in classes
            if each in self.classes
        )
        return [each for each in made if each is not None]

    def has_method(self, name: str) -> bool:
        """Whether some class has a method of a name, or may have one where it was not read."""
        return bool(name and (self.methods_by_name.get(name) or self._unread.defining(name)))

    def methods_called(self, name: str, call: Call | None = None) -> list[str]:
        """The methods of a name that an object of an unknown class may have: those of one family
        of classes, or of very few, in few folders. ``call`` has to fit.
        """
        shape = (len(call.positional), *(keyword for keyword, _ in call.named)) if call else ()
        key = (name, *shape)
        if key not in self._named:
            found = self._in_few_folders(name)
            fitting = [each for each in found if call is None or self._takes(each, call)]
            few = len(found) <= _FEW or self._are_of_one_family(found)
            one = few or (len(fitting) > _FEW and self._are_of_one_family(fitting))
            self._named[key] = fitting if one else []
        return self._named[key]

    def _in_few_folders(self, name: str) -> list[str]:
        """The methods of a name; none where the files of many folders have one."""
        found, left_out = self.methods_by_name.get(name, []), self._unread.defining(name)
        facts = filter(None, map(self.module_of, found))
        if not are_in_few_folders({each.module for each in facts}.union(left_out)):
            return []
        self.missing.update(left_out)
        return found

    def _are_of_one_family(self, found: list[str]) -> bool:
        owners = [self.functions[each].owner for each in found if each in self.functions]
        families = {self.lineage(owner)[-1] for owner in owners}
        return len(families) == 1

    def _takes(self, function: str, call: Call) -> bool:
        facts = self.functions.get(function)
        if facts is None:
            return False
        named = {keyword for keyword, _ in call.named}
        return len(call.positional) <= len(facts.parameters) and named <= set(facts.parameters)


def _names(module: ModuleFacts) -> tuple[object, ...]:
    """What names of a file mean: all but what functions do and what attributes hold."""
    classes = module.classes.values()
    return (
        {name: function.owner for name, function in module.functions.items()},
        [(each.name, each.bases, each.registered, list(each.methods.items())) for each in classes],
        list(module.bindings.items()),
        list(module.groups.items()),
        list(module.instances.items()),
        list(module.types.items()),
        module.patched,
        module.inner_imports,
    )


def _held(module: ModuleFacts) -> tuple[object, ...]:
    """What the attributes of the classes of a file hold, what its functions take, and what may be
    called that it passes.
    """
    return (
        [each.attributes for each in module.classes.values()],
        {n: (f.parameters, f.required, f.decorators) for n, f in module.functions.items()},
        [
            (call.target, *passed)
            for function in module.functions.values()
            for call in function.calls
            if any(passed := callables_passed(call))
        ],
    )
