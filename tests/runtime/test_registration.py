"""The backend's name works from a source tree that is not installed, and when it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import importlib.metadata, sys
if {hidden}:
    importlib.metadata.entry_points = lambda **kw: importlib.metadata.EntryPoints(())
import torch
if {imported}:
    import pygraph_rt
from torch._dynamo.backends.registry import lookup_backend
backend = lookup_backend("pygraph")
import pygraph_rt
print(backend is pygraph_rt.pygraph)
"""


@pytest.mark.parametrize(("hidden", "imported"), [(True, True), (False, True), (False, False)])
def test_the_name_is_known(hidden: bool, imported: bool) -> None:
    if not hidden:
        installed = importlib_names()
        if "pygraph" not in installed:
            pytest.skip("the package is not installed here")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(hidden=hidden, imported=imported)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.stdout.strip() == "True", result.stderr


def importlib_names() -> set[str]:
    """Names of the Dynamo backends that installed packages offer."""
    from importlib.metadata import entry_points

    return {found.name for found in entry_points(group="torch_dynamo_backends")}
