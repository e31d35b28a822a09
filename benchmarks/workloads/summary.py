"""From the result file to one row of figures for each workload. No torch needed."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import Any

_LARGE_COPY_BYTES = 1 << 20
_HOST = 0.95
_USUAL = {"eager", "default", "reduce-overhead", "pygraph"}


@dataclasses.dataclass(frozen=True)
class Timed:
    """Milliseconds a call: median over rounds, and half the interquartile range as a fraction of
    it.
    """

    ms: float
    spread: float
    host_ms: float

    def waits_for_host(self) -> bool:
        """Whether the calls take nearly all of the time to return."""
        return self.host_ms > _HOST * self.ms


@dataclasses.dataclass(frozen=True)
class Row:
    """One workload. ``failures`` says in words why a variant has no time, or that its answer is
    wrong. ``parts`` are the times of the last run in which variants had a part switched off, with
    the ``remark`` that was put into it by hand; ``runs`` those of all runs that count, in order.
    ``note`` is the remark of the run that is shown, ``commit`` the code that it measured (empty for
    version 0.1). ``repeats``: how many times faster pygraph was
    than reduce-overhead in each run without a remark.
    """

    name: str
    about: dict[str, Any]
    timed: dict[str, Timed]
    profiles: dict[str, dict[str, Any]]
    probes: dict[str, dict[str, Any]]
    errors: dict[str, dict[str, Any]]
    failures: dict[str, str]
    regions: list[dict[str, Any]]
    parts: dict[str, Timed]
    remark: str
    runs: list[dict[str, Timed]]
    repeat_change: float | None
    note: str
    commit: str
    repeats: list[float]

    def ratio(self, slow: str, fast: str) -> float | None:
        """How many times faster ``fast`` is than ``slow``; None if one of them has no valid
        time.
        """
        if slow in self.failures or fast in self.failures:
            return None
        if slow not in self.timed or fast not in self.timed:
            return None
        return self.timed[slow].ms / self.timed[fast].ms

    def counted_ratio(self, slow: str, fast: str) -> float | None:
        """Like :meth:`ratio`, but a variant that failed counts as default mode's time."""
        times = []
        for name in (slow, fast):
            known = name in self.timed and name not in self.failures
            stand_in = name if known else "default"
            if not known and name not in self.failures:
                return None
            if stand_in not in self.timed or stand_in in self.failures:
                return None
            times.append(self.timed[stand_in].ms)
        return times[0] / times[1]

    def most(self) -> float | None:
        """How many times faster than reduce-overhead a mode would be that only waits for the GPU's
        own work.
        """
        found = [self.profiles[n] for n in ("default", "pygraph") if n in self.profiles]
        busy = min((profile["busy_ms"] for profile in found), default=0)
        known = "reduce-overhead" in self.timed and "reduce-overhead" not in self.failures
        return self.timed["reduce-overhead"].ms / busy if known and busy else None

    def waits_for_host(self) -> bool:
        """Whether reduce-overhead does."""
        return "reduce-overhead" in self.timed and self.timed["reduce-overhead"].waits_for_host()

    def better_stock(self) -> str | None:
        """The faster of default mode and reduce-overhead; None if neither has a valid time."""
        known = [n for n in ("default", "reduce-overhead") if n in self.timed]
        known = [n for n in known if n not in self.failures]
        return min(known, key=lambda name: self.timed[name].ms, default=None)

    def over_better_stock(self) -> float | None:
        """How many times faster pygraph is than the better stock mode."""
        stock = self.better_stock()
        return None if stock is None else self.ratio(stock, "pygraph")

    def memory(self, variant: str) -> int | None:
        """Peak reserved bytes in steady state."""
        steady = self._result(variant).get("memory", {}).get("steady")
        return steady["reserved"] if steady else None

    def allocated(self, variant: str) -> int | None:
        """Peak allocated bytes in steady state."""
        steady = self._result(variant).get("memory", {}).get("steady")
        return steady["allocated"] if steady else None

    def warm_up_s(self, variant: str) -> float | None:
        """Seconds from the first call to steady state."""
        return self._result(variant).get("warm_up_s")

    def beside(self, variant: str) -> tuple[int | None, int | None]:
        """Which machine a warm-up was measured on, and how many other measurements shared it, at
        most.
        """
        probe = self.probes.get(variant, {})
        return probe.get("environment"), probe.get("beside")

    def warm_up_ratio(self) -> float | None:
        """How many times longer pygraph's warm-up is than reduce-overhead's, where both were
        measured alike.
        """
        ours, theirs = self.warm_up_s("pygraph"), self.warm_up_s("reduce-overhead")
        alike = self.beside("pygraph") == self.beside("reduce-overhead")
        return ours / theirs if alike and ours and theirs else None

    def compiler(self, variant: str) -> dict[str, Any]:
        """What the compiler reported while warming up."""
        found: dict[str, Any] = self._result(variant).get("compiler", {})
        return found

    def _result(self, variant: str) -> dict[str, Any]:
        found: dict[str, Any] = self.probes.get(variant, {}).get("result", {})
        return found


