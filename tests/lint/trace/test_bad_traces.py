"""Traces that cannot be used: one clear line, exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lint.support import Lint
from tests.lint.trace.traces import MODEL, document, event, frame, write


def _refused(lint: Lint, name: str) -> str:
    result = lint("trace", "--join", name)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ") and result.err.count("\n") == 1
    return result.err


def _good(lint: Lint) -> dict[str, Any]:
    lint.write({"model.py": MODEL})
    model = lint.folder / "model.py"
    return document(lint.folder, [model], [event("graph_break", [frame(model, 6)])])


def test_missing(lint: Lint) -> None:
    assert "none.json: cannot be read: No such file" in _refused(lint, "none.json")


@pytest.mark.parametrize("content", [b"", b'{"version": 1', b"\xff\xfe", b"[" * 100_000])
def test_not_json(lint: Lint, content: bytes) -> None:
    lint.write({"t.json": content})
    assert "is damaged" in _refused(lint, "t.json")


@pytest.mark.parametrize("content", ["[]", "{}", '"text"', '{"version": "1"}', "null"])
def test_not_a_trace(lint: Lint, content: str) -> None:
    lint.write({"t.json": content})
    assert "is not a trace" in _refused(lint, "t.json")


def test_newer_version(lint: Lint) -> None:
    write(lint.folder / "t.json", {**_good(lint), "version": 2})
    assert "has version 2 of the format, this pygraph-lint reads 1" in _refused(lint, "t.json")


@pytest.mark.parametrize("key", ["events", "regions", "files", "reached", "directory", "detectors"])
def test_a_key_is_missing_or_strange(lint: Lint, key: str) -> None:
    good = _good(lint)
    write(lint.folder / "t.json", {k: v for k, v in good.items() if k != key})
    assert "is damaged" in _refused(lint, "t.json")
    if key != "directory":
        write(lint.folder / "t.json", {**good, key: 3})
        assert "is damaged" in _refused(lint, "t.json")


def test_another_project(lint: Lint, tmp_path: Path) -> None:
    made = _good(lint)
    other = {
        "directory": "/home/other",
        "files": {"/home/other/a.py": {"sha256": "0", "lines": 1, "relative": "a.py"}},
    }
    write(lint.folder / "t.json", {**made, **other})
    assert "is a trace of another project" in _refused(lint, "t.json")


def test_empty(lint: Lint) -> None:
    write(lint.folder / "t.json", document(lint.folder, [], []))
    assert "nothing was recorded" in _refused(lint, "t.json")


def test_all_files_changed(lint: Lint) -> None:
    write(lint.folder / "t.json", _good(lint))
    lint.write({"model.py": "\n" + MODEL})
    assert "every file in it has changed since" in _refused(lint, "t.json")


def test_only_libraries_were_compiled(lint: Lint) -> None:
    """As after the last fix: nothing of the user's own is left in the trace."""
    elsewhere = Path("/opt/lib/site-packages/library.py")
    write(lint.folder / "t.json", document(lint.folder, [], [event("sync", [frame(elsewhere, 3)])]))
    result = lint("trace", "--join", "t.json")
    assert (result.code, result.err) == (0, "")
    assert "Nothing to fix happened in your code." in result.out


def test_nothing_to_do(lint: Lint) -> None:
    result = lint("trace")
    assert result.code == 2 and "name a program to run" in result.err


_SCALAR = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
_JSON = _SCALAR | st.lists(_SCALAR, max_size=2) | st.dictionaries(st.text(max_size=3), _SCALAR)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_damage_is_an_error_or_a_report(lint: Lint, data: st.DataObject) -> None:
    made = _good(lint)
    owner = data.draw(st.sampled_from([made, made["events"][0], made["reached"]]))
    owner[data.draw(st.sampled_from(sorted(owner)))] = data.draw(_JSON)
    write(lint.folder / "t.json", made)
    result = lint(
        "trace", "--join", "t.json", "--output-format", data.draw(st.sampled_from(_FORMATS))
    )
    assert result.code in (0, 1, 2)
    assert (result.code == 2) == result.err.startswith("error: ")


_FORMATS = ("text", "html", "chrome")
