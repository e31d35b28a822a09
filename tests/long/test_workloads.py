"""All workloads compiled, and the whole runner with its children, on the CPU at tiny size."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from benchmarks.workloads import accuracy, catalogue, running, variants
from benchmarks.workloads.base import Workload
from benchmarks.workloads.run import main


@pytest.mark.long
@pytest.mark.parametrize("workload", catalogue.WORKLOADS, ids=lambda w: w.name)
def test_compiled_agrees_with_eager(workload: Workload) -> None:
    missing = [name for name in workload.packages if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{workload.name} needs {', '.join(missing)}")
    torch._dynamo.reset()
    device = torch.device("cpu")
    eager, compiled = (
        running.build(workload, variants.named(name), device, tiny=True)
        for name in ("eager", "aot_eager")
    )
    batches = running.draw_batches(eager, 2 * workload.distinct_shapes, seed=1)
    found = accuracy.errors(accuracy.answer(compiled, batches), accuracy.answer(eager, batches))
    assert found["outputs"] is not None
    assert found["outputs"] <= workload.tolerance
    assert (found["gradients"] or 0.0) <= workload.tolerance


@pytest.mark.long
def test_the_runner_measures_resumes_and_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "result.json"
    arguments = ["--device", "cpu", "--tiny", "--only", "dcgan_training", "--out", str(out)]
    arguments += ["--variants", "eager,aot_eager", "--rounds", "3", "--at-once", "2"]
    assert main(arguments) == 0
    part = json.loads(out.read_text())["workloads"]["dcgan_training"]
    assert set(part["probes"]) == {"eager", "aot_eager"}
    assert set(part["timings"][0]["timed"]) == {"eager", "aot_eager"}
    assert len(part["timings"][0]["timed"]["eager"]["ms"]) == 3
    assert part["timings"][0]["checked"]["aot_eager"]["agrees"]

    assert main([*arguments, "--resume"]) == 0
    assert len(json.loads(out.read_text())["workloads"]["dcgan_training"]["timings"]) == 1
    assert main([*arguments, "--repeat"]) == 0
    assert len(json.loads(out.read_text())["workloads"]["dcgan_training"]["timings"]) == 2
    assert "dcgan_training" in capsys.readouterr().out
