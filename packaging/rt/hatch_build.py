"""Put the runtime's code, which lies at the top of the repository, into its distributions.

A source distribution holds the code beside this file, so that it can build its own wheel. A wheel
holds the launch helper, compiled, where there is a C compiler, and is then for one Python and one
system. Otherwise, and with PYGRAPH_RT_NATIVE=0, it is pure Python, and the runtime compiles the
helper when it first needs it.
"""

from __future__ import annotations

import tempfile
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "pygraph_rt"
PLUGIN = "pytest_pygraph.py"  # a module of its own, so that pytest can load it without torch
NATIVE = f"{PACKAGE}/cuda/native"


class PackageFromRepository(BuildHookInterface):  # type: ignore[misc]
    """Adds the package, and in a wheel the compiled helper, to what is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to include; an editable install needs none."""
        if version == "editable":
            return
        here = Path(self.root)
        source = here if (here / PACKAGE).is_dir() else here.parents[1]
        included = build_data["force_include"]
        included[str(source / PLUGIN)] = PLUGIN
        for path in sorted((source / PACKAGE).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and not _built(path):
                included[str(path)] = path.relative_to(source).as_posix()
        if self.target_name == "wheel":
            self._compiled = tempfile.TemporaryDirectory()
            self._add_helper(source, Path(self._compiled.name), build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, once it is in the wheel."""
        if self.target_name == "wheel" and version != "editable":
            self._compiled.cleanup()

    def _add_helper(self, source: Path, folder: Path, build_data: dict[str, Any]) -> None:
        """Compile the launch helper, if that is possible here, and tag the wheel accordingly."""
        build = _module(source / NATIVE / "build.py")
        file = build.build_launch(build.installed_launch(folder), _load)
        if file is None:
            self.app.display_info(f"{PACKAGE}: no C compiler or no Python headers: pure Python")
            return
        build_data["force_include"][str(file)] = f"{NATIVE}/{file.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _built(path: Path) -> bool:
    """Whether a file is a helper that somebody compiled in the repository."""
    return path.suffix in (".so", ".pyd")


def _load(compiled: Path) -> None:
    """Import the helper. Raises ImportError where this Python cannot."""
    loader = ExtensionFileLoader("_launch", str(compiled))
    _module(compiled, "_launch", loader)


def _module(path: Path, name: str = "build", loader: Any = None) -> ModuleType:
    """A file of the package as a module. The package itself cannot be imported without torch."""
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
