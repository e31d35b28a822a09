"""CUDA graphs without input copies, private pools or overwritten outputs, on stock PyTorch.

`torch.compile(model, backend="pygraph")`, or `pygraph_rt.compile(model)`; `pygraph_rt.report()`
says what was done.
"""

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError(
        "pygraph_rt needs PyTorch 2.11 or later, which is not installed here; see "
        "https://pytorch.org/get-started"
    ) from None

from .backend import compile, pygraph
from .errors import DriverError, OptionError, PygraphError, ReportError, Unprovable
from .options import Options
from .registration import make_known
from .report import Report, report

__all__ = [
    "DriverError",
    "OptionError",
    "Options",
    "PygraphError",
    "Report",
    "ReportError",
    "Unprovable",
    "compile",
    "pygraph",
    "report",
]

make_known()
