"""`pygraph-lint trace --join`: what happened beside what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lint.support import Lint
from tests.lint.trace.traces import MODEL, document, event, frame, region, write


@pytest.fixture
def model(lint: Lint) -> Path:
    lint.write({"model.py": MODEL})
    return lint.folder / "model.py"


def _joined(lint: Lint, *made: dict[str, Any]) -> dict[str, Any]:
    names = [write(lint.folder / f"trace{n}.json", one) for n, one in enumerate(made)]
    result = lint("trace", "--output-format", "json", "--join", *names)
    assert result.err == ""
    parsed: dict[str, Any] = json.loads(result.out)
    return parsed


def _findings(joined: dict[str, Any]) -> dict[tuple[int, str], str]:
    return {(f["location"]["row"], f["code"]): f["status"] for f in joined["findings"]}


def test_a_break_at_a_finding_confirms_it_and_others_are_judged(lint: Lint, model: Path) -> None:
    events = [
        event("graph_break", [frame(model, 6)], gb_id="GB0124", gb_type="item"),
        event("sync", [frame(model, 6)], 2, frame=None, duration_s=0.5),
        event("graph_break", [frame(model, 14)], 3, gb_id="GB0170", gb_type="odd"),
    ]
    lines = [5, 6, 7, 8, 9, 10, 11, 12, 14]
    joined = _joined(
        lint, document(lint.folder, [model], events, {"model.py": lines}, {"model.py": [1, *lines]})
    )
    found = _findings(joined)
    assert found[6, "PG201"] == "confirmed"
    assert found[8, "PG501"] == "refuted"
    assert found[9, "PG301"] == "refuted"
    assert found[19, "PG201"] == "not reached"
    missed = [p for p in joined["places"] if p["status"] == "missed"]
    assert [(p["line"], p["gb_id"]) for p in missed] == [(14, "GB0170")]
    assert "GB0170" in missed[0]["advice"]
    assert joined["totals"]["graph break"]["confirmed"] == 1
    assert joined["totals"]["graph break"]["missed"] == 1
    assert joined["totals"]["sync"]["places"] == 1


def test_a_break_in_a_library_gets_no_advice_about_the_line_that_calls_it(
    lint: Lint, model: Path
) -> None:
    def advice(*inner: dict[str, Any]) -> str:
        log = {"gb_type": "Unsupported method call", "gb_id": "GB0156"}
        stack = [frame(model, 14), *inner]
        made = document(lint.folder, [model], [event("graph_break", stack, **log)])
        made["events"][0]["details"] = {"hints": ["Avoid calling `log`."]}
        (place,) = _joined(lint, made)["places"]
        return str(place["advice"])

    torch = Path("/env/lib/python3.11/site-packages/torch")
    assert advice().startswith("by hand: Log after the region")
    inside = advice(frame(torch / "nn" / "parallel" / "distributed.py", 7, "_pre_forward"))
    assert "`_pre_forward`, torch/nn/parallel/distributed.py:7" in inside
    assert "torch says: Avoid calling `log`." in inside
    assert "region" not in inside
    assert advice(frame(torch / "_dynamo" / "polyfills.py", 7)) == advice()


def test_a_sync_that_happens_once_outside_of_compiled_code_is_not_missed(
    lint: Lint, model: Path
) -> None:
    def status(count: int, *stack: dict[str, Any]) -> str:
        made = document(lint.folder, [model], [event("sync", list(stack), frame=None, count=count)])
        made["compilations"] = [{"compile_id": "0/0", **frame(model, 5), "called_by": None}]
        (place,) = _joined(lint, made)["places"]
        return str(place["status"])

    alone = frame(model, 24, "custom")
    assert status(1, alone) == "observed"
    assert status(3, alone) == "missed"
    assert status(1, frame(model, 14), alone) == "missed"


def test_another_line_of_one_statement_is_the_same_place(lint: Lint, model: Path) -> None:
    joined = _joined(
        lint,
        document(lint.folder, [model], [event("host_tensor", [frame(model, 10)], frame=None)]),
    )
    assert joined["places"][0]["status"] == "confirmed"
    assert (joined["places"][0]["line"], joined["places"][0]["end_line"]) == (10, 13)
    assert _findings(joined)[12, "PG101"] == "confirmed"


def test_a_break_in_a_library_stands_at_the_users_line(lint: Lint, model: Path) -> None:
    stack = [frame(model, 8), frame(Path("/opt/lib/other.py"), 3, "inside")]
    joined = _joined(lint, document(lint.folder, [model], [event("graph_break", stack)]))
    assert [(p["line"], p["status"]) for p in joined["places"]] == [(8, "confirmed")]
    alone = [frame(Path("/opt/lib/other.py"), 3, "inside")]
    joined = _joined(lint, document(lint.folder, [model], [event("graph_break", alone)]))
    assert not joined["places"] and joined["elsewhere"][0]["line"] == 3


def test_unknown_where_reached_lines_are_unknown(lint: Lint, model: Path) -> None:
    events = [event("graph_break", [frame(model, 6)])]
    joined = _joined(lint, document(lint.folder, [model], events, {"model.py": [6]}))
    by_place = {(f["location"]["row"], f["code"]): f for f in joined["findings"]}
    unknown = by_place[12, "PG101"]
    assert unknown["status"] == "unknown" and "Python 3.12" in unknown["why"]


def test_a_kind_without_a_detector_is_unknown(lint: Lint, model: Path) -> None:
    made = document(lint.folder, [model], [], {"model.py": [1]}, {"model.py": list(range(1, 24))})
    made["detectors"] = [{"event": "graph_break", "detector": None, "misses": "all"}]
    assert set(_findings(_joined(lint, made)).values()) == {"unknown"}


def test_what_a_skipped_frame_hides(lint: Lint, model: Path) -> None:
    events = [event("graph_break", [frame(model, 6)], frame_skipped=True)]
    made = document(lint.folder, [model], events, {"model.py": [5, 6]}, {"model.py": [6, 7, 8, 9]})
    joined = _joined(lint, made)
    assert joined["places"][0]["hides"] == [7, 8, 9, 10, 14]
    assert _findings(joined)[8, "PG501"] == "not reached"
    assert joined["fix_order"][0]["uncovers"] == [1]


def test_the_number_of_graphs_after_each_step(lint: Lint, model: Path) -> None:
    events = [
        event("graph_break", [frame(model, 6)], 1, frame=frame(model, 5)),
        event("graph_break", [frame(model, 8)], 2, frame=frame(model, 6)),
        event("compiled", [frame(model, 5)], 3, frame=frame(model, 8), compile_ids=["3/0"]),
    ]
    regions = [region(model, 5, "1/0"), region(model, 6, "2/0"), region(model, 8, "3/0")]
    made = document(lint.folder, [model], events, regions=regions)
    steps = _joined(lint, made)["fix_order"]
    assert [(s["line"], s["graphs"], s["known"]) for s in steps] == [
        (6, 2, "exactly"),
        (8, 1, "exactly"),
    ]


def test_a_break_in_a_library_is_never_certain(lint: Lint, model: Path) -> None:
    """Its call is taken out, which changes more than the break."""
    library = frame(Path("/opt/lib/site-packages/library.py"), 3)
    stack = [frame(model, 6), library]
    events = [event("graph_break", stack, 1, frame=frame(model, 5))]
    regions = [region(model, 5, "1/0"), region(model, 6, "2/0")]
    (step,) = _joined(lint, document(lint.folder, [model], events, regions=regions))["fix_order"]
    assert (step["line"], step["known"]) == (6, "about")


def test_a_segment_without_a_graph_adds_none(lint: Lint, model: Path) -> None:
    events = [
        event("graph_break", [frame(model, 6)], 1, frame=frame(model, 5)),
        event("graph_break", [frame(model, 8)], 2, frame=frame(model, 6)),
        event("compiled", [frame(model, 5)], 3, frame=frame(model, 8), compile_ids=["3/0"]),
    ]
    regions = [region(model, 5, "1/0"), region(model, 8, "3/0")]
    steps = _joined(lint, document(lint.folder, [model], events, regions=regions))["fix_order"]
    assert [s["graphs"] for s in steps] == [2, 1]


@pytest.mark.parametrize(
    ("guard", "left"),
    [
        ("___stack0 == 0.5", 1),  # what the broken operation returned
        ("___stack0 >= 0.5", 1),
        ("peak == 0.5", 1),  # what its statement assigns
        ("scale == 0.5", 2),
        ("tensor '___stack0' size mismatch at index 0. expected 3, actual 4", 2),
    ],
)
def test_compilations_for_values_that_a_break_gave(
    lint: Lint, model: Path, guard: str, left: int
) -> None:
    events = [
        event("graph_break", [frame(model, 6)], 1, frame=frame(model, 5)),
        event("recompile", [frame(model, 6)], 2, reason=guard, compile_ids=["2/1"]),
    ]
    regions = [region(model, 5, "1/0"), region(model, 6, "2/0"), region(model, 6, "2/1")]
    (step,) = _joined(lint, document(lint.folder, [model], events, regions=regions))["fix_order"]
    assert (step["line"], step["graphs"], step["known"]) == (6, left, "about")


def test_ranks_are_merged_and_what_differs_is_marked(lint: Lint, model: Path) -> None:
    one = document(lint.folder, [model], [event("graph_break", [frame(model, 6)])], rank=0)
    two = document(lint.folder, [model], [], rank=1)
    joined = _joined(lint, one, two)
    assert [t["label"] for t in joined["traces"]] == ["rank 0", "rank 1"]
    assert joined["places"][0]["differs"] == "rank 0: 1, rank 1: 0"
    same = {**two, "events": one["events"]}
    assert _joined(lint, one, same)["places"][0]["differs"] is None


def test_changed_files_are_named_and_left_out(lint: Lint, model: Path) -> None:
    lint.write({"other.py": MODEL})
    other = lint.folder / "other.py"
    events = [event("graph_break", [frame(model, 6)]), event("graph_break", [frame(other, 6)], 2)]
    made = document(lint.folder, [model, other], events)
    lint.write({"model.py": "\n" + MODEL})
    joined = _joined(lint, made)
    assert joined["changed"] == [str(model)]
    assert [p["file"] for p in joined["places"]] == [str(other)]
    text = lint("trace", "--join", "trace0.json").out
    assert "left out: model.py has changed since the trace" in text


def test_a_copy_of_the_project_is_meant_where_it_is_the_current_folder(
    lint: Lint, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = document(lint.folder, [model], [event("sync", [frame(model, 6)], frame=None)])
    copy = lint.folder / "copy"
    copy.mkdir()
    monkeypatch.chdir(copy)
    name = write(copy / "trace.json", made)
    for text, used in ((MODEL, copy / "model.py"), (MODEL + "\n", model)):
        (copy / "model.py").write_text(text)
        result = lint("trace", "--output-format", "json", "--join", name)
        assert [p["file"] for p in json.loads(result.out)["places"]] == [str(used)]


def test_the_table(lint: Lint, model: Path) -> None:
    events = [
        event(
            "graph_break",
            [frame(model, 6)],
            gb_id="GB0124",
            gb_type="Unsupported Tensor.item() call",
            count=2,
        ),
        event("recompile", [frame(model, 5)], 2, duration_s=1.5, reason="size", count=3),
    ]
    write(lint.folder / "t.json", document(lint.folder, [model], events, {"model.py": [6]}))
    result = lint("trace", "--join", "t.json")
    assert result.code == 1
    lines = result.out.splitlines()
    assert "model.py:6  graph break        2       -  found PG201" in lines
    assert "    peak = x.abs().max().item()" in lines
    assert "model.py:5  recompilation      3  1.50 s  -" in lines
    assert "  graph break: recall 1 of 1 (100 %), precision 1 of 1 (100 %)" in lines


def test_nothing_happened(lint: Lint, model: Path) -> None:
    made = document(lint.folder, [model], [], {"model.py": [23]})
    write(lint.folder / "t.json", made)
    result = lint("trace", "--join", "t.json")
    assert result.code == 0
    assert "Nothing to fix happened in your code." in result.out


def test_the_linter_does_not_import_the_runtime(lint: Lint, model: Path) -> None:
    import subprocess
    import sys

    write(lint.folder / "t.json", document(lint.folder, [model], [], {"model.py": [23]}))
    code = (
        "import sys; from pygraph_lint.cli import main; "
        "main(['trace', '--join', 't.json']); "
        "sys.exit(any(m.split('.')[0] in ('torch', 'pygraph_rt') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=lint.folder, check=False)
    assert done.returncode == 0
