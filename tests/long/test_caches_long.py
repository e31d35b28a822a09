"""Caches between processes: one that compiled with the backend, later ones with and without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, sys
import torch
from torch._dynamo.utils import counters

mode, artifacts = sys.argv[1:]
if mode == "no pygraph_rt":
    sys.modules["pygraph_rt"] = None
    with open(artifacts, "rb") as file:
        found = torch.compiler.load_cache_artifacts(file.read())
    print(json.dumps({"aot_autograd": len(found.aot_autograd_artifacts),
                      "inductor": len(found.inductor_artifacts)}))
    sys.exit()

from pygraph_rt.inductor import hook
from tests.runtime.test_autograd_cache import Ours, step
from torch._inductor.scheduler import Scheduler

Scheduler.should_partition = lambda *args, **kwargs: None
hook.why_no_region = lambda compiled, graph: None
signature = hook._signature

class OnGpu:
    def __init__(self, compiled):
        self.partition_maps = compiled.partition_maps
        self.mutated_input_idxs = compiled.mutated_input_idxs
        self.device_idxs = {0}

hook._signature = lambda compiled, *rest: signature(OnGpu(compiled), *rest)

def stock(gm, inputs):
    settings = {"triton.cudagraphs": True} if mode == "reduce-overhead" else {}
    return torch._inductor.compile(gm, inputs, options=settings)

ours = Ours(placing=mode != "pygraph without placement")
results = step(ours if mode.startswith("pygraph") else stock)
if artifacts:
    content, _ = torch.compiler.save_cache_artifacts()
    with open(artifacts, "wb") as file:
        file.write(content)
print(json.dumps({"hits": counters["aot_autograd"]["autograd_cache_hit"], "calls": ours.calls,
                  "results": [value.tolist() for value in results]}))
"""

MODES = ("default", "reduce-overhead", "pygraph", "pygraph without placement")


def run(mode: str, folder: Path, artifacts: Path | str = "") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode, str(artifacts)],
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("first", MODES)
def test_each_mode_gets_its_own_code_after_any_other(first: str, tmp_path: Path) -> None:
    made = run(first, tmp_path)
    assert made["hits"] == 0
    for second in MODES:
        found = run(second, tmp_path)
        assert found["results"] == made["results"]
        assert found["hits"] == (second == first)
        assert found["calls"] == (2 if second.startswith("pygraph") else 0)


def test_artifacts_load_where_the_package_is_not_and_are_hit_where_it_is(tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    run("pygraph", tmp_path / "first", artifacts)
    found = run("no pygraph_rt", tmp_path / "second", artifacts)
    assert found["aot_autograd"] == 1
    assert found["inductor"] == 2
    assert run("pygraph", tmp_path / "second")["hits"] == 1
