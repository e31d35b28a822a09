"""Where the host waits for the GPU; without a GPU, where it would.

Python's entry points to a tensor's values are wrapped while a trace runs. They are put back while
Dynamo compiles, so that it sees torch as it is. Indexing stays as it is: a `__getitem__` of Python
would make every tensor a sequence for C, and `torch.tensor([a, b])` of two numbers would fail. A
mask as an index needs the operator `nonzero`; without a GPU its kernel is watched. On CUDA, torch's
sync debug mode reports what is not covered, after the operation: the time of these is that of their
line until then, less other waits in it.
"""

from __future__ import annotations

import contextlib
import pkgutil
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from pygraph_rt.trace.copies import reads_its_copy
from pygraph_rt.trace.kernel import WatchedKernel
from pygraph_rt.trace.lines import MonitoredLines
from pygraph_rt.trace.model import Event, Frame
from pygraph_rt.trace.recorder import GRAPHS, Recorder, is_installed, is_users
from pygraph_rt.trace.threads import ThreadsBeside
from pygraph_rt.trace.torch_hooks import (
    is_fake,
    keep_out,
    missing,
    original_name,
    quick_sync_debug_mode,
)

ENTRY = "Python entry points"
KERNEL = "the operator nonzero"
DEBUG_MODE = "torch.cuda.set_sync_debug_mode"
_OWN = str(Path(__file__).parent)
_TORCH = Path(torch.__file__).parent
# Inductor waits here when it tunes kernels and records its own CUDA graphs, once each.
_COMPILER = tuple(
    str(path)
    for path in (
        _TORCH / "_inductor" / "runtime",
        _TORCH / "_inductor" / "cudagraph_trees.py",
        _TORCH.parent / "triton",
    )
)
_DEPTH = 60  # frames between an entry point and the user's code
_WARNING = "called a synchronizing CUDA operation"

# The result's values or its shape come from a tensor's values. C++ methods of torch.Tensor; READS
# call nothing else that is wrapped.
READS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__")
VALUES = (
    *READS,
    *("is_nonzero", "equal", "allclose", "__repr__", "__format__"),
)
SHAPES = (
    *("nonzero", "nonzero_static", "argwhere", "masked_select", "unique", "unique_consecutive"),
    *("bincount", "repeat_interleave"),
)
COPIES = ("cpu", "numpy", "to", "__array__")
SPARSE = ("coalesce", "to_sparse", "to_sparse_csr")
# Functions of torch stay as they are: compiled code has guards on them.
# What waits for the device without a tensor; distributed work is not seen by the debug mode.
WAITS = (
    ("torch.cuda", "synchronize"),
    ("torch.cuda.Stream", "synchronize"),
    ("torch.cuda.Event", "synchronize"),
    ("torch.distributed", "barrier"),
)


class _Local(threading.local):
    """Of a thread: whether it is inside of a call that is counted already."""

    inside = False


