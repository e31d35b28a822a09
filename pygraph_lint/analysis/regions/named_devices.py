"""Which files of a program name a device: without one, training loops wait for none."""

from __future__ import annotations

from pygraph_lint.analysis.program.facts import ModuleFacts, imports, is_program
from pygraph_lint.analysis.program.program import Program


class NamedDevices:
    """The files that name a device, that import a file which does, or that such a file imports."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[str, bool] = {}

    def named_in(self, module: ModuleFacts | None) -> bool:
        """Whether a file, one that it imports, or one that imports it, names a device."""
        if module is None or module.loops.places:
            return module is not None
        known = self._known.get(module.module)
        if known is None:
            others = (each for each in self._program.modules.values() if each.loops.places)
            known = self._known[module.module] = any(
                imports(module, each) or (imports(each, module) and is_program(each))
                for each in others
            )
            if not known:
                self._miss_imports(module)
        return known

    def _miss_imports(self, module: ModuleFacts) -> None:
        """Note that the modules which a file imports are missing, where they were not read."""
        for name in (*module.bindings.values(), *module.inner_imports):
            parts = name.split(".")
            for count in range(1, len(parts) + 1):
                self._program.module(".".join(parts[:count]))
