"""When the worker collects garbage: never while somebody waits for an answer."""

from __future__ import annotations

import gc

# Seconds without work after which nobody is expected to wait.
QUIET = 1.0
# So many new objects are too many to leave until then.
_MANY = 1_000_000


class Garbage:
    """Python's collector would look at all facts of a project, a second for a large one, in the
    middle of an edit. Facts stay for good and hold no cycles: once read they are set aside.
    """

    def __init__(self) -> None:
        self.read = False  # whether facts of files were read and not set aside yet
        self.swept = True  # whether nothing was done since it was quiet

    def take_over(self) -> None:
        """Nothing is collected by itself any more."""
        gc.disable()

    def when_idle(self) -> None:
        """Nothing is left to do for the moment."""
        if gc.get_count()[0] > _MANY:
            if self.read:
                gc.freeze()
            else:
                gc.collect()
            self.read = False
        self.swept = False

    def when_quiet(self) -> None:
        """Nothing was to do for a while."""
        gc.collect()
        self.swept = True
