"""The project as a whole: inheritance, the call graph, regions, and what files confirm for each
other.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

from pygraph_lint.analysis import answers, ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.events import Need
from pygraph_lint.analysis.exports import own_names
from pygraph_lint.analysis.known import ProjectView
from pygraph_lint.analysis.model import Call, ClassFacts, FunctionFacts, ModuleFacts
from pygraph_lint.analysis.nodes import short
from pygraph_lint.analysis.values import Value
from pygraph_lint.findings import Region

_DEPTH = 8000
_MAX_ROAD = 8
_MAX_PARTS = 14


def link(modules: Iterable[ModuleFacts]) -> Project:
    """Join the facts of all files of a project."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        return Project(modules)
    finally:
        sys.setrecursionlimit(limit)


class Project:
    """Answers questions that need more than one file.

    ``region(function)`` says whether and why a function runs in a compiled or captured region;
    ``confirmed(need)`` whether something that one file assumes holds in another; ``own`` has, by
    module, the functions and classes that no other file can mean, and ``left_by`` the calls of each
    function in a region to those that are kept out of compiled code.
    """

    def __init__(self, modules: Iterable[ModuleFacts]) -> None:
        self.modules = {module.module: module for module in modules}
        self.functions: dict[str, FunctionFacts] = {}
        self.classes: dict[str, ClassFacts] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self.instances: dict[str, str] = {}
        for module in self.modules.values():
            self.functions.update(module.functions)
            self.classes.update(module.classes)
            self.groups.update(module.groups)
            self.instances.update(module.instances)
        self._stars = {
            name: [star for key, star in module.bindings.items() if key[0] == "*"]
            for name, module in self.modules.items()
        }
        self._symbols: dict[str, str | None] = {}
        self._lineages: dict[str, tuple[str, ...]] = {}
        self._confirmed: dict[Need, bool] = {}
        self._nested: dict[str, list[str]] = defaultdict(list)
        self._again: dict[str, list[str]] = defaultdict(list)  # later definitions of a name
        for name in self.functions:
            first, again, _ = name.partition("@")
            if again and first in self.functions:
                self._again[first].append(name)
            outer, mark, _ = name.partition(".<locals>.")
            if mark:
                self._nested[outer].append(name)
        self._subclasses: dict[str, list[str]] = defaultdict(list)
        for name in self.classes:
            for base in self.lineage(name)[1:]:
                self._subclasses[base].append(name)
        self._is_module = {name: self._subclasses_module(name) for name in self.classes}
        self._tables: dict[str, list[str]] = defaultdict(list)
        for group in self.groups:
            self._tables[group.rpartition(".")[0]].append(group)
        self._parents: dict[str, tuple[str, str, bool]] = {}
        self._captured: set[str] = set()
        self._callers: dict[str, list[Call]] = defaultdict(list)
        self.left_by: dict[str, list[tuple[Call, str]]] = defaultdict(list)
        self._spread()
        self.own = own_names(self.modules.values())
        self._patched: set[str] | None = None
        self._views: dict[str, ProjectView] = {}

    def view(self, module: ModuleFacts) -> ProjectView:
        """What the project says about one of its files."""
        known = self._views.get(module.module)
        if known is not None:
            return known
        if self._patched is None:
            self._patched = {
                self.symbol(name) or name
                for other in self.modules.values()
                for name in other.patched
            }
        prefix = f"{module.module}."
        found = ProjectView(
            module.module,
            module.is_package,
            self.own.get(module.module, frozenset()),
            frozenset(name for name in self._patched if name.startswith(prefix)),
            frozenset(name for name in module.classes if self._subclasses.get(name)),
        )
        self._views[module.module] = found
        return found

    # -- names

    def symbol(self, name: str) -> str | None:
        """The defining name of a function or class, through re-exports; None for what the project
        lacks.
        """
        if (
            name in self.functions
            or name in self.classes
            or name in self.groups
            or name in self.instances
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
        if len(parts) > _MAX_PARTS:
            return None
        for count in range(len(parts) - 1, 0, -1):
            module = self.modules.get(".".join(parts[:count]))
            if module is None:
                continue
            first, rest = parts[count], parts[count + 1 :]
            target = module.bindings.get(first)
            if target is not None and target != f"{module.module}.{first}":
                found = self.symbol(".".join([target, *rest]))
                if found is not None:
                    return found
            for star in self._stars[module.module]:
                if star in self.modules and star != module.module:
                    found = self.symbol(".".join([star, first, *rest]))
                    if found is not None:
                        return found
            if rest:
                owner = self.symbol(".".join([*parts[:count], first])) if rest else None
                if owner in self.classes and len(rest) == 1:
                    return self.method(owner, rest[0])
            return None
        return None

    def lineage(self, name: str) -> tuple[str, ...]:
        """A class and its bases inside the project, nearest first."""
        known = self._lineages.get(name)
        if known is not None:
            return known
        self._lineages[name] = (name,)
        order = [name]
        facts = self.classes.get(name)
        for base in facts.bases if facts is not None else ():
            target = self.symbol(base)
            if target in self.classes:
                order += [each for each in self.lineage(target) if each not in order]
        self._lineages[name] = tuple(order)
        return self._lineages[name]

    def _subclasses_module(self, name: str) -> bool:
        for each in self.lineage(name):
            for base in self.classes[each].bases:
                if base in ops.MODULE_BASES or base.startswith(ops.MODULE_BASE_PREFIXES):
                    return True
                head, _, tail = base.rpartition(".")
                if head == "torch.nn" and tail[:1].isupper() and base not in ops.NOT_LAYERS:
                    return True
        return False

    def method(self, owner: str, name: str, skip: int = 0) -> str | None:
        """The qualified name of a method, along the inheritance order."""
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
        return None

    # -- regions

    def region(self, function: str) -> Region | None:
        """Why ``function`` runs in a region; None if it is not known to."""
        if function not in self._parents:
            return None
        road: list[str] = []
        name = function
        certain = self._parents[function][2]
        while name:
            parent, step, _ = self._parents[name]
            road.append(step)
            name = parent
        road.reverse()
        if len(road) > _MAX_ROAD:
            road = [*road[: _MAX_ROAD // 2], "...", *road[-_MAX_ROAD // 2 :]]
        return Region(function, tuple(road), certain, function in self._captured)

    def _spread(self) -> None:
        for module in self.modules.values():
            for root in module.roots:
                for target in self._root_targets(root.how, root.target):
                    known = set(self._parents)
                    self._enter(
                        target, "", f"{short(target)} ({root.road}, line {root.line})", True
                    )
                    if root.road.startswith("captured") or "make_graphed" in root.road:
                        self._captured |= set(self._parents) - known
        for name in self.classes:
            if self._is_module[name]:
                forward = self.classes[name].methods.get("forward")
                if forward is not None:
                    self._enter(forward, "", f"{short(forward)} (forward of an nn.Module)", False)

    def _root_targets(self, how: str, target: str) -> Iterator[str]:
        found = self.symbol(target)
        if found is None:
            owner, _, name = target.rpartition(".")
            method = self.method(owner, name) if owner in self.classes else None
            if method is not None:
                yield method
            return
        if found in self.classes:
            forward = self.method(found, "forward") or self.method(found, "__call__")
            if forward is not None:
                yield forward
        else:
            yield found

    def _enter(self, start: str, parent: str, step: str, certain: bool) -> None:
        """Everything reachable from ``start`` is in a region."""
        queue = deque([(start, parent, step)])
        while queue:
            name, parent, step = queue.popleft()
            if name in self._parents:
                continue
            facts = self.functions.get(name)
            if facts is None or facts.ends_region:
                continue
            self._parents[name] = (parent, step, certain)
            for other in self._again.get(name, ()):
                queue.append((other, name, f"is {short(name)}, defined again"))
            for decorator in facts.decorators:
                wrapper = self.symbol(decorator)
                for inner in self._nested.get(wrapper or "", ()):
                    queue.append((inner, name, f"is wrapped by {short(inner)}"))
            for call in facts.calls:
                for target in self.targets(call):
                    if call.needs and not self._possible(call.needs):
                        continue
                    if call.how != "mention" and self.functions[target].disabled:
                        self.left_by[name].append((call, target))
                    self._callers[target].append(call)
                    if target not in self._parents:
                        verb = "names" if call.how == "mention" else "calls"
                        queue.append(
                            (target, name, f"{verb} {short(target)}, line {call.span.line}")
                        )

    def _possible(self, needs: tuple[Need, ...]) -> bool:
        return all(self.confirmed(need) for need in needs if need.kind in ("true", "false"))

    def targets(self, call: Call) -> list[str]:
        """The project functions a call may reach."""
        if call.how in ("function", "mention"):
            return self._function_targets(call)
        if call.how == "super":
            found = self.method(call.target, call.name, 1)
            return [found] if found is not None else []
        owner = self.symbol(call.target)
        if owner is None or owner not in self.classes:
            return []
        if call.how == "instance":
            return self._instance_targets(owner)
        if call.how == "attribute":
            return self._held_targets(self.attribute(owner, call.name.partition("|")[0]))
        found = self.method(owner, call.name)
        targets = [found] if found is not None else []
        for subclass in self._subclasses.get(owner, ()):
            override = self.classes[subclass].methods.get(call.name)
            if override is not None:
                targets.append(override)
        if not targets:
            return self._held_targets(self.attribute(owner, call.name))
        return targets

    def _members(self, holder: str) -> list[str]:
        """Functions kept in a module-level table, or in tables of the class of a module-level
        object.
        """
        names = list(self.groups.get(holder, ()))
        owner = self.symbol(self.instances.get(holder, ""))
        for each in self.lineage(owner) if owner in self.classes else ():
            for group in self._tables.get(each, ()):
                names += self.groups[group]
        found = [self.symbol(name) for name in names]
        return [name for name in found if name in self.functions]

    def _held_targets(self, value: Value | None) -> list[str]:
        if value is None or not value.cls or value.flags & v.MODULE:
            return []
        if value.kinds & v.CALLABLE:
            return [target for name in value.cls.split(",") for target in self._named(name)]
        found = self.symbol(value.cls)
        if found in self.classes:
            return self._instance_targets(found) if value.kinds & v.INSTANCE else []
        return [found] if found is not None else []

    def _named(self, name: str) -> list[str]:
        """The functions a qualified name stands for: itself, or the members of a table."""
        found = self.symbol(name)
        if found in self.groups or found in self.instances:
            return self._members(found)
        return [found] if found in self.functions else []

    def _instance_targets(self, owner: str) -> list[str]:
        name = "forward" if self._is_module.get(owner) else "__call__"
        found = self.method(owner, name)
        return [found] if found is not None else []

    def _function_targets(self, call: Call) -> list[str]:
        found = self.symbol(call.target)
        if found in self.functions:
            return [found]
        if found in self.groups or found in self.instances:
            return self._members(found)
        if found in self.classes:
            if call.how == "mention":
                return []
            made = self.method(found, "__init__") or self.method(found, "__post_init__")
            return [made] if made is not None else []
        owner, _, name = call.target.rpartition(".")
        holder = self.symbol(owner)
        if holder in self.classes:
            method = self.method(holder, "forward" if name == "apply" else name)
            return [method] if method is not None else []
        return []

    # -- needs

    def confirmed(self, need: Need) -> bool:
        """Whether what a file assumed about another place holds."""
        known = self._confirmed.get(need)
        if known is not None:
            return known
        self._confirmed[need] = need.kind in ("true", "false")
        result = self._confirm(need)
        self._confirmed[need] = result
        return result

    def _confirm(self, need: Need) -> bool:
        if need.kind in ("true", "false"):
            return self._can_return(need.owner, need.kind == "true")
        if need.kind == "module":
            return self._is_module.get(self.symbol(need.owner) or "", False)
        if need.kind == "host":
            return any(self._returns_from_host(target) for target in self._returning(need.owner))
        if need.kind == "keeps":
            return answers.ends_graph(self, need)
        if need.kind == "asked":
            return answers.asked_first(self, need)
        first, *steps = need.name.split("|")
        if need.kind in ("param", "given"):
            return self._parameter_holds(need.owner, first, steps, need.kind == "given")
        if need.kind == "return":
            steps = [step for step in [first, *steps] if step]
            return any(self._returns_hold(target, steps) for target in self._returning(need.owner))
        owner = self.symbol(need.owner)
        if owner is None or owner not in self.classes:
            return False
        value = self.attribute(owner, first)
        if value is not None:
            return self._holds(value, steps)
        method = self.method(owner, first)
        if method is not None:
            if steps and steps[0] == "()":
                steps = steps[1:]
            return self._returns_hold(method, steps)
        return False

    def _returns_from_host(self, name: str) -> bool:
        """Whether a function returns a tensor that lives on the host."""
        facts = self.functions.get(name)
        if facts is None or facts.returns is None or not facts.returns.is_tensor:
            return False
        value = facts.returns
        if value.needs and value.needs[0].kind == "return" and value.device == v.ANYWHERE:
            return self.confirmed(Need("host", value.needs[0].owner, ""))
        return value.device == v.ON_HOST

    def _can_return(self, owner: str, outcome: bool) -> bool:
        target = self.symbol(owner)
        facts = self.functions.get(target or "")
        if facts is None or facts.returns is None:
            return True
        const = facts.returns.const
        return const is None or bool(const) == outcome

    def _parameter_holds(self, owner: str, name: str, steps: list[str], only: bool) -> bool:
        facts = self.functions.get(owner)
        if facts is None or name not in facts.parameters:
            return False
        index = facts.parameters.index(name)
        for call in self._callers.get(owner, ()):
            value = dict(call.named).get(name)
            if value is None and index < len(call.positional):
                value = call.positional[index]
            if value is None or (only and value.kinds != v.TENSOR):
                continue
            if self._holds(value, steps):
                return True
        # Nothing else is said of an argument of compiled code that has an array's methods.
        return not (steps or only) and name in facts.arrays and self._entered(owner)

    def _entered(self, function: str) -> bool:
        """Whether a region begins with this function."""
        return self._parents.get(function, ("none",))[0] == ""

    def _returning(self, owner: str) -> list[str]:
        if owner.startswith("super:"):
            holder, _, name = owner[6:].rpartition(".")
            found = self.method(holder, name, 1)
            return [found] if found is not None else []
        if "," in owner:
            return [target for name in owner.split(",") for target in self._returning(name)]
        found = self.symbol(owner)
        if found in self.functions:
            return [found]
        if found in self.groups or found in self.instances:
            return self._members(found)
        holder, _, name = owner.rpartition(".")
        cls = self.symbol(holder)
        if cls in self.classes:
            method = self.method(cls, name)
            return [method] if method is not None else []
        return []

    def _returns_hold(self, name: str, steps: list[str]) -> bool:
        facts = self.functions.get(name)
        return facts is not None and facts.returns is not None and self._holds(facts.returns, steps)

    def _holds(self, value: Value, steps: list[str]) -> bool:
        """Whether the part of ``value`` that ``steps`` lead to is a tensor."""
        if not steps:
            return value.is_tensor and all(self.confirmed(need) for need in value.needs)
        step, rest = steps[0], steps[1:]
        if value.flags & v.SYMBOL and value.needs:
            need = value.needs[0]
            if need.name.count("|") > 6:
                return False
            return self.confirmed(Need(need.kind, need.owner, "|".join([need.name, *steps])))
        if step == "()":
            return self._call_holds(value, rest)
        if step.startswith("."):
            if value.kinds & v.INSTANCE and value.cls:
                return self._confirm(Need("attr", value.cls, "|".join([step[1:], *rest])))
            return False
        if value.items is not None:
            try:
                return self._holds(value.items[int(step)], rest)
            except (ValueError, IndexError):
                return False
        if value.item is not None:
            return self._holds(value.item, rest)
        if value.is_tensor and step.lstrip("-").isdigit():
            return self._holds(value, rest)
        if value.kinds & v.INSTANCE and value.cls and step == "0":
            return self._first_field(value.cls, rest)
        return False

    def _first_field(self, cls: str, rest: list[str]) -> bool:
        """``output[0]`` of a model output class is its first tensor field."""
        owner = self.symbol(cls)
        if owner is None or owner not in self.classes:
            return False
        for value in self.classes[owner].attributes.values():
            if value.is_tensor:
                return self._holds(value, rest)
        return False

    def _call_holds(self, value: Value, rest: list[str]) -> bool:
        if value.flags & v.MODULE:
            return not rest or rest[0] in ("0", "1")
        if value.kinds & v.INSTANCE and value.cls:
            owner = self.symbol(value.cls)
            if owner in self.classes:
                return any(
                    self._returns_hold(target, rest) for target in self._instance_targets(owner)
                )
            return False
        if value.kinds & v.CALLABLE and value.cls:
            targets = [target for name in value.cls.split(",") for target in self._returning(name)]
            return any(self._returns_hold(target, rest) for target in targets)
        if value.kinds & v.SEQUENCE and value.item is not None:
            return False
        return False
