"""Files that a reader never sees half of."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step, its folder too if it is not there; a link's target, and a pipe or
    a device as it is (`/dev/null` is not to become a file). Raises OSError; nothing is left then.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        half.write_text(text, "utf-8")
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
