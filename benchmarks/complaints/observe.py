"""One complaint in a process of its own: prints one JSON object as its last line.

Each mode builds the program and warms up, one after the other, with results compared with eager's;
then the modes that work are timed round by round.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

import pygraph_rt
from benchmarks.complaints.base import MODES, STOCK, Compile, Complaint, Observed, Seen, Setup
from benchmarks.complaints.base import load as load_complaint
from benchmarks.complaints.recorder import Recorder
from benchmarks.rows import add_row_options, known_regions, without_paths
from benchmarks.runtime.measure import end_with_the_parent, spread, synchronize, turn

# Seconds: of warming up a mode after its first steps, of all timed rounds at least and at most, of
# one mode's part of a round at least.
_WARM_UP, _TIMED, _LONGEST, _PART = 4.0, 2.5, 8.0, 0.02
_ROUNDS = 101
# Timed until a median is this exact: quartiles apart over the median, over the root of the rounds.
_EXACT = 0.004
_ASKED_AFTER = 16
_SHOWN = 6
REGION = ("state", "reason", "served", "unserved", "graphs", "nodes", "choice", "choice_why")


def tensors(result: Any) -> list[torch.Tensor]:
    """All tensors in a step's result, as copies."""
    if isinstance(result, torch.Tensor):
        return [result.detach().clone()]
    if isinstance(result, dict):
        result = list(result.values())
    parts = result if isinstance(result, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors(part)]


