"""Marked training loops: the marks themselves, and the scorer."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.training_loops.marks import (
    GROUPS,
    HALVES,
    OWN_LOOPS,
    Loop,
    Mark,
    MarksError,
    Package,
    Part,
    half_of,
    load,
    read_checked,
    source_of,
)
from benchmarks.training_loops.score import (
    Finding,
    judge,
    listing,
    read_findings,
    score,
    table,
)

SOURCE = """\
for x in batches:
    x = x.to(device)
    loss = step(
        x,
    )
    total += loss.item()
    print(loss)
    if step % 10 == 0:
        log(loss.item())
"""


def part(*marks: tuple[int, str], either: tuple[int, ...] = (), last: int = 9) -> Part:
    found = tuple(Mark(line, kind, "why") for line, kind in marks)
    return Part("a.py", "", ((1, last),), found, either)


def loop(name: str, *parts: Part, clean: bool = False, half: str = "develop") -> Loop:
    return Loop(name, "title", clean, half, None, parts)


def read(loop: Loop, part: Part) -> tuple[str, str]:
    return f"/{loop.name}/{part.file}", SOURCE


def finding(loop: str, line: int, code: str = "PG701") -> Finding:
    return Finding(f"/{loop}/a.py", line, code, "message")


def scored(loops: list[Loop], *findings: Finding, codes: str = "PG7") -> dict[str, Any]:
    return score(loops, judge(loops, findings, codes, read))


def test_every_file_of_marks_loads_and_no_lines_belong_to_two_loops() -> None:
    loops = load()
    marked = [loop for loop in loops if not loop.clean]
    assert len(marked) >= 60
    assert sum(loop.package is not None for loop in marked) >= 40
    assert len(loops) - len(marked) >= 20
    assert all(any(part.marks for part in loop.parts) for loop in marked)
    taken: set[tuple[str, str, int]] = set()
    for one in loops:
        for row in one.parts:
            where = (one.package.folder if one.package else one.half, row.file)
            lines = {(*where, n) for first, last in row.lines for n in range(first, last + 1)}
            assert not lines & taken, (one.name, row.file)
            taken |= lines


def test_the_loops_of_this_repository_are_those_that_were_marked() -> None:
    parts = [(one, row) for one in load() if one.package is None for row in one.parts]
    assert parts
    for one, row in parts:
        text = read_checked(source_of(one, row, Path()), row)
        assert max(last for _, last in row.lines) <= len(text.splitlines())
    marked = {source_of(one, row, Path()) for one, row in parts}
    own = {path for path in OWN_LOOPS.rglob("*.py") if path.name != "__init__.py"}
    assert own == marked


def test_every_group_has_marked_and_clean_loops() -> None:
    for half in GROUPS:
        mine = [loop for loop in load() if loop.half == half]
        assert {loop.clean for loop in mine} == {True, False}


def test_the_halves_are_fixed() -> None:
    assert half_of("accelerate") == "develop"
    assert half_of("stable-baselines3") == "held_out"


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    same = Part("a.py", hashlib.sha256(b"x = 1\n").hexdigest(), (), (), ())
    assert read_checked(path, same) == "x = 1\n"
    path.write_text("x = 2\n")
    with pytest.raises(MarksError, match="SHA-256"):
        read_checked(path, same)
    with pytest.raises(MarksError, match="fetch"):
        read_checked(tmp_path / "b.py", same)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"marks": [[20, "sync", "why"]]}, "outside"),
        ({"either": [[20, "why"]]}, "outside"),
        ({"marks": [[2, "wait", "why"]]}, "not one of"),
        ({"clean": True}, "clean but has marks"),
    ],
)
def test_marks_that_do_not_fit_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    row = {"lines": [[1, 9]], "marks": [[2, "sync", "why"]], "either": [], "clean": False} | change
    text = (
        f'package = "p"\nversion = "1"\nsource = "wheel"\n[[loop]]\nname = "x"\ntitle = "t"\n'
        f'clean = {json.dumps(row["clean"])}\n[[loop.part]]\nfile = "a.py"\nsha256 = ""\n'
        f"lines = {row['lines']}\nmarks = {json.dumps(row['marks'])}\n"
        f"either = {json.dumps(row['either'])}\n"
    )
    folder = tmp_path / half_of("p")
    folder.mkdir()
    (folder / "p.toml").write_text(text)
    with pytest.raises(MarksError, match=message):
        load(tmp_path)


def test_a_loop_in_the_wrong_half_is_refused(tmp_path: Path) -> None:
    other = next(half for half in HALVES if half != half_of("p"))
    (tmp_path / other).mkdir()
    (tmp_path / other / "p.toml").write_text(
        'package = "p"\nversion = "1"\nsource = "wheel"\n'
        '[[loop]]\nname = "x"\ntitle = "t"\nclean = true\npart = []\n'
    )
    with pytest.raises(MarksError, match="half"):
        load(tmp_path)


def test_where_the_file_of_a_part_lies() -> None:
    row = part()
    packaged = Loop("x", "t", False, "develop", Package("p", "1.0", "wheel"), (row,))
    assert source_of(packaged, row, Path("/packages")) == Path("/packages/p-1.0/a.py")
    public = Loop("x", "t", False, "fresh", Package("me/it", "0123456789abcdef", "git"), (row,))
    assert source_of(public, row, Path("/packages")) == Path("/packages/me+it-0123456789ab/a.py")
    assert source_of(loop("x", row), row, Path("/packages")) == OWN_LOOPS / "develop" / "a.py"


def test_reading_the_linters_json() -> None:
    row = {"code": "PG701", "message": "m", "filename": "/x.py", "location": {"row": 3}}
    assert read_findings([row]) == [Finding("/x.py", 3, "PG701", "m")]


def test_marks_by_kind_and_by_any_code() -> None:
    marked = loop("x", part((2, "copy"), (6, "sync"), (7, "sync")))
    result = scored([marked], finding("x", 6), finding("x", 2, code="PG201"))
    marks = result["all"]["marks"]
    assert marks["all"] == {"marks": 3, "found": 1, "share": 0.3333, "found_by_any_code": 2}
    assert marks["sync"]["found"] == 1
    assert marks["copy"] == {"marks": 1, "found": 0, "share": 0.0, "found_by_any_code": 1}
    assert marks["allocator"]["share"] is None


def test_a_finding_meets_a_mark_anywhere_in_the_statement() -> None:
    marked = loop("x", part((3, "sync")))
    assert scored([marked], finding("x", 4))["all"]["marks"]["all"]["found"] == 1


def test_marks_of_one_kind_on_one_statement_count_once() -> None:
    marked = loop("x", part((3, "sync"), (4, "sync"), (5, "copy")))
    assert scored([marked])["all"]["marks"]["all"]["marks"] == 2


def test_findings_are_right_wrong_or_nothing() -> None:
    marked = loop("x", part((6, "sync"), either=(2,), last=8))
    result = scored(
        [marked],
        finding("x", 6),
        finding("x", 2),  # either
        finding("x", 8),  # inside, not marked
        finding("x", 9),  # outside of the loop's lines
        finding("x", 7, code="PG201"),  # not of the family
    )
    assert result["all"]["findings"] == {"right": 1, "wrong": 1, "either": 1, "precision": 0.5}


def test_several_families() -> None:
    marked = loop("x", part((6, "sync"), (2, "copy")))
    found = (finding("x", 6), finding("x", 2, code="PG201"))
    assert scored([marked], *found, codes="PG7, PG2")["all"]["marks"]["all"]["found"] == 2


def test_silence_of_clean_loops() -> None:
    clean = loop("x", part(either=(2,)), clean=True)
    assert scored([clean], finding("x", 2))["all"]["clean_loops"] == {"loops": 1, "silent": 1}
    assert scored([clean], finding("x", 7))["all"]["clean_loops"] == {"loops": 1, "silent": 0}
    assert scored([clean], finding("x", 7, code="PG201"))["all"]["clean_loops"]["silent"] == 1


@pytest.mark.parametrize("group", ["unseen", "reserve"])
def test_of_groups_that_nobody_looks_at_there_are_totals_only(group: str) -> None:
    loops = [
        loop("x", part((6, "sync"), last=7)),
        loop("secret", part((6, "sync"), last=7), half=group),
    ]
    result = scored(loops, finding("x", 7), finding("secret", 7))
    assert result["groups"][group]["marks"]["all"]["marks"] == 1
    assert result["groups"][group]["findings"]["wrong"] == 1
    assert [row["loop"] for row in result["develop_missed"]] == ["x"]
    assert [row["place"] for row in result["develop_wrong"]] == ["a.py:7"]
    text = table(result) + listing(result)
    assert "secret" not in text + json.dumps(result)
    assert "total += loss.item()" in text
    assert "0/2 0.0 %" in text