class Syncs:
    """Wraps entry points between `install` and `remove`; `compiling` puts them back for a time."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._gpu = torch.cuda.is_available() and torch.version.cuda is not None
        self._local = _Local()
        self._on_host = weakref.WeakValueDictionary[int, torch.Tensor]()
        self._known: dict[tuple[int, int, str], tuple[Event, Any]] = {}
        # Whether an instruction reads a copy, and its code, which keeps the id its own.
        self._copies: dict[tuple[int, int], tuple[bool, CodeType]] = {}
        self._kernel: WatchedKernel | None = None
        self._set_debug_mode = quick_sync_debug_mode()
        self._beside = ThreadsBeside()
        self._wrappers = list(self._make())
        self._installed = False
        self._wanted = False
        self._compiling = 0
        self.others_missed = False  # another thread ran while one compiled
        self._lock = threading.RLock()
        self._undo = contextlib.ExitStack()
        self._showwarning: Any = None
        self.lines: MonitoredLines | None = None

    def install(self) -> None:
        """Put the wrappers in place, and turn torch's sync debug mode on where there is a GPU."""
        self._wanted = True
        self._put(True)
        if not self._gpu:
            self._kernel = WatchedKernel("nonzero", "CPU", self._on_kernel)
            self._undo.callback(self._kernel.remove)
        else:
            self._undo.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message=".*debug mode is a prototype.*")
            warnings.filterwarnings("always", message=f".*{_WARNING}.*")
            before = torch.cuda.get_sync_debug_mode()
            self._undo.callback(torch.cuda.set_sync_debug_mode, before)
            torch.cuda.set_sync_debug_mode("warn")
            self._showwarning = warnings.showwarning
            warnings.showwarning = self._on_warning

    def remove(self) -> None:
        """Put torch back as it was."""
        self._wanted = False
        self._put(False)
        self._undo.close()

    def abandon(self) -> None:
        """A lock that another thread held is gone after a fork."""
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """While this lasts torch is as it was without a trace. May be nested."""
        with self._lock:
            self._compiling += 1
            self._put(False)
            self.others_missed = self.others_missed or self._beside()
        try:
            yield
        finally:
            with self._lock:
                self._compiling -= 1
                if self._compiling == 0 and self._wanted:
                    self._put(True)
            if self.lines is not None:
                self.lines.ended()

    def detectors(self) -> list[tuple[str, str | None, str]]:
        """For each kind of event: what sees it, and what that misses."""
        if self._gpu:
            graphs = None if "graphs" in missing() else GRAPHS
            return [
                ("sync", f"{DEBUG_MODE} and {ENTRY}", "waits inside C++ of other packages"),
                ("host_tensor", graphs, "code that is not compiled: its copies are syncs"),
            ]
        missed = (
            "there is no GPU, so these would wait if the tensor were on one; waits in C++, in"
            " generated code and of torch's functions (torch.unique) are not seen"
        )
        found = f"{ENTRY} and {KERNEL}" if self._kernel and self._kernel.works else ENTRY
        return [("sync", found, missed), ("host_tensor", None, "there is no GPU")]

    def _put(self, wrapped: bool) -> None:
        with self._lock:
            if self._installed == wrapped:
                return
            self._installed = wrapped
            for owner, name, inherited, original, wrapper in self._wrappers:
                if wrapped:
                    setattr(owner, name, wrapper)
                elif inherited:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)

    def _make(self) -> Iterator[tuple[Any, str, bool, Any, Any]]:
        tensor = torch.Tensor
        for name in (*VALUES, *SHAPES, *COPIES, *SPARSE, *(("cuda",) if self._gpu else ())):
            original = getattr(tensor, name, None)
            if original is not None:
                inherited = name not in vars(tensor)
                yield tensor, name, inherited, original, self._wrap(name, original)
        if self._gpu:
            for path, name in WAITS:
                owner = pkgutil.resolve_name(path)
                original = getattr(owner, name, None)
                if original is not None:
                    waits = self._wrap(f"{path}.{name}", original, always=True)
                    yield owner, name, name not in vars(owner), original, waits

    def _wrap(self, name: str, original: Any, always: bool = False) -> Any:
        """A function that calls `original`, and counts the call when it waits."""
        local, known, record = self._local, self._known, self._record
        beside, set_mode = self._beside, self._set_debug_mode
        waits, again = _waits_for(name, self._gpu), self._recorder.again
        clock, timed = time.perf_counter, self._gpu
        direct, shown = name in READS, original
        if name in ("cpu", "to"):
            original = self._remembers(original)
        read = _quick_read(original, self._recorder, set_mode if timed else None)
        waiting = _without_warning(original, set_mode, beside) if timed else original

        def call(*args: Any, **named: Any) -> Any:
            if local.inside or not (always or waits(args, named)):
                return original(*args, **named)
            caller = sys._getframe(1)
            seen = known.get((id(caller.f_code), caller.f_lasti, name))
            if seen is None and self._is_no_wait(name, args, caller):
                return original(*args, **named)
            if direct and seen is not None and not beside():
                return read(seen[0], args, self.lines)
            local.inside = True
            began = clock()
            try:
                return waiting(*args, **named)
            finally:
                local.inside = False
                took = clock() - began if timed else None
                if self.lines is not None:
                    self.lines.ended()
                if seen is not None:
                    again(seen[0], at=began, took=took)
                else:
                    record(name, ENTRY, caller, began, took)

        keep_out(call, callees=True)
        call.__name__ = name
        call.__qualname__ = getattr(shown, "__qualname__", name)
        call.__doc__ = getattr(shown, "__doc__", None)
        return call

    def _is_no_wait(self, name: str, args: tuple[Any, ...], caller: Any) -> bool:
        """Whether a copy that is on the host already is read, or a number of Python's."""
        if name == "numpy" and self._on_host.get(id(args[0])) is args[0]:
            return True
        if not self._gpu and self._reads_its_copy(caller.f_code, caller.f_lasti, name):
            return True
        return name == "item" and _is_number(args[0], caller)

    def _reads_its_copy(self, code: CodeType, offset: int, name: str) -> bool:
        key = (id(code), offset)
        if key not in self._copies:
            self._copies[key] = (reads_its_copy(code, offset, name), code)
        return self._copies[key][0]

    def _on_kernel(self) -> None:
        if not self._local.inside and not self._compiling:
            self._record("nonzero", KERNEL, sys._getframe(2), time.perf_counter(), None)

    def _remembers(self, original: Any) -> Any:
        """A copy that is on the host now: `.cpu().numpy()` waits once."""

        def call(*args: Any, **named: Any) -> Any:
            result = original(*args, **named)
            if isinstance(result, torch.Tensor) and result.device.type == "cpu":
                self._on_host[id(result)] = result
            return result

        keep_out(call, callees=True)
        return call

    def _record(
        self, operation: str, detector: str, caller: Any, began: float, took: float | None
    ) -> None:
        place = (id(caller.f_code), caller.f_lasti, operation)
        stack = _stack(caller)
        if not stack:
            return
        would = not self._gpu
        by = ", which a mask as an index calls," if detector == KERNEL else ""
        what = "an operation" if detector == DEBUG_MODE else f"`{operation}`{by}"
        event = Event(
            "sync",
            detector,
            stack[0],
            stack,
            f"{what} {'would wait' if would else 'waited'} for the GPU",
            frame=None,
            details={"operation": operation, "would": would},
        )
        event = self._recorder.add(event, operation, at=began, took=took)
        if len(stack) == 1:  # no frame between this one and the user's
            self._known[place] = (event, caller.f_code)  # which keeps the code's id its own

    def _on_warning(self, message: Any, category: Any, *args: Any, **named: Any) -> None:
        if _WARNING not in str(message):
            self._showwarning(message, category, *args, **named)
        elif not self._local.inside and not self._compiling:
            # Torch hands C++'s warnings to Python after the operation.
            caller, now = sys._getframe(2), time.perf_counter()
            took = self.lines.since(caller) if self.lines is not None else None
            self._record("unknown", DEBUG_MODE, caller, now - (took or 0.0), took)


