"""Warm caches: a process finds what kernels were tuned to in an earlier one, as in default mode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import torch
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
import pygraph_rt

tuned, original = [], CachingAutotuner.autotune_to_one_config

def tune(self, *args, **kwargs):
    tuned.append(self)
    return original(self, *args, **kwargs)

CachingAutotuner.autotune_to_one_config = tune
x = torch.arange(1 << 20, device="cuda", dtype=torch.float32).requires_grad_()
step = torch.compile(lambda x: (x.sin() * x.cos()).sum(), backend="pygraph")
for _ in range(3):
    step(x).backward()
print(len(tuned), torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""

RESIZED = """
import torch
import pygraph_rt
from pygraph_rt.host_values.ops import kept

def resized(x):
    return torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest") + 1

step = torch.compile(resized, backend="pygraph", dynamic=True)
for side in (8, 12, 16) * 4:
    x = torch.rand(1, 2, side, side, device="cuda")
    assert torch.equal(step(x), resized(x))
print(len(kept()), torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""


def run(folder: Path, program: str = PROGRAM) -> tuple[int, int]:
    """(kernels tuned, or values kept, and graphs that came out of the cache) in a process."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    tuned, hits = map(int, found.stdout.split())
    return tuned, hits


def test_a_second_process_tunes_nothing_again(tmp_path: Path) -> None:
    tuned, hits = run(tmp_path)
    if not tuned:
        pytest.fail("no kernel of the program is tuned: the test shows nothing")
    assert hits == 0
    assert run(tmp_path) == (0, 1)


def test_a_second_process_computes_values_from_sizes(tmp_path: Path) -> None:
    kept, _ = run(tmp_path, RESIZED)
    if not kept:
        pytest.fail("the program has no value that is computed from sizes: the test shows nothing")
    again, hits = run(tmp_path, RESIZED)
    assert again == kept
    assert hits
