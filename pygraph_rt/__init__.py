"""CUDA graphs without input copies, private pools or overwritten outputs, on stock PyTorch.

`torch.compile(model, backend="pygraph")`, or `pygraph_rt.compile(model)`; `pygraph_rt.report()`
says what was done.
"""

__version__ = "0.2.0"

import importlib
import sys
from typing import Any

try:
    import torch  # noqa: F401
except ImportError:
    _MISSING = (
        "pygraph_rt needs PyTorch 2.11 or later, which is not installed here; install it with "
        "`pip install torch`, or see https://pytorch.org/get-started"
    )
    if sys.argv[0] == "-m":  # python -m pygraph_rt: a sentence instead of a traceback
        raise SystemExit(f"error: {_MISSING}") from None
    raise ImportError(_MISSING) from None

from pygraph_rt.backend import compile, pygraph
from pygraph_rt.errors import (
    DriverError,
    GraphRequired,
    OptionError,
    PygraphError,
    ReportError,
    Unprovable,
)
from pygraph_rt.options import Options
from pygraph_rt.registration import make_known
from pygraph_rt.repeated import compile_repeated_blocks
from pygraph_rt.reports.report import Report, report

__all__ = [
    "DriverError",
    "GraphRequired",
    "OptionError",
    "Options",
    "PygraphError",
    "Report",
    "ReportError",
    "Unprovable",
    "__version__",
    "compile",
    "compile_repeated_blocks",
    "pygraph",
    "report",
]

make_known()


def __getattr__(name: str) -> Any:
    """`pygraph_rt.trace` and `pygraph_rt.expect`, imported when they are first asked for."""
    if name == "trace":
        return importlib.import_module("pygraph_rt.trace")
    if name == "expect":
        return importlib.import_module("pygraph_rt.trace.expect").expect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
