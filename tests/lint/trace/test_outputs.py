"""The formats of `pygraph-lint trace`, the page's structure, fixing, comparing, running."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.lint.support import Lint, run_process
from tests.lint.trace.traces import MODEL, document, event, frame, region, write

FIXABLE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.zeros(3).to(x.device)
        return x + a
"""


@pytest.fixture
def trace(lint: Lint) -> dict[str, Any]:
    lint.write({"model.py": MODEL})
    model = lint.folder / "model.py"
    events = [
        event("graph_break", [frame(model, 6)], gb_id="GB0124", gb_type="</script><b>"),
        event("sync", [frame(model, 6)], 2, frame=None, duration_s=0.25, times=[[0.5, 0.25]]),
        event("graph_break", [frame(model, 14)], 3, reason="secret_name", gb_id="GB0170"),
    ]
    made = document(lint.folder, [model], events, {"model.py": [5, 6, 8, 14]})
    made["regions"] = [region(model, 5, "1/0")]
    write(lint.folder / "t.json", made)
    return made


def test_sarif(lint: Lint, trace: dict[str, Any]) -> None:
    run = json.loads(lint("trace", "--output-format", "sarif", "--join", "t.json").out)["runs"][0]
    said = {r["ruleId"]: r["message"]["text"] for r in run["results"]}
    assert said["PG501"].startswith("[refuted]")
    assert said["GB0170"].startswith("[missed] graph break")


def test_chrome(lint: Lint, trace: dict[str, Any]) -> None:
    made = json.loads(lint("trace", "--output-format", "chrome", "--join", "t.json").out)
    rows = [row for row in made["traceEvents"] if row["ph"] != "M"]
    assert [(r["ph"], r["cat"], r["ts"], r.get("dur")) for r in rows] == [
        ("i", "graph_break", 1e5, None),
        ("X", "sync", 5e5, 2.5e5),
        ("i", "graph_break", pytest.approx(3e5), None),
    ]
    assert [r["args"]["linter"] for r in rows] == ["confirmed", "confirmed", "missed"]


class _Page(HTMLParser):
    """Elements with their attributes, the ids, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.addresses: list[str] = []
        self.texts: dict[str, str] = {}
        self._id = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self._id = given.get("id") or ""
        self.ids.add(self._id)
        self.addresses += [str(given[k]) for k in ("src", "href", "action") if k in given]
        if tag not in ("meta", "input", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.texts[self._id] = self.texts.get(self._id, "") + data


def test_the_page_is_whole_and_needs_no_network(lint: Lint, trace: dict[str, Any]) -> None:
    text = lint("trace", "--output-format", "html", "--join", "t.json").out
    page = _Page()
    page.feed(text)
    page.close()
    assert page.open == [] and page.addresses == []
    assert "http:" not in text and "https:" not in page.texts[""]
    data = json.loads(page.texts["data"])
    assert data["places"][0]["gb_type"] == "</script><b>"
    assert data["sources"][str(lint.folder / "model.py")]["lines"][5].strip().startswith("peak")
    assert [row[2] for row in data["timeline"]] == ["graph_break", "sync", "graph_break"]
    used = {name.split('"')[0] for name in page.texts[""].split('$("')[1:]} - {"row"}
    assert used <= page.ids


def test_the_page_shows_fixes_as_diffs(lint: Lint) -> None:
    lint.write({"model.py": FIXABLE})
    model = lint.folder / "model.py"
    made = document(lint.folder, [model], [event("host_tensor", [frame(model, 6)], frame=None)])
    write(lint.folder / "t.json", made)
    out = json.loads(lint("trace", "--output-format", "json", "--join", "t.json").out)
    assert "+        a = torch.zeros(3, device=x.device)" in out["findings"][0]["diff"].split("\n")


def test_misses_hold_no_source_and_no_names(lint: Lint, trace: dict[str, Any]) -> None:
    lint("trace", "--join", "t.json", "--report-misses", "misses.json")
    text = lint.read("misses.json")
    assert [m["gb_id"] for m in json.loads(text)["misses"]] == ["GB0170"]
    assert not any(word in text for word in ("model", "forward", "secret_name", str(lint.folder)))


def test_output_file(lint: Lint, trace: dict[str, Any]) -> None:
    assert lint("trace", "--join", "t.json", "--output-file", "out.txt").out == ""
    assert "model.py:6" in lint.read("out.txt")
    refused = lint("trace", "--join", "t.json", "--output-file", "none/out.txt")
    assert refused.code == 2 and "cannot be written" in refused.err


def test_fix_takes_what_happened_first_and_leaves_what_was_refuted(lint: Lint) -> None:
    other = FIXABLE.replace("zeros", "ones")
    lint.write({"model.py": FIXABLE, "other.py": FIXABLE, "third.py": other})
    paths = [lint.folder / name for name in ("model.py", "other.py", "third.py")]
    made = document(
        lint.folder,
        paths,
        [event("host_tensor", [frame(paths[1], 6)], frame=None)],
        executed={"model.py": [5, 6, 7], "other.py": [5, 6, 7], "third.py": [1]},
    )
    write(lint.folder / "t.json", made)
    result = lint("trace", "--join", "t.json", "--fix")
    fixed = [line for line in result.err.splitlines() if line.startswith("fixed")]
    assert [line.split()[1] + line.rpartition(" (")[2] for line in fixed] == [
        "other.py:6:confirmed)",
        "third.py:6:not confirmed)",
    ]
    assert lint.read("model.py") == FIXABLE
    assert "device=x.device" in lint.read("other.py")
    assert "device=x.device" in lint.read("third.py")


def test_compare(lint: Lint, trace: dict[str, Any]) -> None:
    after = {**trace, "events": [{**trace["events"][0], "count": 3}], "regions": []}
    write(lint.folder / "after.json", after)
    result = lint("trace", "--compare", "t.json", "after.json")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[:2] == ["t.json -> after.json", "graphs: 1 -> 0"]
    assert "sync: 1 -> 0" in lines
    assert sum(line.startswith("gone: model.py:") for line in lines) == 2
    assert any(
        line.startswith("changed: model.py:6 (forward) graph break, 1 -> 3") for line in lines
    )
    assert "equally often" in lint("trace", "--compare", "t.json", "t.json").out


def test_compare_leaves_out_what_differs_from_run_to_run(lint: Lint, trace: dict[str, Any]) -> None:
    """The value that a guard is for; frames without tensors, which are no problem."""
    place = [frame(lint.folder / "model.py", 5)]
    empty = "Dynamo decided to skip the frame while tracing: No ops traced for the FX graph."
    for name, value, skips in (("one.json", "0.25", []), ("two.json", "1e-05", [1])):
        events = [event("recompile", place, reason=f"___stack0 == {value}")]
        events += [event("skipped_frame", place, 1 + number, reason=empty) for number in skips]
        write(lint.folder / name, {**trace, "events": events})
    assert lint("trace", "--compare", "one.json", "two.json").out.splitlines()[2:] == [
        "recompilation: 1 -> 1",
        "The same events happened, equally often.",
    ]


def _recorder(lint: Lint, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A package in the recorder's place, that needs no torch."""
    lint.write({"fake/pygraph_rt/__init__.py": "", "fake/pygraph_rt/trace/__init__.py": ""})
    lint.write({"fake/pygraph_rt/trace/__main__.py": body})
    monkeypatch.setenv("PYTHONPATH", str(lint.folder / "fake"))


