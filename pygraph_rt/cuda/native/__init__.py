"""The compiled helpers of the hot path, built on first use with the system's compilers.

`launch.c` is built here, at once: Triton needs a C compiler anyway. Without one, or on a system it
cannot build for, everything works the same through ctypes, at more host time for each updated
node. The other helper is in memory.py.
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
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("launch.c")
_FLAGS = ("-O2", "-shared", "-fPIC")
_SECONDS = 60


def compiler(variable: str = "CC", names: Sequence[str] = ("cc", "gcc", "clang")) -> list[str]:
    """The system's C compiler as a command, $CC or the first one found; [] without one. Or that of
    another language, by its variable and names.
    """
    given = shlex.split(os.environ.get(variable, ""))
    return given or [found for found in map(shutil.which, names) if found][:1]


def target(folder: Path, source: Path, *depends: Any) -> Path:
    """Where a helper's built file is: one for each source, machine, and what else it `depends`
    on.
    """
    content = source.read_bytes() + repr((sys.platform, platform.machine(), *depends)).encode()
    return folder / f"{source.stem}-{hashlib.sha256(content).hexdigest()[:20]}.so"


def make(
    target: Path,
    command: Sequence[str],
    source: Path,
    seconds: float,
    libraries: Sequence[str] = (),
    check: Callable[[Path], Any] = Path.exists,
) -> Path | None:
    """`target`, made by a compiler's `command` out of `source` and `libraries`; None where that
    fails, or where `check` raises ImportError for what was made.

    Processes may do this at the same time: each writes a file of its own and puts it in place in
    one step.
    """
    made = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(".so", f"{source.stem}-", target.parent)
        os.close(handle)
        subprocess.run(
            [*command, "-o", made, str(source), *libraries],
            check=True,
            capture_output=True,
            timeout=seconds,
        )
        check(Path(made))
        Path(made).replace(target)
    except (OSError, ImportError, subprocess.SubprocessError):
        if made:
            remove(Path(made))
        return None
    return target


def build(folder: Path) -> Path | None:
    """The built helper in `folder`, made when it is not there yet; None when it cannot be made."""
    if sys.platform == "win32":
        return None
    built = target(folder, SOURCE, _FLAGS)
    if built.exists():
        return built
    command = compiler()
    return make(built, [*command, *_FLAGS], SOURCE, _SECONDS) if command else None


def remove(file: Path) -> None:
    """Remove a file that nobody can use."""
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
        remove(built)
        return None
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int
    return function