def _quick_read(
    original: Any, recorder: Recorder, set_debug_mode: Callable[[int], None] | None
) -> Callable[[Event, tuple[Any, ...], MonitoredLines | None], Any]:
    """A function that reads a value and counts an event that is known, at the least cost; for the
    only thread of a process.
    """
    clock = time.perf_counter

    def read(event: Event, args: tuple[Any, ...], lines: MonitoredLines | None) -> Any:
        began = clock()
        if set_debug_mode is None:
            event.happened(began - recorder.began)
            return original(*args)
        set_debug_mode(0)
        try:
            return original(*args)
        finally:
            set_debug_mode(1)
            ended = clock()
            event.happened(began - recorder.began, ended - began)
            if lines is not None:
                lines.ended(ended)

    keep_out(read, callees=True)
    return read


def _without_warning(
    original: Any, set_debug_mode: Callable[[int], None], beside: Callable[[], bool]
) -> Any:
    """A function that calls `original`, which waits, without a warning of torch's debug mode.

    A warning costs more than all else that is done for a wait. The mode is that of all threads, so
    it stays where there are others: they may wait meanwhile.
    """

    def call(*args: Any, **named: Any) -> Any:
        if beside():
            return original(*args, **named)
        set_debug_mode(0)
        try:
            return original(*args, **named)
        finally:
            set_debug_mode(1)

    keep_out(call, callees=True)
    return call


