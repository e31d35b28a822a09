"""The compiled helpers of the hot path; without them everything works the same in Python.

`_launch` patches and launches, at a third of the host time for each patched node, and fills the
stack for a capture. It is an extension module that is built with the package where there is a C
compiler, and otherwise on request, at once, into a cache folder. The other helper is in memory.py.
PYGRAPH_RT_NATIVE=0 turns both off.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from pygraph_rt.cuda.native.build import LAUNCH, build_launch, enabled, private, target, trusted

_MODULE = "pygraph_rt.cuda.native._launch"


@cache
def load(folder: Path) -> Any:
    """`launch(table's address, stream)` of the helper (see launch.c); None when there is none.

    The interpreter lock is let go of during a call, because a launch may wait for room in the
    GPU's queue.
    """
    if not enabled():
        return None
    try:
        return import_module(_MODULE).launch
    except ImportError:  # not built with the package
        file = built_in(folder)
    try:
        return None if file is None else load_file(_MODULE, file).launch
    except (ImportError, AttributeError):  # it stays: another node's C library may take it
        return None


def fill_stack(folder: Path) -> Any:
    """`fill_stack(byte)` of the helper (see capture/operators.py); None when there is none."""
    launch = load(folder)
    return None if launch is None else launch.__self__.fill_stack


def built_in(folder: Path) -> Path | None:
    """The helper in a cache `folder`, built when it is not there yet; None when it cannot be."""
    if not private(folder):
        return None
    file = target(folder, LAUNCH)
    if not file.exists():
        return build_launch(file, lambda made: load_file(_MODULE, made))
    return file


def load_file(name: str, file: Path) -> Any:
    """The module in a file. Raises ImportError, also where the file is not this user's alone."""
    if not trusted(file):
        raise ImportError(f"{file} may have been written by another user")
    spec = spec_from_file_location(name, file, loader=ExtensionFileLoader(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
