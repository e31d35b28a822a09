"""The backend's name works from a source tree that is not installed, and when it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# One process for each way, forked from one that has imported torch.
PROGRAM = """
import gc, importlib.metadata, json, os, sys
import torch
from torch._dynamo.backends.registry import lookup_backend
gc.freeze()  # nothing of it is looked through again at the end
for hidden, imported in json.loads(sys.argv[1]):
    if os.fork() == 0:
        break
    if os.wait()[1]:
        sys.exit(f"hidden: {hidden}, imported: {imported}")
else:
    sys.exit()
if hidden:
    importlib.metadata.entry_points = lambda **kw: importlib.metadata.EntryPoints(())
assert "pygraph_rt" not in sys.modules
if imported:
    import pygraph_rt
backend = lookup_backend("pygraph")
import pygraph_rt
assert backend is pygraph_rt.pygraph
"""


def test_the_name_is_known() -> None:
    ways = [(True, True)]
    if "pygraph" in importlib_names():
        ways += [(False, True), (False, False)]
    subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(ways)], cwd=ROOT, check=True)


def importlib_names() -> set[str]:
    """Names of the Dynamo backends that installed packages offer."""
    from importlib.metadata import entry_points

    return {found.name for found in entry_points(group="torch_dynamo_backends")}