def _stack(frame: Any) -> tuple[Frame, ...]:
    """From the user's frame, which comes first, to the entry point; from the innermost frame of an
    installed package where the user's is too far.

    Empty where that is too far, too, and for waits of Inductor that tunes kernels.
    """
    found: list[Frame] = []
    installed = 0
    for _ in range(_DEPTH):
        if frame is None:
            break
        code = frame.f_code
        if code.co_filename.startswith(_COMPILER):
            return ()
        if not code.co_filename.startswith(_OWN):
            found.append(Frame(code.co_filename, frame.f_lineno, original_name(code.co_name)))
            if is_users(code.co_filename) and not _is_generated(frame):
                if not is_installed(code.co_filename):
                    return tuple(reversed(found))
                installed = installed or len(found)
        frame = frame.f_back
    return tuple(reversed(found[:installed]))


def _is_generated(frame: Any) -> bool:
    """Whether this is code that Inductor has written."""
    return str(frame.f_globals.get("__name__")).startswith("torch.")


def _target(args: tuple[Any, ...], named: dict[str, Any], gpu: bool) -> str | None:
    """The kind of device that `to` is given; None where it does not wait.

    Without a GPU only devices as text count: the device of another tensor would be a GPU's.
    """
    target = named.get("device", args[1] if len(args) > 1 else None)
    if gpu and isinstance(target, torch.Tensor):
        target = target.device
    does_not_wait = named.get("non_blocking", False) or any(one is True for one in args[1:])
    if does_not_wait or not isinstance(target, (str, torch.device) if gpu else str):
        return None
    return torch.device(target).type


def _is_number(tensor: torch.Tensor, frame: Any) -> bool:
    """Whether this is a Python float that Dynamo hands to a graph in a tensor on the host."""
    code = frame.f_code
    if (code.co_filename, code.co_name) == ("<string>", "guard"):  # torch 2.11 checks it so
        return True
    if not code.co_filename.startswith("<eval_with_key>") or tensor.dtype != torch.float64:
        return False
    names = code.co_varnames[: code.co_argcount]
    return tensor.dim() == 0 and any(frame.f_locals.get(name) is tensor for name in names)


def _waits_for(name: str, gpu: bool) -> Callable[[tuple[Any, ...], dict[str, Any]], bool]:
    """Whether a call with these arguments waits; for the tensor's device only with a GPU."""
    plain = torch.Tensor

    def tensor(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        first = args[0] if args else None
        if type(first) is plain:
            return first.is_cuda if gpu else not first.is_meta
        if not isinstance(first, torch.Tensor) or first.device.type == "meta" or is_fake(first):
            return False
        return first.is_cuda or not gpu

    def by_repeats(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        repeats = named.get("repeats", args[1] if len(args) > 1 else None)
        counted = isinstance(repeats, torch.Tensor) or (repeats is None and len(args) == 1)
        return counted and named.get("output_size") is None and tensor(args, named)

    def by_target(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        target = _target(args, named, gpu)
        if gpu and target == "cuda":
            return from_host(args, named)
        return target == "cpu" and tensor(args, named)

    def from_host(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        first = args[0] if args else None
        blocking = not named.get("non_blocking", False)
        return isinstance(first, torch.Tensor) and first.is_cpu and blocking and not is_fake(first)

    special = {"repeat_interleave": by_repeats, "to": by_target, "cuda": from_host}
    return special.get(name, tensor)
