"""How far a long run is."""

from __future__ import annotations

import sys
import time

_PATIENCE = 0.7  # seconds before anything is shown
_WIDTH = 24


class Progress:
    """A line on a terminal's stderr that says how far a long run is; nothing anywhere else."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = False
        self._terminal = sys.stderr.isatty()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` files are finished."""
        if not self._terminal or time.monotonic() - self._started < _PATIENCE:
            return
        if done >= total:
            self.clear()
            return
        filled = _WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        sys.stderr.write(f"\r{what:8} [{bar}] {done}/{total} files ")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r" + " " * 60 + "\r")
            sys.stderr.flush()
            self._shown = False
