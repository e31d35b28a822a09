"""Put the runtime's code, which lies at the top of the repository, into its distributions.

A source distribution holds the code beside this file, so that it can build its own wheel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "pygraph_rt"


class PackageFromRepository(BuildHookInterface):  # type: ignore[misc]
    """Adds the package to what is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to include; an editable install needs none."""
        if version == "editable":
            return
        here = Path(self.root)
        source = here if (here / PACKAGE).is_dir() else here.parents[1]
        included = build_data["force_include"]
        for path in sorted((source / PACKAGE).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                included[str(path)] = path.relative_to(source).as_posix()