def differ(found: list[torch.Tensor], expected: list[torch.Tensor], tolerance: float) -> bool:
    """Whether results differ by more than the tolerance, relative to the largest value."""
    if len(found) != len(expected):
        return True
    for ours, theirs in zip(found, expected, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return True
        a, b = ours.double(), theirs.double()
        scale = b.abs().max().item() if b.numel() else 0.0
        if not torch.allclose(a, b, rtol=0.0, atol=tolerance * max(scale, 1e-6), equal_nan=True):
            return True
    return False


@contextlib.contextmanager
def told_to_the_user(lines: list[str]) -> Iterator[None]:
    """Collect what is written to standard error meanwhile, each line once, without paths."""
    saved = os.dup(2)
    with tempfile.TemporaryFile() as room:
        os.dup2(room.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            room.seek(0)
            text = room.read().decode("utf-8", "replace")
    shown = (without_paths(line).strip()[:300] for line in text.splitlines())
    lines += dict.fromkeys(line for line in shown if line)


def in_use(device: str) -> tuple[float, float]:
    """MiB: reserved by torch's allocator at most since the last reset, and taken on the GPU."""
    if device != "cuda":
        return math.nan, math.nan
    free, whole = torch.cuda.mem_get_info()
    return torch.cuda.max_memory_reserved() / 2**20, (whole - free) / 2**20


def before(device: str) -> tuple[float, float]:
    """Give back what is free, and begin to count anew."""
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return in_use(device)


class Program:
    """A complaint's program in one mode."""

    def __init__(self, complaint: Complaint, mode: str, setup: Setup, recorder: Recorder) -> None:
        self.mode, self.seen = mode, Observed()
        self.results: list[list[torch.Tensor]] = []
        self.later: list[list[torch.Tensor]] = []
        self.row: dict[str, Any] = {}
        self._complaint, self._setup, self._recorder = complaint, setup, recorder
        self._step: Any = None

    def step(self, number: int | None = None) -> Any:
        """The next step, or the one with a number."""
        with self._recorder.counting(self.seen):
            result = self._step(self.seen.steps if number is None else number)
        self.seen.steps += 1
        return result

    def begin(self) -> None:
        """Build it, and make the steps whose results count; then warm up."""
        torch.manual_seed(0)
        reserved, taken = before(self._setup.device)
        started = time.perf_counter()
        with told_to_the_user(self.seen.told):
            try:
                with self._recorder.counting(self.seen):
                    self._step = self._complaint.start(Compile(self.mode), self._setup)
                for _ in range(self._complaint.check):
                    self.results.append(tensors(self.step()))
                synchronize()
                self.row["first_steps_s"] = round(time.perf_counter() - started, 2)
                self._warm_up()
                if self._complaint.repeats:
                    self.later = [tensors(self.step(n)) for n in range(self._complaint.check)]
            except Exception as error:  # whatever it is, it is what the user gets
                self.failed(error)
        self.row["warm_up_s"] = round(time.perf_counter() - started, 2)
        most, now = in_use(self._setup.device)
        self.seen.reserved_mib = most - reserved
        self.row["gpu_mib"] = round(now - taken, 1)

    def _warm_up(self) -> None:
        started = time.perf_counter()
        # Asked seldom: a report costs more time than a short step, and a trial would measure it.
        while self.seen.steps < self._complaint.warm_up or self._deciding():
            for _ in range(_ASKED_AFTER):
                self.step()
            if time.perf_counter() - started > _WARM_UP:
                break
        synchronize()

    def _deciding(self) -> bool:
        if self.mode != "pygraph" or self.seen.steps > 20 * self._complaint.warm_up:
            return False
        states = {region["state"] for region in pygraph_rt.report().to_dict()["regions"]}
        return bool(states & {"deciding", "observing", "capturing", "verifying"})

    def failed(self, error: Exception) -> None:
        """Keep what the user is told last."""
        text = str(error).strip().splitlines() or [""]
        self.seen.error = f"{type(error).__name__}: {without_paths(text[0])}"[:400]

    def period(self, numbers: Sequence[int]) -> float:
        """Milliseconds a step, over the steps of these numbers."""
        synchronize()
        started = time.perf_counter()
        for number in numbers:
            self.step(number)
        synchronize()
        return (time.perf_counter() - started) / len(numbers) * 1e3

    def worst(self, numbers: Sequence[int]) -> float:
        """Milliseconds of the slowest of these steps, each until the GPU is done."""
        slowest = 0.0
        for number in numbers:
            synchronize()
            started = time.perf_counter()
            self.step(number)
            synchronize()
            slowest = max(slowest, time.perf_counter() - started)
        return slowest * 1e3


def disagree(program: Program, other: Program, tolerance: float) -> bool:
    """Whether results differ from those of another program, when graphs are in use, too."""
    return any(
        differ(a, b, tolerance)
        for found in (program.results, program.later)
        for a, b in zip(found, other.results, strict=False)
    )


def timed(eager: Program, compiled: list[Program], least: int) -> None:
    """Time the programs in turn on the same steps, `least` of them or more at a time; one that
    fails now is left out. Eager makes the steps first, untimed: what a library prepares once for a
    new shape is then there for all (cuDNN's attention plans a new shape for tens of milliseconds).
    """
    programs = [eager, *compiled]
    samples: dict[str, list[float]] = {program.mode: [] for program in programs}
    calls = least
    first = max(program.seen.steps for program in programs)
    started = time.perf_counter()
    for turn_number in range(_ROUNDS):
        numbers = prepared(eager, first, calls)
        first += len(numbers)
        for program in programs if turn_number % 2 else programs[::-1]:
            if not program.seen.error:
                try:
                    samples[program.mode].append(program.period(numbers))
                except Exception as error:  # as in `begin`
                    program.failed(error)
        if not turn_number:  # it only says how many steps are enough, for all of them the same
            quickest = min(sample.pop() for sample in samples.values() if sample)
            calls = max(least, math.ceil(_PART * 1e3 / max(quickest, 1e-4)))
        elif turn_number >= 4 and turn_number % 2 == 0:  # each was as often first as last
            took = time.perf_counter() - started
            if took > _LONGEST or (took > _TIMED and all(map(exact, samples.values()))):
                break
    numbers = prepared(eager, first, 2 * least)
    for program in programs:
        if not program.seen.error and samples[program.mode]:
            found = spread(samples[program.mode])
            program.row["period_ms"], program.seen.period_ms = found, found["median"]
            program.seen.worst_ms = program.worst(numbers)


def exact(sample: Sequence[float]) -> bool:
    """Whether a median is known well enough. Nothing has to be known of a mode that failed."""
    if not sample:
        return True
    found = spread(sample)
    apart = (found["high"] - found["low"]) / max(found["median"], 1e-9)
    return apart / math.sqrt(len(sample)) < _EXACT


def prepared(eager: Program, first: int, count: int) -> Sequence[int]:
    """Numbers of steps that eager has made."""
    numbers = range(first, first + count)
    for number in numbers:
        eager.step(number)
    synchronize()
    return numbers


def judge(complaint: Complaint, seen: Seen, device: str) -> dict[str, Any]:
    """Which symptom was shown, and how pygraph does beside the best stock mode that is right."""
    shown = ""
    wanted = [symptom.says for symptom in complaint.symptoms]
    if device == "cuda":
        shown = next((text for s in complaint.symptoms if (text := s.shown(seen))), "")
    good = [m for m in STOCK if not (seen[m].error or seen[m].wrong)]
    best = min(good, key=lambda m: seen[m].period_ms, default="")
    ours = seen["pygraph"]
    ratio = seen[best].period_ms / ours.period_ms if best else math.nan
    return {
        "wanted": wanted,
        "shown": shown,
        "looked_at": device == "cuda",
        "counted": bool(shown),
        "best_stock": best,
        "speed_beside_best_stock": None if math.isnan(ratio) else round(ratio, 3),
        "right": not (ours.error or ours.wrong),
    }


def clean(value: Any) -> Any:
    """Plain JSON: no NaN, no long lists."""
    if isinstance(value, dict):
        return {key: clean(part) for key, part in value.items()}
    if isinstance(value, list):
        return [clean(part) for part in value[:_SHOWN]]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    return value


def one(name: str, setup: Setup, modes: list[str], lock: str) -> dict[str, Any]:
    """All modes of one complaint."""
    complaint, threads = load_complaint(name)
    recorder = Recorder()
    torch._dynamo.config.recompile_limit = 64
    eager = Program(complaint, "eager", setup, recorder)
    programs = [Program(complaint, mode, setup, recorder) for mode in modes]
    with turn(lock, False):
        eager.begin()
        if eager.seen.error:
            raise RuntimeError(f"{name} fails without compilation: {eager.seen.error}")
        for program in programs:
            forget_shapes()
            program.begin()
            others = [eager, *(p for p in programs if p.mode == "default" and p is not program)]
            program.seen.wrong = all(disagree(program, p, complaint.tolerance) for p in others)
    with turn(lock, True):
        timed(eager, programs, 2 if setup.tiny else complaint.calls)
    seen = {program.mode: program.seen for program in (eager, *programs)}
    for mode in MODES:
        seen.setdefault(mode, Observed(error="the process ended"))
    return clean(
        {
            "group": complaint.group,
            "threads": threads,
            **judge(complaint, seen, setup.device),
            "modes": {p.mode: {**asdict(p.seen), **p.row} for p in (eager, *programs)},
            "regions": known_regions(REGION, _SHOWN),
        }
    )


def forget_shapes() -> None:
    """Let each mode find out anew which sizes are dynamic."""
    from torch._dynamo import pgo

    pgo.reset_code_state()


def main() -> None:
    """Observe one complaint and print what was seen."""
    end_with_the_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    add_row_options(parser)
    parser.add_argument("--modes", default=",".join(MODES))
    given = parser.parse_args()
    warnings.simplefilter("default")
    setup = Setup(given.device, given.tiny)
    print(json.dumps(one(given.name, setup, given.modes.split(","), given.lock)))


if __name__ == "__main__":
    main()
