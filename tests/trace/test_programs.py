"""Small programs with every event counted by hand, in comments at the end of the line.

`# graph_break:skipped*2 sync` says that two graph breaks that skip the frame, and one sync, happen
at that line. A line without a comment has no event.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from pygraph_rt.trace.model import KINDS
from pygraph_rt.trace.session import Trace

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
MARK = re.compile(r"^(\w+)(?::(\w+))?(?:\*(\d+))?$")

Counted = Counter[tuple[int, str]]


def by_hand(file: Path) -> Counted:
    found: Counted = Counter()
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        for word in line.partition("  # ")[2].split():
            mark = MARK.match(word)
            assert mark is not None and mark[1] in KINDS, f"{file.name}:{number}: {word}"
            name = f"{mark[1]}:{mark[2]}" if mark[2] else mark[1]
            found[number, name] += int(mark[3] or 1)
    return found


def recorded(trace: Trace, file: Path) -> Counted:
    found: Counted = Counter()
    for event in trace.events:
        name = event.kind
        if event.kind == "graph_break" and event.frame_skipped:
            name += ":raised" if event.raised else ":skipped"
        assert event.place.file == str(file), (event.kind, event.place)
        found[event.place.line, name] += event.count
    return found


def run(file: Path) -> Trace:
    spec = importlib.util.spec_from_file_location(f"program_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch._dynamo.reset()
    with Trace() as trace:
        module.main()
    torch._dynamo.reset()
    return trace


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda f: f.stem)
def test_events_are_those_counted_by_hand(file: Path) -> None:
    assert recorded(run(file), file) == by_hand(file)


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 30
