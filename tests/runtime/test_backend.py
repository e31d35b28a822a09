"""Without a GPU: plain Inductor, one notice, checked options, clear errors."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

import pygraph_rt
from pygraph_rt.__main__ import main
from pygraph_rt.options import Options, split_options
from pygraph_rt.reports.report import Region, Regions, Report, notice

ROOT = Path(__file__).parents[2]
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="shows what happens without a GPU")


@NO_GPU
def test_a_cpu_build_runs_plain_inductor_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notice.cache_clear()
    torch._dynamo.reset()
    with caplog.at_level(logging.WARNING, logger="pygraph_rt"):
        for function in (torch.sin, torch.cos):
            run = torch.compile(lambda x, f=function: f(x) + 1, backend=pygraph_rt.pygraph)
            x = torch.randn(5, requires_grad=True)
            result = run(x)
            result.sum().backward()
            torch.testing.assert_close(result, function(x) + 1)
            assert x.grad is not None
    said = [r.getMessage() for r in caplog.records if r.name == "pygraph_rt"]
    assert len(said) == 1
    assert "plain Inductor" in said[0]


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
    assert regions.alive() == [kept]
    row = {**asdict(Region("graph 1")), "reason": "why.", "note": "seen"}
    shown = Report((row,))
    text = str(shown)
    assert "graph 1" in text
    assert "why." in text
    assert "seen." in text