def rows(content: dict[str, Any]) -> list[Row]:
    """A row for each workload of the file, in the file's order."""
    environments = content["environments"]
    return [_row(name, part, environments) for name, part in content["workloads"].items()]


def measured_with(rows: list[Row]) -> str:
    """A sentence: which version of the code the times are of."""
    parts = []
    for commit in sorted({row.commit for row in rows}, reverse=True):
        names = [row.name for row in rows if row.commit == commit]
        code = f"commit {commit}" if commit else "version 0.1"
        alone = len(names) == len(rows)
        few = (
            f" ({', '.join(f'`{name}`' for name in names)})" if not alone and len(names) < 7 else ""
        )
        parts.append(f"{'All' if alone else len(names)} were timed with {code}{few}")
    return f"{', '.join(parts)}."


def _row(name: str, part: dict[str, Any], environments: list[dict[str, Any]]) -> Row:
    runs = [run for run in part["timings"] if run.get("timed") and not run.get("disturbed")]
    best = max(reversed(runs), key=_completeness, default={})
    partial = [run for run in runs if set(run["timed"]) - _USUAL]
    return Row(
        name=name,
        about=part["about"],
        timed=_times(best),
        profiles=best.get("profiles", {}),
        probes=part["probes"],
        errors=best.get("checked", {}),
        failures=_failures(part, best),
        regions=best.get("regions", []),
        parts=_times(partial[-1]) if partial else {},
        remark=partial[-1].get("remark", "") if partial else "",
        runs=[_times(run) for run in runs],
        repeat_change=_repeat_change(runs),
        note=best.get("remark", ""),
        commit=_commit(best, environments),
        repeats=_repeats([_times(run) for run in runs if not run.get("remark")]),
    )


def _commit(run: dict[str, Any], environments: list[dict[str, Any]]) -> str:
    index = run.get("environment")
    return "" if index is None else environments[index].get("commit", "")


def last_run(
    content: dict[str, Any], name: str, variants: list[str], environment: dict[str, Any]
) -> dict[str, Timed]:
    """The last run of a workload that has all of these variants, on a machine like this; empty if
    there is none.
    """
    runs = [run for run in content["workloads"][name]["timings"] if not run.get("disturbed")]
    found = (
        run
        for run in reversed(runs)
        if set(variants) <= set(run.get("timed", {}))
        and content["environments"][run["environment"]] == environment
    )
    return _times(next(found, {}))


def _repeats(runs: list[dict[str, Timed]]) -> list[float]:
    both = [run for run in runs if {"pygraph", "reduce-overhead"} <= set(run)]
    return [run["reduce-overhead"].ms / run["pygraph"].ms for run in both]


def _completeness(run: dict[str, Any]) -> tuple[int, int]:
    """The run with the most of the usual variants is shown, and of such, one without others."""
    timed = set(run["timed"])
    return len(timed & _USUAL), -len(timed - _USUAL)


def _times(run: dict[str, Any]) -> dict[str, Timed]:
    return {variant: _timed(figures) for variant, figures in run.get("timed", {}).items()}


def _timed(figures: dict[str, Any]) -> Timed:
    values = figures["ms"]
    middle = statistics.median(values)
    return Timed(middle, spread(values), statistics.median(figures["host_ms"]))


def spread(values: list[float]) -> float:
    """Half the interquartile range over the median."""
    if len(values) < 4:
        return (max(values) - min(values)) / 2 / statistics.median(values)
    quarters = statistics.quantiles(values, n=4)
    return (quarters[2] - quarters[0]) / 2 / statistics.median(values)


