"""Which measurement runs when.

Compiling is slow and can share the machine; timing is fast and can't. So workloads go in waves: all
probes of a wave run side by side, then timing processes get warm side by side (with the compiler
caches that the probes filled), and then they are timed one after the other while the others wait:
one at a time on each GPU.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.workloads import catalogue, jobs, overlay, results, variants
from benchmarks.workloads.base import Workload
from benchmarks.workloads.jobs import Child, Task

_TIMING_LIMIT_S = 120.0
_LEAST_LEFT_S = 5.0


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line chose. Times in seconds, memory in bytes."""

    variants: tuple[str, ...]
    device: str
    tiny: bool
    sources: Path | None
    cache: Path | None
    out: Path
    resume: bool
    repeat: bool
    only_timing: bool
    only_memory: bool
    start_after_s: float
    budget_s: float
    limit_s: float
    at_once: int
    wave: int
    gpu_memory: float
    gpus: int
    rounds: int
    round_seconds: float


class Session:
    """One invocation: a list of workloads, a deadline, a result file that is saved after each
    measurement.
    """

    def __init__(self, options: Options, scratch: Path) -> None:
        self.options = options
        self.scratch = scratch
        self.deadline = time.monotonic() + options.budget_s
        self.content = results.load(options.out)
        if options.sources is not None:
            self.content["sources"] = overlay.summary(options.sources)
        self.left_out: list[str] = []
        self._turn = 0
        self._adding = threading.RLock()

    def run(self, workloads: list[Workload]) -> None:
        """Measures the workloads, wave after wave, until done or out of time."""
        for wave in _chunks(workloads, self.options.wave):
            for workload in wave:
                results.entry(self.content, workload.name)["about"] = about(workload)
            if not self.options.only_timing:
                self._probe(wave)
            if self.options.only_memory:
                continue
            for group in self._groups([w for w in wave if self._timing_wanted(w)]):
                self._time(group)
        results.save(self.options.out, self.content)

    def left_s(self) -> float:
        """Seconds until the budget is used up."""
        return self.deadline - time.monotonic()

    # --- probes ------------------------------------------------------------

    def _probe(self, wave: list[Workload]) -> None:
        tasks = []
        for workload in wave:
            known = results.entry(self.content, workload.name)["probes"]
            for name in self.options.variants:
                reason = variants.reason_missing(variants.named(name))
                if reason is not None:
                    known[name] = {"skipped": reason}
                elif not (self.options.resume and "skipped" not in known.get(name, {"skipped": 1})):
                    tasks.append(self._task("probe", workload, (name,)))
        self._say(f"{len(tasks)} probes")
        jobs.wait_for_all(tasks, self._start, self.options.at_once, self._probed)

    def _probed(self, child: Child) -> None:
        outcome = self._with_environment(child.outcome())
        name = child.task.variants[0]
        if self._cut_short(child, outcome):
            return
        outcome["beside"] = child.beside
        results.entry(self.content, child.task.workload)["probes"][name] = outcome
        self._say(f"{child.task.label}: {outcome.get('error', 'ok')} ({outcome['seconds']} s)")
        results.save(self.options.out, self.content)

    # --- timings ------------------------------------------------------------

    def _timing_wanted(self, workload: Workload) -> bool:
        known = results.entry(self.content, workload.name)
        usable = set(self._usable(workload))
        if not usable:
            return False
        if self.options.repeat or not self.options.resume:
            return True
        good = [run for run in known["timings"] if not run.get("disturbed")]
        return not any(usable <= set(run.get("timed", {})) for run in good)

    def _usable(self, workload: Workload) -> list[str]:
        """Variants whose probe came through, or, where only timing is wanted, did not fail."""
        probes = results.entry(self.content, workload.name)["probes"]
        names = self.options.variants
        if self.options.only_timing:
            names = tuple(n for n in names if not variants.reason_missing(variants.named(n)))
            return [name for name in names if "error" not in probes.get(name, {})]
        return [name for name in names if "result" in probes.get(name, {})]

    def _groups(self, workloads: list[Workload]) -> Iterator[list[tuple[Workload, int]]]:
        """Workloads whose timing processes fit on the devices together, each with its device."""
        left = list(workloads)
        if self.options.gpus > 1:
            left.sort(key=self._memory_needed, reverse=True)
        while left:
            group: list[tuple[Workload, int]] = []
            used = [0.0] * self.options.gpus
            for workload in list(left):
                need = self._memory_needed(workload)
                gpu = used.index(min(used))
                fits = not used[gpu] or used[gpu] + need <= self.options.gpu_memory
                if not fits or len(group) == self.options.at_once:
                    continue
                group.append((workload, gpu))
                used[gpu] += need
                left.remove(workload)
            yield group

    def _memory_needed(self, workload: Workload) -> float:
        """A bound from the probes: all variants at once, and the reference in higher precision
        beside them. A variant without a probe is taken to need what the largest does.
        """
        probes = results.entry(self.content, workload.name)["probes"]
        peaks = []
        for probe in probes.values():
            memory = probe.get("result", {}).get("memory", {}).get("warm_up")
            peaks.append(memory["reserved"] if memory else 0)
        return (len(self._usable(workload)) + 2) * max(peaks, default=0) + 1e9

    def _time(self, group: list[tuple[Workload, int]]) -> None:
        self._say(f"timing {', '.join(workload.name for workload, _ in group)}")
        children = []
        for workload, gpu in group:
            self._merge_caches(workload)
            names = tuple(self._usable(workload))
            child = self._start(self._task("timing", workload, names, gpu))
            if child is not None:
                children.append(child)
        start = time.monotonic() + self.options.start_after_s
        while any(_compiling(child) for child in children) and time.monotonic() < start:
            time.sleep(0.05)
        for child in children:
            child.deadline = time.monotonic() + max(1.0, self.left_s())
        lanes: dict[int | None, list[Child]] = {}
        for child in children:
            lanes.setdefault(child.task.gpu, []).append(child)
        threads = [
            threading.Thread(target=self._time_in_turn, args=(lane, children))
            for lane in lanes.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _time_in_turn(self, lane: list[Child], group: list[Child]) -> None:
        """Times the children of one GPU, one after the other, as they become ready."""
        waiting = list(lane)
        while waiting:
            child = next((c for c in waiting if not _compiling(c)), None)
            if child is None:
                time.sleep(0.05)
                continue
            waiting.remove(child)
            beside = sum(_compiling(other) for other in group)
            if not child.finished():
                child.go(min(_TIMING_LIMIT_S, max(1.0, self.left_s())))
            while not child.finished():
                time.sleep(0.02)
            self._timed(child, beside)

    def _timed(self, child: Child, beside: int = 0) -> None:
        outcome = child.outcome()
        if beside:
            outcome["compiling_beside"] = beside
        with self._adding:
            outcome = self._with_environment(outcome)
            if self._cut_short(child, outcome):
                return
            results.entry(self.content, child.task.workload)["timings"].append(outcome)
            self._say(f"{child.task.label}: {outcome.get('error', 'ok')} ({outcome['seconds']} s)")
            results.save(self.options.out, self.content)
        suspect = crashed_variant(outcome)
        rest = tuple(name for name in child.task.variants if name != suspect)
        if suspect is not None and suspect != "eager" and len(rest) < len(child.task.variants):
            self._again_without(child.task, rest)

    def _again_without(self, task: Task, rest: tuple[str, ...]) -> None:
        """Times the other variants after one of them took the process down."""
        child = self._start(dataclasses.replace(task, variants=rest))
        if child is None:
            return
        while not child.ready.is_set() and not child.finished():
            time.sleep(0.05)
        if not child.finished():
            child.go(min(_TIMING_LIMIT_S, max(1.0, self.left_s())))
        while not child.finished():
            time.sleep(0.02)
        self._timed(child)

    # --- shared ------------------------------------------------------------

    def _task(
        self, kind: str, workload: Workload, names: tuple[str, ...], gpu: int | None = None
    ) -> Task:
        """What a child process is told; without a `gpu`, each one gets the next."""
        cache = self._cache(workload, names[0] if kind == "probe" else "all")
        arguments = ["--device", self.options.device]
        arguments += ["--rounds", str(self.options.rounds)]
        arguments += ["--round-seconds", str(self.options.round_seconds)]
        if self.options.tiny:
            arguments.append("--tiny")
        sources = self.options.sources
        if gpu is None:
            gpu = self._turn % self.options.gpus
            self._turn += 1
        chosen = gpu if self.options.gpus > 1 else None
        return Task(kind, workload.name, names, cache, tuple(arguments), sources, chosen)

    def _cache(self, workload: Workload, part: str) -> Path:
        """A folder for compiled code; "all" is what timings use, and may be kept. Probes start from
        cold.
        """
        kept = self.options.cache if part == "all" else None
        return (kept or self.scratch / "cache").resolve() / workload.name / part

    def _start(self, task: Task) -> Child | None:
        """A child, or None if the time is used up."""
        if self.left_s() < _LEAST_LEFT_S:
            self.left_out.append(task.label)
            return None
        task.cache.mkdir(parents=True, exist_ok=True)
        threads = max(2, (os.cpu_count() or 1) // self.options.at_once)
        return Child(task, self.scratch, threads, min(self.options.limit_s, self.left_s()))

    def _merge_caches(self, workload: Workload) -> None:
        """One compiler cache out of those the probes of this workload filled, each from cold."""
        for name in self.options.variants:
            filled = self._cache(workload, name)
            if filled.is_dir():
                shutil.copytree(filled, self._cache(workload, "all"), dirs_exist_ok=True)

    def _with_environment(self, outcome: dict[str, Any]) -> dict[str, Any]:
        described = outcome.pop("environment", None)
        if described is not None:
            outcome["environment"] = results.environment_index(self.content, described)
        return outcome

    def _cut_short(self, child: Child, outcome: dict[str, Any]) -> bool:
        """A child that was ended by the budget, or starved by its neighbours, has no result: it
        runs another time.
        """
        starved = "OutOfMemoryError" in outcome.get("error", "") and self.options.at_once > 1
        over = child.timed_out and self.left_s() < 1.0
        if starved or over:
            self.left_out.append(child.task.label)
            self._say(f"{child.task.label}: not measured, {outcome['error'][:120]}")
        return starved or over

    def _say(self, text: str) -> None:
        print(f"[{self.options.budget_s - self.left_s():6.1f} s] {text}", flush=True)


def _compiling(child: Child) -> bool:
    return not child.ready.is_set() and not child.finished()


def about(workload: Workload) -> dict[str, Any]:
    """What the report says of a workload."""
    return {
        "stands_for": catalogue.describe(workload),
        "suite": workload.suite,
        "batch": workload.batch,
        "training": workload.training,
        "precision": workload.precision,
        "traits": list(workload.traits),
    }


def crashed_variant(outcome: dict[str, Any]) -> str | None:
    """The variant a timing process was busy with when it died."""
    if "error" not in outcome:
        return None
    words = str(outcome.get("failed_step", "")).split()
    if words[:1] in (["timing"], ["profiling"], ["settling"]) or words[:2] == ["warming", "up"]:
        return words[-1]
    return None


def session(options: Options, workloads: list[Workload]) -> Session:
    """Runs the workloads with a temporary folder for logs and compiler caches; returns what was
    done.
    """
    with tempfile.TemporaryDirectory(prefix="workloads-") as folder:
        done = Session(options, Path(folder))
        done.run(workloads)
    return done


def _chunks(items: list[Workload], size: int) -> Iterator[list[Workload]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
