"""What a framework's program is, and how its steps are counted."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.frameworks import programs
from benchmarks.runtime.measure import synchronize

MODES = ("default", "reduce-overhead", "pygraph")
# Steps under the profiler, behind the timed ones.
PROFILED = 3
_KEPT = 5


class How:
    """Compiles a module in place, or a function, as one of the modes does."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `torch.compile`."""
        if self.mode == "pygraph":
            return {"backend": "pygraph"}
        return {} if self.mode == "default" else {"mode": self.mode}

    def module(self, model: nn.Module, **more: Any) -> None:
        """Compile a module's calls."""
        if self.mode != "eager":
            model.compile(**self.options, **more)

    def function(self, function: Any, **more: Any) -> Any:
        """A function, compiled."""
        return function if self.mode == "eager" else torch.compile(function, **self.options, **more)


class Meter:
    """Counts a loop's steps: times those after `warm`, keeps the values of the first ones."""

    def __init__(
        self,
        warm: int,
        steps: int,
        profile: bool = False,
        planned: int | None = None,
        alone: AbstractContextManager[None] | None = None,
    ) -> None:
        """`planned`: steps of the usual run, where this one is shorter. `alone`: held while steps
        are timed.
        """
        self.total = warm + steps + (PROFILED if profile else 0)
        self.planned = planned or warm + steps
        self.values: list[torch.Tensor] = []
        self.ms = float("nan")
        # Largest values while it warms up and afterwards.
        self.memory = dict[str, int]()
        self.kernels = self.in_graphs = 0.0
        self._warm, self._steps, self._count = warm, steps, 0
        self._started = 0.0
        self._profile: Any = None
        self._served = 0.0
        self._alone = alone or nullcontext()

    def tick(self, value: torch.Tensor | None = None) -> None:
        """A step is over; `value` is compared with eager's where it is one of the first."""
        if value is not None and len(self.values) < _KEPT:
            self.values.append(value.detach().double().cpu().clone())
        self._count += 1
        if self._count == self._warm:
            synchronize()
            if torch.cuda.is_available():
                self.memory["warm_up_reserved_mib"] = torch.cuda.max_memory_reserved() >> 20
                torch.cuda.reset_peak_memory_stats()
            self._alone.__enter__()
            self._started = time.perf_counter()
        elif self._count == self._warm + self._steps:
            synchronize()
            self.ms = (time.perf_counter() - self._started) / self._steps * 1e3
            if torch.cuda.is_available():
                self.memory["reserved_mib"] = torch.cuda.max_memory_reserved() >> 20
                self.memory["allocated_mib"] = torch.cuda.max_memory_allocated() >> 20
            self._alone.__exit__(None, None, None)
            if self.total > self._count:
                self._begin_profile()
        elif self._count == self.total and self._profile is not None:
            self._end_profile()

    def _begin_profile(self) -> None:
        if not torch.cuda.is_available():
            return
        from torch.profiler import ProfilerActivity, profile

        self._served = nodes_served()
        self._profile = profile(activities=[ProfilerActivity.CUDA])
        self._profile.start()

    def _end_profile(self) -> None:
        synchronize()
        self._profile.stop()
        self.kernels = sum(str(e.device_type).endswith("CUDA") for e in self._profile.events())
        self.in_graphs = nodes_served() - self._served


def nodes_served() -> float:
    """Graph nodes launched so far, as far as regions are alive."""
    import pygraph_rt

    regions = pygraph_rt.report().to_dict()["regions"]
    return float(sum(region["served"] * region["nodes"] for region in regions))


class Setup(NamedTuple):
    """Where a program runs, and whether it is only tried out in a small size."""

    device: str
    tiny: bool

    def size(self, full: int, tiny: int) -> int:
        """One of two sizes."""
        return tiny if self.tiny else full


class Framework(NamedTuple):
    """packages: that it imports. loop: runs `meter.total` steps of the framework's own loop, with
    `meter.tick` after each. warm: steps until it is timed; steps: that are timed. tolerance: of the
    first values, relative to the largest, beside default mode's.
    """

    packages: tuple[str, ...]
    loop: Callable[[How, Meter, Setup], None]
    warm: int = 60
    steps: int = 120
    tolerance: float = 2e-2


def names() -> list[str]:
    """All frameworks, by file."""
    return sorted(found.name for found in pkgutil.iter_modules(programs.__path__))


def load(name: str) -> Framework:
    """A framework's program."""
    found: Framework = importlib.import_module(f"{programs.__name__}.{name}").FRAMEWORK
    return found
