"""The package's own exceptions.

Each message is a full sentence that says what was found and what follows, because it is shown in
the report as it is.
"""

from __future__ import annotations


class PygraphError(Exception):
    """Base of every error that this package raises."""


class OptionError(PygraphError, ValueError):
    """An option passed to the backend has an unknown name or a value of the wrong type."""


class ReportError(PygraphError, ValueError):
    """A text is not a saved report."""


class TraceError(PygraphError, RuntimeError):
    """A trace cannot begin, or what was expected of one did not hold."""


class DriverError(PygraphError, RuntimeError):
    """A CUDA driver call failed; the message names the call and the driver's error."""


class Unprovable(PygraphError):
    """A region cannot be proven right under a CUDA graph, so its compiled code runs without one.

    The message is a clause that can follow "because": what was found, then what the user can do.
    """


class Disagreement(Unprovable):
    """Two captures hold different words in one place, and one of them looks like an address. What
    padding holds does so by chance: another two captures may agree.
    """


class GraphRequired(PygraphError, RuntimeError):
    """A call is not served by a graph although `options={"graphs": "require"}` asks for one.

    The message names the region, the user's source line and the reason.
    """
