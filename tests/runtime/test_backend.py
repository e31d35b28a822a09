"""Without a GPU: plain Inductor, one notice, checked options, clear errors."""

from __future__ import annotations

import copy
import io
import logging
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import pygraph_rt
from pygraph_rt import backend
from pygraph_rt.__main__ import main
from pygraph_rt.inductor import torch_support
from pygraph_rt.options import Options, split_options
from pygraph_rt.reports.report import REGIONS, Region, Regions, Report
from pygraph_rt.shared_state import Shared

ROOT = Path(__file__).parents[2]
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="shows what happens without a GPU")


@NO_GPU
def test_a_cpu_build_runs_plain_inductor_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    REGIONS.forget()
    torch._dynamo.reset()
    with caplog.at_level(logging.WARNING, logger="pygraph_rt"):
        for function in (torch.sin, torch.cos):
            run = torch.compile(lambda x, f=function: f(x) + 1, backend=pygraph_rt.pygraph)
            x = torch.randn(5, requires_grad=True)
            result = run(x)
            result.sum().backward()
            torch.testing.assert_close(result, function(x) + 1)
            assert x.grad is not None
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 1
    assert said[0].startswith("pygraph compiles with Inductor and without CUDA graphs, because ")


@NO_GPU
def test_on_a_cpu_the_report_says_that_code_was_compiled_without_graphs() -> None:
    torch._dynamo.reset()
    REGIONS.forget()

    def double(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2

    run = torch.compile(double, backend=pygraph_rt.pygraph)
    for _ in range(3):
        assert torch.equal(run(torch.ones(3)), torch.full((3,), 2.0))
    (region,) = pygraph_rt.report().regions
    assert (region["state"], region["unserved"]) == ("refused", 3)
    assert "runs without a graph because" in region["reason"]
    assert "test_backend.py" in region["source"]
    assert "nothing was compiled" not in str(pygraph_rt.report())


def functions_called(run: Callable[[torch.Tensor], object]) -> list[str]:
    """Names of the Python functions that one call enters, after it was compiled."""
    names: list[str] = []
    x = torch.ones(3)
    for _ in range(3):
        run(x)
    sys.setprofile(lambda frame, event, _: event == "call" and names.append(frame.f_code.co_name))
    run(x)
    sys.setprofile(None)
    return names


@NO_GPU
def test_without_graphs_one_function_stands_before_compiled_code() -> None:
    torch._dynamo.reset()
    stock = functions_called(torch.compile(lambda x: torch.tan(x) + 1))
    ours = functions_called(torch.compile(lambda x: torch.tan(x) + 1, backend="pygraph"))
    assert len(ours) == len(stock) + 1, set(ours) - set(stock)


@NO_GPU
def test_where_graphs_are_required_a_call_without_one_raises() -> None:
    torch._dynamo.reset()
    run = pygraph_rt.compile(lambda x: torch.cos(x) + 1, options={"graphs": "require"})
    with pytest.raises(pygraph_rt.GraphRequired, match="because") as caught:
        run(torch.ones(3))
    assert "test_backend.py" in str(caught.value)


def saved_and_loaded(model: torch.nn.Module) -> torch.nn.Module:
    room = io.BytesIO()
    torch.save(model, room)
    room.seek(0)
    loaded: torch.nn.Module = torch.load(room, weights_only=False)
    return loaded


def averaged(model: torch.nn.Module) -> torch.nn.Module:
    made = torch.optim.swa_utils.AveragedModel(model)
    made.update_parameters(model)
    return made


@NO_GPU
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("options", [None, {"graphs": "always"}])
@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), saved_and_loaded, averaged],
    ids=["deepcopy", "pickle", "save", "average"],
)
def test_a_compiled_model_is_copied_as_stock_inductor_lets_it(
    copied: Callable[[torch.nn.Module], torch.nn.Module],
    options: dict[str, Any] | None,
    called: bool,
) -> None:
    torch._dynamo.reset()
    model = torch.nn.Linear(3, 2)
    run = torch.compile(model, backend=pygraph_rt.pygraph, options=options)
    x = torch.randn(4, 3)
    if called:
        run(x)
    torch.testing.assert_close(copied(run)(x), model(x))


def test_the_backend_is_one_object_in_every_copy() -> None:
    assert copy.deepcopy(pygraph_rt.pygraph) is pygraph_rt.pygraph
    assert pickle.loads(pickle.dumps(pygraph_rt.pygraph)) is pygraph_rt.pygraph


