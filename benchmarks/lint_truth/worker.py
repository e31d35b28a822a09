"""Everything that is observed about one model in one mode, as plain data."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import random
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.lint_truth.builders import Calls, Entry, Inputs, build

if TYPE_CHECKING:
    from benchmarks.lint_truth.dynamo_breaks import Observation
    from benchmarks.lint_truth.ghost import Event

TRAIN_CALLS = 2


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what the models print to nowhere."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def seed_all() -> None:
    """Start torch's, Python's and numpy's generators at 0."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def short_traceback(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).strip().splitlines()
    first = text[0][:200] if text else ""
    return f"{type(error).__name__}: {first} ({Path(last.filename).name}:{last.lineno})"


def _lines(entry: Entry, mode: str) -> dict[str, list[int]]:
    from benchmarks.lint_truth.executed import executed

    model, inputs = build(entry, mode)
    seed_all()
    with torch.set_grad_enabled(mode == "train"):
        prepare_on(model, "cpu")
        found = executed(lambda: [model(**each) for each in calls_of(inputs, mode)])
    return {name: sorted(lines) for name, lines in found.lines.items()}


def _ghost(entry: Entry, mode: str) -> list[dict[str, Any]]:
    """Events of an ordinary eager call."""
    from benchmarks.lint_truth import ghost

    model, inputs = build(entry, mode)
    seed_all()
    with torch.set_grad_enabled(mode == "train"):
        calls = calls_of(inputs, mode)
        events = ghost.observe(
            lambda: [model(**each) for each in calls],
            [*model.parameters(), *model.buffers(), calls],
            prepare=lambda: prepare_on(model, "cuda"),
        )
    return event_rows(events)


def _ghost_compiling(entry: Entry, mode: str) -> dict[str, Any]:
    """Events and lines of an eager call that takes the branches meant for compilation."""
    from benchmarks.lint_truth import ghost

    with ghost.as_if_compiling():
        return {"events": _ghost(entry, mode), "lines": _lines(entry, mode)}


def _trace(entry: Entry, mode: str) -> dict[str, Any]:
    from benchmarks.lint_truth import dynamo_breaks

    model, inputs = build(entry, mode)
    seed_all()
    with torch.set_grad_enabled(mode == "train"):
        prepare_on(model, "cpu")
        seen = dynamo_breaks.observe_each(model, calls_of(inputs, mode))
    return observation_row(seen)


def event_rows(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Events of the pretended device as plain data, in file order."""
    return sorted(
        (dataclasses.asdict(event) for event in events),
        key=lambda event: (event["file"], event["line"], event["kind"]),
    )


def observation_row(seen: Observation) -> dict[str, Any]:
    """What Dynamo showed as plain data."""
    breaks = {tuple(dataclasses.astuple(found)): found for found in seen.breaks}
    return {
        "breaks": [dataclasses.asdict(found) for found in breaks.values()],
        "skipped_frames": sorted(set(seen.skipped_frames)),
        "traced": {name: sorted(lines) for name, lines in seen.traced.items()},
        "graphs": seen.graphs,
        "error": short_traceback(seen.error) if seen.error else None,
    }


def calls_of(inputs: Inputs | Calls, mode: str) -> list[Inputs]:
    """The arguments of each call: those that were built, or the same ones once or twice."""
    if isinstance(inputs, list):
        return inputs
    return [inputs] * (TRAIN_CALLS if mode == "train" else 1)


def prepare_on(model: torch.nn.Module, device: str) -> None:
    """What a program does before the measured calls: for example `set_timesteps(device=...)`."""
    prepare = getattr(model, "prepare", None)
    if prepare is not None:
        prepare(torch.device(device))


STAGES: dict[str, Callable[[Entry, str], Any]] = {
    "lines": _lines,
    "ghost": _ghost,
    "ghost_compiling": _ghost_compiling,
    "trace": _trace,
}


def observe_model(
    entry: Entry, mode: str, stages: list[str], report: Callable[[dict[str, Any]], None]
) -> None:
    """Run each stage and `report` one record per stage as soon as it is known.

    A record has the model's name and mode, the stage, and `result` or `error`.
    """
    run_stages(
        {stage: functools.partial(STAGES[stage], entry, mode) for stage in stages},
        {"model": entry.name, "mode": mode},
        report,
    )


def run_stages(
    stages: Mapping[str, Callable[[], Any]],
    named: Mapping[str, Any],
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Run `stages`, report a record of each that starts with `named`; stop if no line runs."""
    for stage, function in stages.items():
        started = time.perf_counter()
        record: dict[str, Any] = {**named, "stage": stage}
        try:
            with quiet():
                record["result"] = function()
        except Exception as error:
            record["error"] = short_traceback(error)
        record["seconds"] = round(time.perf_counter() - started, 2)
        report(record)
        if "error" in record and stage == "lines":
            return
