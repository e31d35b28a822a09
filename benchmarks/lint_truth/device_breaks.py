"""Breaks that tracing on a CPU hides: add them to a truth table.

The models are traced with CPU tensors. There torch takes the number of a graph's 0-d integer input
while it traces (`FakeTensorConverter.from_real_tensor`, for tensors of the CPU only), so `x[t]`
breaks nothing; of a tensor of the device it cannot, and the graph breaks. Where an operator read a
number of the pretended device and no break was seen, the program is traced once more without that
help, and a break at the same statement goes into the table.

    .venv-truth-newer/bin/python -m benchmarks.lint_truth.device_breaks --set newer

Run it after each merge, in the environment of the set. Only breaks are added; nothing is removed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from benchmarks.lint_truth import second_run
from benchmarks.lint_truth.claims import NOT_AGAINST
from benchmarks.lint_truth.gb_types import ids, named
from benchmarks.lint_truth.pool import Report, run_all

READ = "_local_scalar_dense"
Otherwise = Callable[[], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def as_on_device() -> Iterator[None]:
    """Trace as if every input lived on a device: torch reads no number of it."""
    from torch._subclasses import fake_tensor

    plain = fake_tensor._is_plain_tensor
    fake_tensor._is_plain_tensor = lambda tensor: False
    try:
        yield
    finally:
        fake_tensor._is_plain_tensor = plain


def read_sites(truth: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sites where a number of the device is read and no break was seen."""
    return [
        site
        for site in truth["sites"]
        if READ in site["kinds"].get("sync", {}).get("what", ())
        and not NOT_AGAINST & set(site["kinds"])
    ]


def programs_with(sites: Iterable[Mapping[str, Any]]) -> list[str]:
    """The models and modes ("model:mode") in which a number is read at some site."""
    return sorted({label for site in sites for label in site["kinds"]["sync"]["in"]})


def add_breaks(
    sites: Iterable[dict[str, Any]], label: str, breaks: Iterable[Mapping[str, Any]]
) -> int:
    """Note the breaks of one program at the sites where it reads a number; returns how many."""
    mine = [site for site in sites if label in site["kinds"]["sync"]["in"]]
    added = 0
    for found in breaks:
        for site in mine:
            if site["file"] == found["file"] and site["line"] <= found["line"] <= site["end"]:
                kind = site["kinds"].setdefault("break", {"what": [], "in": []})
                kind["what"] = sorted({*kind["what"], found["kind"]})
                kind["in"] = sorted({*kind["in"], label})
                kind["gb"] = named(site, ids())
                added += 1
    return added


def _trace(observe: Callable[[Report], None], otherwise: Otherwise, report: Report) -> None:
    with otherwise():
        observe(report)


def jobs(
    chosen: str, wanted: set[str], otherwise: Otherwise
) -> list[tuple[str, Callable[[Report], None]]]:
    """One program for each wanted label of a set, traced inside of `otherwise`."""
    from benchmarks.lint_truth import packages

    packages.declare_vision_operators()
    found: list[tuple[str, Callable[[Report], None]]] = []
    if chosen == "packages":
        from benchmarks.lint_truth_packages.catalogue import PACKAGES, programs
        from benchmarks.lint_truth_packages.worker import observe_stage

        for name in PACKAGES:
            try:
                measured = programs(name)
            except ImportError as error:
                print(f"not measured, {name}: {error}", flush=True)
                continue
            for program in measured:
                if f"{program.label}:run" in wanted:
                    observe = functools.partial(observe_stage, program, "trace")
                    traced = functools.partial(_trace, observe, otherwise)
                    found.append((f"{program.label}:run", traced))
        return found
    from benchmarks.lint_truth import preload
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.versions import SETS
    from benchmarks.lint_truth.worker import observe_model

    preload.load()
    for entry in catalogue(SETS[chosen]):
        for mode in entry.modes:
            if f"{entry.name}:{mode}" in wanted:
                run = functools.partial(observe_model, entry, mode, ["trace"])
                found.append((f"{entry.name}:{mode}", functools.partial(_trace, run, otherwise)))
    return found


def main() -> int:
    """Command line; returns the exit status."""
    arguments = second_run.started(__doc__)
    chosen = arguments.set
    path, truth = second_run.read(chosen)
    sites = read_sites(truth)
    traced = jobs(chosen, set(programs_with(sites)), as_on_device)
    for records in run_all(traced, arguments.workers, arguments.seconds):
        for record in records:
            label = record.get("label") or f"{record['model']}:{record['mode']}"
            breaks = record.get("result", {}).get("breaks", ())
            failed = record.get("error", "")
            print(label, add_breaks(sites, label, breaks), failed, flush=True)
    second_run.write(chosen, path, truth)
    found = sum("break" in site["kinds"] for site in sites)
    print(f"{found} of {len(sites)} reads break the graph on a device -> {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