def _failures(part: dict[str, Any], best: dict[str, Any]) -> dict[str, str]:
    found = {}
    for variant, probe in part["probes"].items():
        if "error" in probe:
            found[variant] = f"{probe['error']} (while {probe.get('failed_step', 'starting')})"
    found |= best.get("failed", {})
    for variant, check in best.get("checked", {}).items():
        if not check["agrees"]:
            found[variant] = f"wrong result: relative error {_errors(check['errors'])}"
    for run in part["timings"]:
        words = str(run.get("failed_step", "")).split()
        if "error" in run and words and words[-1] not in best.get("timed", {}):
            found.setdefault(words[-1], f"{run['error']} (while {run['failed_step']})")
    return found


def _errors(errors: dict[str, Any]) -> str:
    return ", ".join(
        f"{value:.2g} in {name}" if isinstance(value, float) else f"{value} in {name}"
        for name, value in errors.items()
        if value is not None
    )


def _repeat_change(runs: list[dict[str, Any]]) -> float | None:
    """Largest change of any variant's ratio to default between two runs of the file, as a
    fraction.
    """
    seen: dict[str, list[float]] = {}
    for run in runs:
        medians = {name: statistics.median(f["ms"]) for name, f in run["timed"].items()}
        if "default" not in medians:
            continue
        for name, value in medians.items():
            seen.setdefault(name, []).append(medians["default"] / value)
    changes = [
        max(ratios) / min(ratios) - 1
        for name, ratios in seen.items()
        if name != "default" and len(ratios) > 1
    ]
    return max(changes, default=None)


def geometric_mean(values: list[float]) -> float | None:
    """The geometric mean, None of nothing."""
    if not values:
        return None
    return math.exp(sum(math.log(value) for value in values) / len(values))


@dataclasses.dataclass(frozen=True)
class Share:
    """Where the time of reduce-overhead goes beyond the GPU's own work, in milliseconds a call.

    ``copies`` (the time of copies beyond default mode's own) could be saved by passing pointers,
    ``loss`` by choosing default mode where it is faster, ``idle`` is what the GPU waits, which more
    graph coverage could save.
    """

    busy: float
    copies: float
    idle: float
    loss: float


def share(row: Row) -> Share | None:
    """The split for reduce-overhead (for default mode where that failed), None without a
    profile.
    """
    variant = "reduce-overhead"
    if variant not in row.timed or variant not in row.profiles or variant in row.failures:
        variant = "default"
    if variant not in row.timed or variant not in row.profiles:
        return None
    profile, ms = row.profiles[variant], row.timed[variant].ms
    copies = 0.0
    if profile["input_copy_bytes"] > _LARGE_COPY_BYTES:
        copies = max(0.0, profile["copy_ms"] - row.profiles.get("default", profile)["copy_ms"])
    loss = 0.0
    if variant != "default" and "default" in row.timed:
        loss = max(0.0, ms - row.timed["default"].ms)
    return Share(profile["busy_ms"], copies, max(0.0, ms - profile["busy_ms"]), loss)


def disturbed(content: dict[str, Any]) -> dict[str, list[tuple[str, dict[str, Timed]]]]:
    """Runs that something got in the way of: by what, then workloads with their times."""
    found: dict[str, list[tuple[str, dict[str, Timed]]]] = {}
    for name, part in content["workloads"].items():
        for run in part["timings"]:
            if run.get("disturbed"):
                times = {variant: _timed(figures) for variant, figures in run["timed"].items()}
                found.setdefault(run["disturbed"], []).append((name, times))
    return found


def not_run(content: dict[str, Any], variants: list[str]) -> dict[str, str]:
    """What has neither a time nor a recorded failure, with the reason, grouped where all are
    alike.
    """
    missing: dict[tuple[str, str], list[str]] = {}
    for name, part in content["workloads"].items():
        done: set[str] = set()
        for run in part["timings"]:
            done |= set(run.get("timed", {})) | set(run.get("failed", {}))
        for variant in variants:
            probe = part["probes"].get(variant, {})
            if variant not in done and "error" not in probe:
                reason = probe.get("skipped", "not run yet")
                missing.setdefault((variant, reason), []).append(name)
    every = len(content["workloads"])
    return {
        f"{variant} on {'all workloads' if len(names) == every else ', '.join(names)}": reason
        for (variant, reason), names in missing.items()
    }
