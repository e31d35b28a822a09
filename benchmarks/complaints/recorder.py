"""Counts what torch's own CUDA graphs do: graphs recorded, and reasons to leave them out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.complaints.base import Observed
from benchmarks.rows import without_paths

_SKIP = "log_cudagraph_skip_and_bump_counter"
_MODULES = ("cudagraph_utils", "cudagraph_trees", "compile_fx", "output_code")


class Recorder:
    """While `counting` for a program, graphs that torch records and its reasons for skipping are
    noted there. The originals are called with what they were given.
    """

    def __init__(self) -> None:
        self._now: Observed | None = None
        from torch._inductor import compile_fx as _compile_fx  # noqa: F401  (imports the others)
        from torch._inductor import cudagraph_trees

        manager: Any = cudagraph_trees.CUDAGraphTreeManager
        manager.record_function = self._recording(manager.record_function)
        for name in _MODULES:
            module: Any = sys.modules.get(f"torch._inductor.{name}")
            if hasattr(module, _SKIP):
                setattr(module, _SKIP, self._skipping(getattr(module, _SKIP)))

    @contextlib.contextmanager
    def counting(self, seen: Observed) -> Iterator[None]:
        """Note it for this program."""
        before, self._now = self._now, seen
        try:
            yield
        finally:
            self._now = before

    def _recording(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def record_function(*args: Any, **kwargs: Any) -> Any:
            if self._now is not None:
                self._now.records += 1
            return original(*args, **kwargs)

        return record_function

    def _skipping(self, original: Callable[[str], None]) -> Callable[[str], None]:
        def skip(message: str) -> None:
            if self._now is not None:
                self._now.skips.append(without_paths(" ".join(message.split()))[:300])
            original(message)

        return skip
