"""Run a loop of `loops/` and see on which lines something happens in (nearly) every step.

Whoever watches (a pretended device, a GPU's sync debug mode) calls `Watch.record` when the host
waits or copies. The watch puts it down to the innermost line of the loop's own files, and notes
in which step of the optimizer it was.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import runpy
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch._dynamo  # now, because it looks for libraries that stand-ins replace later
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.lint_truth.statements import statement_spans
from benchmarks.training_loops import stand_ins
from benchmarks.training_loops.marks import Loop, read_checked, source_of

#: From this share of the steps on, what happens at a line happens in every step. More than half:
#: what stands behind `step % 2` does not.
EVERY_STEP = 0.6


Watching = Callable[["Watch"], AbstractContextManager[Any]]


@dataclass
class Watch:
    """The steps in which something happened at each line of `files`.

    A step is one of the optimizer that stepped first; a loop without one has as many steps as
    the lines with events have in the median.
    """

    files: frozenset[str]
    steps: int = 0
    optimizer: object = None
    events: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def record(self) -> None:
        """Note an event at the innermost line of the watched files."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename not in self.files:
            frame = frame.f_back
        if frame is not None:
            place = (frame.f_code.co_filename, frame.f_lineno)
            self.events.setdefault(place, []).append(self.steps)

    def stepped(self, optimizer: object, *arguments: object) -> None:
        """Count a step of the first optimizer: a hook."""
        if self.optimizer is None:
            self.optimizer = optimizer
        self.steps += optimizer is self.optimizer

    def every_step(self, file: str) -> set[int]:
        """The lines of a file at which something happened in nearly every step."""
        if self.steps:
            counts = {place: len(set(steps)) for place, steps in self.events.items()}
            total: float = self.steps
        else:
            counts = {place: len(steps) for place, steps in self.events.items()}
            total = statistics.median(counts.values()) if counts else 1
        busy = {place for place, count in counts.items() if count >= EVERY_STEP * total}
        return {line for name, line in busy if name == file}


@contextlib.contextmanager
def _counting(watch: Watch) -> Iterator[None]:
    """Count the steps of optimizers as long as the context lasts."""
    handle = register_optimizer_step_post_hook(watch.stepped)
    try:
        yield
    finally:
        handle.remove()


def _run(path: Path) -> None:
    """Run a script as `python script.py` does, or the `main` of a package."""
    if path.is_file():
        runpy.run_path(str(path), run_name="__main__")
        return
    sys.path.insert(0, str(path.parent))
    try:
        importlib.import_module(path.name).main()
    finally:
        sys.path.remove(str(path.parent))
        for name in [n for n in sys.modules if n.partition(".")[0] == path.name]:
            del sys.modules[name]


def observe(loop: Loop, watching: Watching) -> Watch:
    """Run a loop of this repository under `watching` and return what was seen."""
    paths = [source_of(loop, part, Path()) for part in loop.parts]
    script = paths[0] if len(Path(loop.parts[0].file).parts) == 1 else paths[0].parent
    with stand_ins.installed():
        return observe_call(paths, watching, lambda: _run(script))


def observe_call(files: Iterable[Path], watching: Watching, call: Callable[[], object]) -> Watch:
    """Run `call` under `watching` and return what was seen at the lines of `files`."""
    watch = Watch(frozenset(map(str, files)))
    torch.manual_seed(0)
    random.seed(0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(_counting(watch))
        stack.enter_context(watching(watch))
        call()
    return watch


@dataclass(frozen=True)
class Comparison:
    """Marks beside what was seen: each entry is "file:line text".

    `not_observable` are marks on the construction of a data loader, which costs later, where the
    batches are copied.
    """

    confirmed: tuple[str, ...]
    not_seen: tuple[str, ...]
    not_observable: tuple[str, ...]
    unmarked: tuple[str, ...]


def compare(loop: Loop, watch: Watch, packages: Path = Path()) -> Comparison:
    """Which marked statements had an event, and which others had one in every step."""
    confirmed, not_seen, not_observable, unmarked = [], [], [], []
    for part in loop.parts:
        path = source_of(loop, part, packages)
        text = read_checked(path, part)
        lines, spans = text.splitlines(), statement_spans(text)
        seen = {spans[line][0] for line in watch.every_step(str(path)) if part.covers(line)}
        marked = {spans[mark.line][0] for mark in part.marks}
        either = {spans[line][0] for line in part.either}
        for first in sorted(seen | marked):
            place = f"{part.file}:{first} {lines[first - 1].strip()}"
            if first in marked & seen:
                confirmed.append(place)
            elif first in marked:
                (not_observable if "DataLoader(" in place else not_seen).append(place)
            elif first not in either:
                unmarked.append(place)
    return Comparison(*map(tuple, (confirmed, not_seen, not_observable, unmarked)))


def report(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
    """The comparisons of all loops as data, with totals."""
    every = comparisons.values()
    return {
        "loops": len(comparisons),
        "confirmed": sum(len(c.confirmed) for c in every),
        "not_observable": sorted(place for c in every for place in c.not_observable),
        "not_seen": sorted(place for c in every for place in c.not_seen),
        "unmarked": sorted(place for c in every for place in c.unmarked),
    }


def summary(result: Mapping[str, Any]) -> str:
    """The report as text."""
    lines = [
        f"{result['loops']} loops: {result['confirmed']} marked statements confirmed, "
        f"{len(result['not_observable'])} not observable"
    ]
    for name in ("not_seen", "unmarked"):
        lines += [f"{name.replace('_', ' ')}: {place}" for place in result[name]]
    return "\n".join(lines)