def test_a_program_is_run_joined_and_its_exit_code_kept(
    lint: Lint, trace: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "import sys, shutil\n"
        "assert sys.argv[1:3] == ['--trace-file', 'out.json']\n"
        "assert sys.argv[3:] == ['--coverage', '-m', 'train', '--fix', '--lr', '1']\n"
        "shutil.copy('t.json', 'out.json')\n"
        "sys.exit(7)\n"
    )
    _recorder(lint, monkeypatch, body)
    command = (
        "trace",
        "--trace-file",
        "out.json",
        "--coverage",
        "-m",
        "train",
        "--fix",
        "--lr",
        "1",
    )
    result = lint(*command)
    assert result.code == 7
    assert "model.py:6" in result.out


def test_a_program_that_leaves_no_trace(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    _recorder(lint, monkeypatch, "import sys; sys.exit(0)\n")
    result = lint("trace", "train.py")
    assert result.code == 2
    assert result.err == "error: the program left no trace in trace.json\n"


@pytest.mark.parametrize("code", [0, 5])
def test_a_program_without_events_keeps_its_exit_code(
    lint: Lint, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    write(lint.folder / "empty.json", document(lint.folder, [], []))
    body = f"import sys, shutil; shutil.copy('empty.json', 'trace.json'); sys.exit({code})\n"
    _recorder(lint, monkeypatch, body)
    result = lint("trace", "train.py")
    assert result.code == code
    assert not result.err.startswith("error")
    assert "nothing was recorded" in result.err and result.err.count("\n") == 1


def test_an_interpreter_without_the_recorder(lint: Lint, tmp_path: Path) -> None:
    result = lint("trace", "--python", str(tmp_path / "python9"), "train.py")
    assert result.code == 2 and "cannot be run" in result.err
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E -I "$@"\n')
    bare.chmod(0o755)
    result = lint("trace", "--python", str(bare), "train.py")
    assert result.code == 2
    assert "pip install ./packaging/rt" in result.err
    assert "has no pygraph_rt" in result.err and result.err.count("\n") == 1


def test_help(tmp_path: Path) -> None:
    done = run_process("trace", "--help", cwd=tmp_path)
    assert done.returncode == 0 and b"--report-misses" in done.stdout
