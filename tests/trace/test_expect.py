"""`pygraph_rt.expect` and the pytest mark: what fails, and what is shown."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import pygraph_rt
from pygraph_rt.trace.expect import ExpectationFailed, expect
from tests.marks import LONG

ROOT = Path(__file__).parents[2]


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print("here")
    return y * 2


def breaks_at_its_end(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print("here")
    return y


def clean(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def compiled(function):
    return torch.compile(function, backend="eager")


def test_a_break_fails_with_its_line_and_reason() -> None:
    with pytest.raises(ExpectationFailed) as failed, pygraph_rt.expect(graph_breaks=0):
        compiled(breaks)(torch.ones(2))
    line = breaks.__code__.co_firstlineno + 2
    assert f"{__file__}:{line}: in breaks" in str(failed.value)
    assert "1 graph break, 0 expected" in str(failed.value)
    assert "print" in str(failed.value) or "builtin" in str(failed.value)


def test_what_goes_on_after_a_break_and_is_given_up_counts_with_that_break() -> None:
    """There is nothing to compile behind the break, so torch runs the rest as it is."""
    with pygraph_rt.expect(graph_breaks=1):
        compiled(breaks_at_its_end)(torch.ones(2))


def test_the_same_break_counts_once_however_often_it_is_compiled() -> None:
    with pytest.raises(ExpectationFailed, match=r"^1 graph break, 0 expected:\n.* \(2 times\)"):
        with pygraph_rt.expect(graph_breaks=0):
            run = torch.compile(breaks, backend="eager", dynamic=False)
            run(torch.ones(2))
            run(torch.ones(3))


def test_the_finding_and_the_fix_are_shown_where_the_linter_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ExpectationFailed) as failed, expect(graph_breaks=0):
        torch.compile(breaks, backend="eager")(torch.ones(2))
    place, said = str(failed.value).splitlines()[1:]
    assert f"{__file__}:" in place
    assert "PG501: `--fix" in said and "when not compiling" in said

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExpectationFailed, match="`pygraph-lint check FILE` says what"):
        with expect(graph_breaks=0):
            torch.compile(breaks, backend="eager")(torch.ones(2))


def test_a_second_block_of_one_model_is_judged_the_same() -> None:
    for function, good in ((compiled(breaks), False), (compiled(clean), True)):
        for _ in range(2):
            if good:
                with expect(graph_breaks=0):
                    function(torch.ones(2))
            else:
                with pytest.raises(ExpectationFailed), expect(graph_breaks=0):
                    function(torch.ones(2))


def test_without_a_fresh_start_earlier_code_is_named() -> None:
    function = compiled(breaks)
    function(torch.ones(2))
    with pytest.raises(ExpectationFailed, match="compiled before the block"):
        with expect(graph_breaks=0, fresh=False):
            function(torch.ones(2))
    with expect(graph_breaks=None, fresh=False):
        function(torch.ones(2))


def test_nothing_compiled_fails_unless_it_is_allowed() -> None:
    with pytest.raises(ExpectationFailed, match="nothing was compiled"), expect():
        clean(torch.ones(2))
    with expect(allow_nothing=True):
        clean(torch.ones(2))


def test_syncs_and_recompilations() -> None:
    with pytest.raises(ExpectationFailed, match="2 host-device syncs, 0 expected"):
        with expect(syncs=0):
            value = compiled(clean)(torch.ones(2))
            value.sum().item()
            value.tolist()
    function = compiled(clean)
    with expect(max_recompiles=1):
        function(torch.ones(2))
        function(torch.ones(3))
    with pytest.raises(ExpectationFailed, match="1 recompilation, at most 0"):
        with expect(max_recompiles=0):
            function(torch.ones(2))
            function(torch.ones(3))


def test_an_error_of_the_block_goes_through() -> None:
    with pytest.raises(ZeroDivisionError), expect():
        1 / 0


def test_torch_is_as_it_was_after_a_failure() -> None:
    before = torch.Tensor.item
    with pytest.raises(ExpectationFailed), expect():
        pass
    assert torch.Tensor.item is before


def run_pytest(folder: Path, source: str, *options: str) -> str:
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        # -rN: no summary at the end, which is longer where the variable CI is set.
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rN", *options, "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return done.stdout + done.stderr


PLUGIN = () if "pytest_pygraph" in sys.modules else ("-p", "pytest_pygraph")
MARKED = """
import pytest, torch

