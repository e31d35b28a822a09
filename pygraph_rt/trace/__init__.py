"""Record what really happened: graph breaks, recompilations, syncs, with the user's lines.

`pygraph_rt.trace` is this module and can be called: `with pygraph_rt.trace() as t:`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A module that makes a `Trace` when it is called."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        return importlib.import_module("pygraph_rt.trace.session").Trace(*args, **named)


sys.modules[__name__].__class__ = _Callable
