"""Building the compiled helpers. Standard library only, so that packaging can load this file alone.

`build_launch` makes the extension module `_launch` out of launch.c: packaging calls it with the
package's own folder, `pygraph_rt.cuda.native.load` with a cache folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LAUNCH = Path(__file__).with_name("launch.c")
_FLAGS = ("-O2", "-shared", "-fPIC")
_SECONDS = 60
UNFINISHED = "building-"


def enabled() -> bool:
    """Whether compiled helpers may be used at all: not with PYGRAPH_RT_NATIVE=0, nor on Windows."""
    return os.environ.get("PYGRAPH_RT_NATIVE", "1") != "0" and sys.platform != "win32"


def compiler(variable: str = "CC", names: Sequence[str] = ("cc", "gcc", "clang")) -> list[str]:
    """The system's C compiler as a command, $CC or the first one found; [] without one. Or that of
    another language, by its variable and names.
    """
    given = shlex.split(os.environ.get(variable, ""))
    return given or [found for found in map(shutil.which, names) if found][:1]


def target(folder: Path, source: Path, *depends: Any) -> Path:
    """Where a helper's built file is: one for each source, machine, C library and Python, and what
    else it `depends` on.
    """
    system = (sys.platform, platform.machine(), platform.libc_ver())
    python = sysconfig.get_config_var("SOABI")
    content = source.read_bytes() + repr((*system, python, *depends)).encode()
    return folder / f"{source.stem}-{hashlib.sha256(content).hexdigest()[:20]}.so"


def private(folder: Path) -> bool:
    """Make a folder that nobody else may read or write (mode 0700), if it is not there yet; whether
    it is such a folder of this user's.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        if stat.S_IMODE(found.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError:
        return False
    return True


def trusted(file: Path) -> bool:
    """Whether a file may be loaded: a regular file of this user's that nobody else may write, and
    all of it.
    """
    try:
        found = file.lstat()
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not shared
        return own and _is_whole(file, found.st_size)
    except OSError:
        return False


def _is_whole(file: Path, size: int) -> bool:
    """Whether nothing is missing at the end of a library: to load one that is cut short may kill
    the process. The table of sections comes last (of ELF files for 64 bits; others are not looked
    at).
    """
    with file.open("rb") as opened:
        header = opened.read(64)
    if header[:5] != b"\x7fELF\x02":
        return True
    table, _, _, _, _, entry, count = struct.unpack_from("<QI5H", header, 40)
    return bool(table + entry * count <= size)


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
        handle, made = tempfile.mkstemp(".so", f"{UNFINISHED}{source.stem}-", target.parent)
        os.close(handle)
        subprocess.run(
            [*command, "-o", made, str(source), *libraries],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
        )
        with Path(made).open("rb") as written:
            os.fsync(written)
        Path(made).chmod(0o755)  # whatever the user's mask is
        check(Path(made))
        Path(made).replace(target)
    except (OSError, ImportError, subprocess.SubprocessError):
        if made:
            with contextlib.suppress(OSError):
                Path(made).unlink()
        return None
    return target


def build_launch(file: Path, check: Callable[[Path], Any] = Path.exists) -> Path | None:
    """The extension module `_launch` as `file`; None where it cannot be made."""
    command = compiler()
    if not command or not enabled():
        return None
    includes = [f"-I{sysconfig.get_paths()[name]}" for name in ("include", "platinclude")]
    return make(file, [*command, *_FLAGS, *includes], LAUNCH, _SECONDS, (), check)


def installed_launch(folder: Path) -> Path:
    """Where packaging puts the extension module, in the package's folder for it."""
    return folder / f"_launch{sysconfig.get_config_var('EXT_SUFFIX')}"
