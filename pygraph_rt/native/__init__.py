"""The compiled helper of the hot path, built on first use with the system's C compiler.

Triton needs that compiler anyway. Without one, or on a system it cannot build for, everything
works the same through ctypes, at more host time for each updated node.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("launch.c")
_FLAGS = ("-O2", "-shared", "-fPIC")
_SECONDS = 60


def compiler() -> list[str] | None:
    """The system's C compiler as a command: $CC, or the first one found."""
    given = shlex.split(os.environ.get("CC", ""))
    if given:
        return given
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    return [found] if found else None


def build(folder: Path) -> Path | None:
    """The built helper in `folder`, made when it is not there yet; None when it cannot be made.

    Processes may do this at the same time: each writes a file of its own and puts it in place in
    one step.
    """
    if sys.platform == "win32":
        return None
    source = SOURCE.read_bytes()
    key = hashlib.sha256(
        source + repr((sys.platform, platform.machine(), _FLAGS)).encode()
    ).hexdigest()[:20]
    target = folder / f"launch-{key}.so"
    if target.exists():
        return target
    command = compiler()
    if command is None:
        return None
    made = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(".so", "launch-", folder)
        os.close(handle)
        subprocess.run(
            [*command, *_FLAGS, "-o", made, str(SOURCE)],
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )
        Path(made).replace(target)
    except (OSError, subprocess.SubprocessError):
        if made:
            _remove(Path(made))
        return None
    return target


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink()


@cache
def load(folder: Path) -> Any:
    """`pygraph_launch` of the helper, as a ctypes function of a table's address and a stream;
    None when there is none.

    The interpreter lock is let go of during a call, because a launch may wait for room in the
    GPU's queue.
    """
    built = build(folder)
    if built is None:
        return None
    try:
        function = ctypes.CDLL(str(built)).pygraph_launch
    except (OSError, AttributeError):  # a file cut short by a full disk, say
        _remove(built)
        return None
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int
    return function
