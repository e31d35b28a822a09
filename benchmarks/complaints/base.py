"""What a complaint is: a program, and a symptom that a stock mode has to show in the same run."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from benchmarks.complaints import programs

MODES = ("default", "pygraph", "reduce-overhead")
STOCK = ("default", "reduce-overhead")
# A measured difference below this is no symptom.
SLOWER = 1.1
OVERWRITTEN = "overwritten by a subsequent run"

Step = Callable[[int], Any]


class Compile:
    """Compiles as one of the modes does; `eager` leaves the function as it is."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def __call__(self, function: Any, **options: Any) -> Any:
        if self.mode == "eager":
            return function
        if self.mode == "pygraph":
            return torch.compile(function, backend="pygraph", **options)
        mode = None if self.mode == "default" else self.mode
        return torch.compile(function, mode=mode, **options)


class Setup(NamedTuple):
    """Where a program runs, and whether it is only tried out in a small size."""

    device: str
    tiny: bool

    def size(self, full: int, tiny: int) -> int:
        """One of two sizes."""
        return tiny if self.tiny else full


@dataclass
class Observed:
    """What one mode did with a program.

    error: of the first failed call, empty when there was none. wrong: whether results differ from
    those of eager, and from those of default mode, which may round in another way than eager.
    records: CUDA graphs that the stock mode recorded. skips: its reasons for leaving them out.
    told: lines that the user saw. period_ms: a step once warmed up, NaN where it failed.
    reserved_mib: of torch's allocator, at most.
    """

    error: str = ""
    wrong: bool = False
    steps: int = 0
    records: int = 0
    skips: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    period_ms: float = float("nan")
    worst_ms: float = float("nan")
    reserved_mib: float = float("nan")


Seen = dict[str, Observed]


class Symptom(NamedTuple):
    """What somebody complained of. `shown` says in words what of it was seen, "" when it was
    not; `mode` is the stock mode that has to show it.
    """

    says: str
    shown: Callable[[Seen], str]
    mode: str = "reduce-overhead"


def fails(pattern: str, mode: str = "reduce-overhead") -> Symptom:
    """A call ends in an error."""

    def shown(seen: Seen) -> str:
        error = seen[mode].error
        return error if re.search(pattern, error) else ""

    return Symptom(f"fails with {pattern!r}", shown, mode)


def wrong(mode: str = "reduce-overhead") -> Symptom:
    """Results differ from those of eager, without any error."""

    def shown(seen: Seen) -> str:
        return "results differ from eager's and default mode's" if seen[mode].wrong else ""

    return Symptom("computes something else", shown, mode)


def records(least: int) -> Symptom:
    """reduce-overhead records that many graphs, or more, for one program."""

    def shown(seen: Seen) -> str:
        found = seen["reduce-overhead"]
        text = f"{found.records} graphs recorded in {found.steps} steps"
        return text if found.records >= least else ""

    return Symptom(f"records {least} graphs or more", shown)


def skips(pattern: str) -> Symptom:
    """reduce-overhead leaves CUDA graphs out, for a reason."""

    def shown(seen: Seen) -> str:
        found = (reason for reason in seen["reduce-overhead"].skips if re.search(pattern, reason))
        return next(found, "")

    return Symptom(f"no CUDA graphs, because of {pattern!r}", shown)


def warns(pattern: str) -> Symptom:
    """The user of reduce-overhead is warned."""

    def shown(seen: Seen) -> str:
        found = (line for line in seen["reduce-overhead"].told if re.search(pattern, line))
        return next(found, "")

    return Symptom(f"warns of {pattern!r}", shown)


def untold() -> Symptom:
    """reduce-overhead leaves CUDA graphs out and tells the user nothing of it."""

    def shown(seen: Seen) -> str:
        found = seen["reduce-overhead"]
        silent = bool(found.skips) and not any("cudagraph" in line for line in found.told)
        return f"not told: {found.skips[0]}" if silent else ""

    return Symptom("no CUDA graphs, and nobody is told", shown)


def slower(mode: str = "reduce-overhead", than: str = "default", by: float = SLOWER) -> Symptom:
    """A stock mode takes longer a step than another one, or than eager."""

    def shown(seen: Seen) -> str:
        ratio = seen[mode].period_ms / seen[than].period_ms
        return f"{ratio:.2f} times as long a step as {than}" if ratio >= by else ""

    return Symptom(f"{mode} is {by} times slower than {than}, or more", shown, mode)


def holds_memory(by: float = 1.2) -> Symptom:
    """reduce-overhead reserves more memory than default mode."""

    def shown(seen: Seen) -> str:
        ours, theirs = (seen[mode].reserved_mib for mode in ("reduce-overhead", "default"))
        text = f"{ours:.0f} MiB reserved, {theirs:.0f} MiB in default mode"
        return text if ours >= by * theirs else ""

    return Symptom(f"reserves {by} times the memory of default mode, or more", shown)


@dataclass(frozen=True)
class Complaint:
    """start: builds the program from a fixed seed with its parts compiled, and returns its step,
    which takes its number and returns tensors. symptoms: of which one has to be shown. warm_up:
    steps until it is timed. calls: steps that are timed together. check: the first steps, whose
    results are compared with eager's by `tolerance` (relative to the largest value). repeats: a
    step's result depends on its number alone; then these steps are made and compared again once
    the program is warm, when graphs are in use.
    """

    group: str
    start: Callable[[Compile, Setup], Step]
    symptoms: tuple[Symptom, ...]
    warm_up: int = 30
    calls: int = 20
    check: int = 6
    repeats: bool = True
    tolerance: float = 2e-3
    packages: tuple[str, ...] = ()


def names() -> list[str]:
    """All complaints, by file."""
    return sorted(found.name for found in pkgutil.iter_modules(programs.__path__))


def load(name: str) -> tuple[Complaint, list[str]]:
    """A complaint, and links to its threads."""
    module = importlib.import_module(f"{programs.__name__}.{name}")
    complaint: Complaint = module.COMPLAINT
    return complaint, re.findall(r"https://\S+", module.__doc__ or "")


def title(name: str) -> str:
    """A complaint in one line: the first of its docstring."""
    module = importlib.import_module(f"{programs.__name__}.{name}")
    return (module.__doc__ or "").strip().splitlines()[0].rstrip(".")