def test_a_mistake_of_the_package_is_not_taken_for_a_torch_that_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken() -> None:
        raise AttributeError("a mistake")

    monkeypatch.setattr(torch_support, "why_plain", lambda: None)
    monkeypatch.setattr(backend, "_graph_maker", mistaken)
    with pytest.raises(AttributeError, match="a mistake"):
        backend.why_without_graphs()


def test_the_registry_begins_anew_when_it_is_told_to() -> None:
    made = Shared(list)
    first: list[Any] = made()
    assert made() is first
    made.forget()
    assert made() is not first


@NO_GPU
def test_compile_takes_mode_and_options_together() -> None:
    torch._dynamo.reset()
    module = torch.nn.Linear(3, 3)
    run = pygraph_rt.compile(
        module, mode="max-autotune-no-cudagraphs", options={"observe": 2}, dynamic=True
    )
    x = torch.randn(2, 3)
    torch.testing.assert_close(run(x), module(x))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"graph": "never"}, "did you mean 'graphs'"),
        ({"graphs": "sometimes"}, "use one of auto, always, require, never"),
        ({"observe": 0}, "whole number"),
        ({"variants": True}, "whole number"),
        ({"graph_memory": 0}, "above 0"),
        ({"graph_memory": "all"}, "above 0"),
        ({"verify": "yes"}, "True or False"),
        ({"triton.cudagraf": True}, "neither an option"),
        (
            {"foo": 1},
            "neither an option of pygraph nor of Inductor; pygraph.s are graph_memory, graphs",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(pygraph_rt.OptionError, match=words):
        pygraph_rt.compile(torch.nn.Linear(1, 1), options=options)


def test_the_backend_is_found_by_name_when_the_package_is_installed() -> None:
    names = {e.name: e.value for e in entry_points(group="torch_dynamo_backends")}
    if "pygraph" not in names:
        pytest.skip("the package is not installed, only on the path")
    assert names["pygraph"] == "pygraph_rt.backend:pygraph"
    assert torch._dynamo.lookup_backend("pygraph") is pygraph_rt.pygraph


def test_options_of_both_sides_are_told_apart() -> None:
    own, rest = split_options(
        {"graphs": "never", "epilogue_fusion": True}, frozenset({"epilogue_fusion"})
    )
    assert own == Options(graphs="never")
    assert rest == {"epilogue_fusion": True}


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_torch_the_import_says_one_sentence() -> None:
    done = run_python("import sys; sys.modules['torch'] = None; import pygraph_rt")
    assert done.returncode
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: pygraph_rt needs PyTorch")
    assert "During handling" not in done.stderr


def test_without_torch_the_command_says_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('none')")
    done = subprocess.run(
        [sys.executable, "-m", "pygraph_rt", "doctor"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "pygraph_rt needs PyTorch" in line
    assert "pip install torch" in line


@NO_GPU
def test_the_doctor_says_why_there_are_no_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert f"torch {torch.__version__}" in said
    assert "graphs: no (" in said


def test_a_declined_region_is_one_sentence_with_its_source() -> None:
    region = Region("graph 0/0 partition 1 of 1", "forward at model.py:10-12")
    region.decline("it draws random numbers")
    assert region.reason == (
        "graph 0/0 partition 1 of 1 runs without a graph because it draws random numbers "
        "(compiled from forward at model.py:10-12)."
    )
    assert region.state == "refused"


def test_the_report_shows_living_regions_only() -> None:
    regions = Regions()
    kept, dropped = Region("a"), Region("b")
    regions.add(kept)
    regions.add(dropped)
    del dropped
    assert regions.refreshed() == [kept]
    row = {**asdict(Region("graph 1")), "reason": "why.", "note": "seen"}
    shown = Report((row,))
    text = str(shown)
    assert "graph 1" in text
    assert "why." in text
    assert "seen." in text


@pytest.mark.parametrize(("graphs", "expected"), [("auto", [3]), ("always", [3]), ("never", [])])
def test_the_compiled_helper_is_asked_for_before_a_graph_is_compiled(
    graphs: str, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    native = SimpleNamespace(memory=SimpleNamespace(expect=asked.append))
    maker = SimpleNamespace(platform=SimpleNamespace(native=native))

    def compiled(*_: Any) -> str:
        asked.append(-1)
        return "compiled"

    monkeypatch.setattr(backend, "why_without_graphs", lambda: None)
    monkeypatch.setattr(backend, "_graph_maker", lambda: maker)
    monkeypatch.setattr(backend, "_selector", lambda: None)
    monkeypatch.setattr(backend.hook, "compile_graphed", compiled)
    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    made = backend.Backend()(graph, [torch.ones(1)] * 3, options={"graphs": graphs})
    assert made == "compiled"
    assert asked == [*expected, -1]