def breaks(x):
    y = x + 1
    print("here")
    return y * 2

@pytest.mark.pygraph(graph_breaks=0)
def test_first(): torch.compile(breaks, backend="eager")(torch.ones(2))

@pytest.mark.pygraph(graph_breaks=0)
def test_second(): torch.compile(breaks, backend="eager")(torch.ones(2))

@pytest.mark.pygraph(graph_breaks=1)
def test_third(): torch.compile(breaks, backend="eager")(torch.ones(2))

@pytest.mark.pygraph
def test_nothing(): pass

@pytest.mark.pygraph(breaks=1)
def test_misspelt(): pass

def test_unmarked(): pass

@pytest.mark.pygraph(graph_breaks=None, syncs=0)
class TestIt:
    @pytest.mark.pygraph(max_recompiles=5)
    def test_both(self): torch.compile(lambda x: x.sum().item(), backend="eager")(torch.ones(2))
"""


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="one process"),
        pytest.param(("-n", "2"), marks=LONG, id="xdist"),
    ],
)
def test_the_mark(tmp_path: Path, options: tuple[str, ...]) -> None:
    said = run_pytest(tmp_path, MARKED, "--strict-markers", *PLUGIN, *options)
    assert "5 failed, 2 passed" in said, said
    assert "1 host-device sync, 0 expected" in said
    assert said.count("test_it.py:6: in breaks") == 2
    assert "nothing was compiled" in said
    assert "unexpected keyword argument 'breaks'; it takes graph_breaks=0, syncs=None" in said
    assert "During handling" not in said


def test_torch_is_imported_for_a_mark_alone(tmp_path: Path) -> None:
    source = "import sys\ndef test_it(): assert 'torch' not in sys.modules\n"
    said = run_pytest(tmp_path, source, *PLUGIN)
    assert "1 passed" in said, said


def given_up(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for each in range(2):
        yield x + each


def refused(graph: Any, inputs: Any) -> Any:
    raise RuntimeError("this backend compiles nothing")


def test_a_frame_that_is_given_up_counts_as_a_break() -> None:
    with pytest.raises(ExpectationFailed, match="1 graph break, 0 expected"):
        with pygraph_rt.expect(graph_breaks=0) as trace:
            compiled(clean)(torch.ones(2))
            list(compiled(given_up)(torch.ones(2)))
    assert "1 frame given up" in trace.summary()
    (event,) = (event for event in trace.events if event.kind == "skipped_frame")
    assert event.gb_id == "GB0003"
    assert "non-generator" in event.details["hints"][0]


def test_code_that_fails_to_compile_counts_as_a_break() -> None:
    with pytest.raises(ExpectationFailed, match="1 graph break, 0 expected"):
        with pygraph_rt.expect(graph_breaks=0) as trace:
            compiled(clean)(torch.ones(2))
            with contextlib.suppress(Exception):
                torch.compile(clean, backend=refused)(torch.ones(3))
    assert "1 error while compiling" in trace.summary()


def test_what_was_compiled_before_is_said() -> None:
    torch._dynamo.reset()
    function = torch.compile(lambda x: x + 1, backend="eager")
    function(torch.ones(2))
    with pygraph_rt.trace() as trace:
        function(torch.ones(2))
    assert "compiled before tracing began" in trace.summary()
    assert any("compiled before tracing began" in note for note in trace.notes)


def test_syncs_of_other_threads_while_one_compiles_are_said_to_be_missing() -> None:
    torch._dynamo.reset()
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    with pygraph_rt.trace() as trace:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        other.start()
        torch.compile(lambda x: x + 2, backend="eager")(torch.ones(2))
        end.set()
        other.join()
    assert any("other threads" in note for note in trace.notes)
