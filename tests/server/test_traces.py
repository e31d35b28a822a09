"""A trace beside the project: what it says stands at the lines that are as they were."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from pygraph_lint.server import messages as m
from tests.lint.trace.traces import MODEL, document, event, frame, write
from tests.server.client import editor
from tests.server.test_worker import Hand


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a trace: one finding came true, one did not, and a break was missed."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    events = [
        event("graph_break", [frame(model, 6)], 1, count=3),
        event("graph_break", [frame(model, 14)], 2, reason="Unsupported call", gb_id="GB0099"),
    ]
    made = document(tmp_path, [model], events, traced={"model.py": [5, 6, 7, 8, 9, 11, 12, 14]})
    write(tmp_path / "trace.json", made)
    return tmp_path


def _statuses(hand: Hand) -> dict[tuple[str, int], str]:
    last = [one for one in hand.said if isinstance(one, m.Found)][-1]
    return {(r.code, r.start[0]): r.traced.status for r in last.rows if r.traced is not None}


EXPECTED = {
    ("PG201", 6): "confirmed",
    ("PG501", 8): "refuted",
    ("PG301", 9): "refuted",
    ("PG201", 19): "unknown",
    ("GB0099", 14): "missed",
}


def test_findings_say_what_became_of_them_and_misses_are_shown(folder: Path) -> None:
    hand = Hand(folder, lenses=False)
    path = folder / "model.py"
    hand.tell(m.Text(path, 1, MODEL))
    hand.finish()
    found = [one for one in hand.said if isinstance(one, m.Found)][-1]
    statuses = _statuses(hand)
    assert EXPECTED.items() <= statuses.items()
    by_place = {(row.code, row.start[0]): row for row in found.rows}
    assert by_place["PG201", 6].message.endswith("(trace: happened 3 times)")
    assert by_place["PG501", 8].severity == "hint"
    missed = by_place["GB0099", 14]
    assert missed.message.startswith("graph break that the linter missed: Unsupported call")
    assert (missed.source, missed.start, missed.end) == ("pygraph-trace", (14, 9), (14, 25))
    # What the trace adds comes last: numbers of findings stay what they are.
    hand.tell(m.Ask(1, "ignore", path, 1, 0))
    hand.finish()
    [answer] = [one for one in hand.said if isinstance(one, m.Answer)]
    assert [edit.start[0] for edit in answer.value] == [6]


def test_what_an_edit_changes_loses_its_marks_and_the_rest_moves(folder: Path) -> None:
    hand = Hand(folder, lenses=False)
    path = folder / "model.py"
    hand.tell(m.Text(path, 1, MODEL))
    hand.finish()
    hand.tell(m.Text(path, 2, MODEL.replace("        print", "        z = 1\n        print")))
    hand.finish()
    moved = {(code, row + (row > 7)): status for (code, row), status in EXPECTED.items()}
    assert moved.items() <= _statuses(hand).items()
    hand.tell(m.Text(path, 3, MODEL.replace("x.abs().max()", "x.max()")))
    hand.finish()
    assert ("PG201", 6) not in _statuses(hand) and ("GB0099", 14) in _statuses(hand)


def test_a_trace_that_comes_goes_or_cannot_be_used(folder: Path) -> None:
    hand = Hand(folder, lenses=False)
    path = folder / "model.py"
    hand.tell(m.Text(path, 1, MODEL))
    hand.finish()
    (folder / "trace.json").write_text("{}")
    hand.tell(m.OnDisk((folder / "trace.json",)))
    hand.finish()
    [said] = [one for one in hand.said if isinstance(one, m.Said)]
    assert "is not a trace of pygraph_rt.trace" in said.text
    assert _statuses(hand) == {}
    hand.tell(m.Saved(path))
    hand.finish()
    assert len([one for one in hand.said if isinstance(one, m.Said)]) == 1
    (folder / "trace.json").unlink()
    hand.tell(m.Saved(path))
    hand.finish()
    assert _statuses(hand) == {}


def test_editors_that_mark_lines_are_told_of_them(folder: Path) -> None:
    async def session() -> list[Any]:
        told: list[Any] = []
        async with editor(folder) as opened:
            opened.client.feature("pygraph-lint/trace")(lambda params: told.append(params))
            await opened.open("model.py")
            await opened.until(lambda: told)
            shown = await opened.hover("model.py", types.Position(5, 20))
            assert "Trace: confirmed, happened 3 times" in shown
        return told

    told = asyncio.run(session())
    marks = {(one.range.start.line + 1, one.status) for one in told[-1].marks}
    assert {(6, "confirmed"), (8, "refuted"), (14, "missed")} <= marks
