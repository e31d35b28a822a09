"""Questions about paths; what may not be looked at is not there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

# Unlike the methods of Path these raise nothing: what may not be looked at is not there.
is_file, is_folder, exists = os.path.isfile, os.path.isdir, os.path.exists


def stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Size and time of change of those files that are there."""
    found = {}
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            found[path] = (status.st_size, status.st_mtime_ns)
    return found
