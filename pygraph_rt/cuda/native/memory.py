"""The compiled helper that follows a served call's inputs and allocates its memory (memory.cpp; see
replay/inputs.py and memory/allocate.py).

It is built against this torch's headers, which takes a C++ compiler ten seconds or more. So a
process of low priority builds it when the graphs that ask for it do enough on a call together, or
one with many inputs is about to be compiled; until it is there, and where it cannot be built, the
same is done in Python. That process ends with the program, and of all processes that share a cache
folder one builds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from pygraph_rt.cuda import native
from pygraph_rt.cuda.native.build import UNFINISHED, compiler, enabled, make, private, target
from pygraph_rt.interrupts import RLock, release

SOURCE = Path(__file__).with_name("memory.cpp")
_MODULE = "pygraph_memory"
_FLAGS = ("-O2", "-std=c++20", "-shared", "-fPIC", "-w")
_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch_python")
_SECONDS = 600
# What graphs do on a call, in all, that is worth a build: inputs they follow, and four for each
# piece of memory that they take.
ENOUGH = 64
_NICE = 19
# The builder needs torch's headers, not its devices: GPUs are the program's.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
# The path of the program, which may find this package where a new interpreter does not.
_CHILD = (
    "import sys; sys.path[:] = sys.argv[2:]; from pygraph_rt.cuda.native import memory; "
    "memory.build_in_child(sys.argv[1])"
)


def built_file(folder: Path) -> Path:
    """Where the helper of this torch and this Python is, or will be."""
    versions = (torch.__version__, torch.version.git_version, sysconfig.get_config_var("SOABI"))
    return target(folder, SOURCE, _FLAGS, _LIBRARIES, *versions)


def cxx() -> list[str]:
    """The system's C++ compiler as a command; [] without one."""
    return compiler("CXX", ("c++", "g++", "clang++"))


def build(folder: Path) -> Path | None:
    """The built helper in `folder`, made when it is not there yet; None when it cannot be made."""
    found = built_file(folder)
    if found.exists():
        return found
    command = cxx()
    if not command:
        return None
    from torch.utils import cpp_extension

    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    includes = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    flags = [*_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *(f"-I{path}" for path in includes)]
    libraries = [*(f"-L{path}" for path in cpp_extension.library_paths()), *_LIBRARIES]
    # Tried in this process first: to load what is cut short may kill one.
    return make(found, [*command, *flags], SOURCE, _SECONDS, libraries, load_file)


def build_in_child(folder: str) -> None:
    """`build` at low priority, while no other process does so in this folder. Ends with the
    program, which holds the other end of the standard input.
    """
    os.nice(_NICE)
    threading.Thread(target=_end_with_the_program, daemon=True).start()
    with alone(Path(folder)):
        for file in Path(folder).glob(f"{UNFINISHED}{SOURCE.stem}-*"):
            file.unlink(missing_ok=True)  # of a builder that was ended
        build(Path(folder))


def _end_with_the_program() -> None:
    """Wait for the end of the standard input, then end this process and its compiler."""
    sys.stdin.buffer.read()
    os.killpg(os.getpgid(0), signal.SIGKILL)


@contextlib.contextmanager
def alone(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the folder's lock, which the system takes back from processes that die. Yields whether
    this process has it; it always has where it may `wait`, or on a file system without locks.
    """
    import fcntl

    with contextlib.ExitStack() as stack:
        held = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((folder / "memory.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            held = False
        except OSError:
            pass
        yield held


class Helper:
    """This process's helper. It is asked for now and then, and never waited for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Only ever tried: a forked process may get it from a thread that it has not.
        self._lock = RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._module: Any = None
        self._work = 0
        # A frozen program's executable is the program, no interpreter.
        usable = bool(sys.executable) and not getattr(sys, "frozen", False)
        self.open = usable and enabled() and private(folder)

    @cached_property
    def _file(self) -> Path:
        return built_file(self.folder)

    def ask(self, work: int = 0) -> Any:
        """The helper's module, or None. While `open` is true, another answer may come later. A
        build starts when there is ENOUGH `work` for it, all that was asked with together.
        """
        self._work += work
        try:
            try:
                if self.open and self._lock.acquire(blocking=False):
                    self._look()
            finally:
                release(self._lock)
        except (OSError, ImportError):
            self.open = False
        except BaseException:  # also one that came just before the release
            release(self._lock)
            raise
        return self._module

    def expect(self, work: int) -> None:
        """Start a build while a graph that will do ENOUGH alone is being compiled."""
        if work >= ENOUGH:
            self.ask(work)

    @property
    def building(self) -> bool:
        """Whether a build that was asked for is under way, here or in another process."""
        self.ask()
        return self.open and self._work >= ENOUGH

    def _look(self) -> None:
        """Raises OSError or ImportError where there will be no helper."""
        over = self._process is not None and self._process.poll() is not None
        if self._file.exists():
            self.open = False
            self._module = load_file(self._file)
        elif self._process is None and self._work >= ENOUGH:
            with alone(self.folder, wait=False) as nobody_builds:
                pass
            if nobody_builds:
                self.open = bool(cxx())
                if self.open:
                    self._start()
        elif over:
            self.open = False

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CHILD, str(self.folder), *map(str, sys.path)],
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.PIPE,  # its end is the program's
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the program
        )


def load_file(file: Path) -> Any:
    """The module in a file. Raises ImportError; the file stays, because another node that shares
    the folder may have a C library that takes it.
    """
    module = native.load_file(_MODULE, file)
    try:
        module.Plan, module.Views, module.Inputs  # noqa: B018
    except AttributeError as error:
        raise ImportError(str(error)) from error
    return module
