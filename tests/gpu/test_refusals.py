"""Each reason to leave a region alone: found, named in a sentence, and the result right all the
same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.gpu.support import DEVICE, assert_same, graphed, regions, ungraphed

ROOT = Path(__file__).parents[2]
_held: dict[str, torch.Tensor] = {}


@torch.library.custom_op("pygraph_tests::waits", mutates_args=())
def waits(x: torch.Tensor) -> torch.Tensor:
    return x * float(x.sum().item() > 0)


@torch.library.custom_op("pygraph_tests::keeps_a_buffer", mutates_args=())
def keeps_a_buffer(x: torch.Tensor) -> torch.Tensor:
    if "buffer" not in _held:
        _held["buffer"] = torch.ones_like(x)
    return x + _held["buffer"]


@torch.library.custom_op("pygraph_tests::reads_the_host", mutates_args=())
def reads_the_host(x: torch.Tensor) -> torch.Tensor:
    if "pinned" not in _held:
        _held["pinned"] = torch.full(x.shape, 2.0).pin_memory()
    return x + _held["pinned"].to(x.device, non_blocking=True)


@torch.library.custom_op("pygraph_tests::counts_calls", mutates_args=())
def counts_calls(x: torch.Tensor) -> torch.Tensor:
    counts_calls.calls = getattr(counts_calls, "calls", 0) + 1  # type: ignore[attr-defined]
    result = x
    for _ in range(counts_calls.calls):  # type: ignore[attr-defined]
        result = result + 0
    return result


for _op in (waits, keeps_a_buffer, reads_the_host, counts_calls):
    _op.register_fake(torch.empty_like)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (waits, "cannot be captured"),
        (keeps_a_buffer, "neither an input"),
        (reads_the_host, "host memory"),
        (counts_calls, "nodes"),
    ],
    ids=["waits", "keeps_a_buffer", "reads_the_host", "counts_calls"],
)
def test_operation_is_refused_by_name(
    function: Callable[[torch.Tensor], torch.Tensor], words: str
) -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        return function(x * 2) + 1

    fast, plain = graphed(work), ungraphed(work)
    with torch.no_grad():
        for _ in range(5):
            value = torch.randn(64, 64, device=DEVICE)
            assert_same(fast(value), plain(value))
            torch.cuda.synchronize()
    reasons = [r["reason"] for r in regions("refused")]
    assert any(words in reason for reason in reasons), reasons
    assert all("runs without a graph because" in r and "test_refusals.py" in r for r in reasons)


def test_a_cpu_tensor_is_refused_by_name() -> None:
    scale = torch.rand(4)

    def work(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * scale[2]) + 1

    fast, plain = graphed(work), ungraphed(work)
    with torch.no_grad():
        for i in range(6):
            scale[2] = float(i)
            value = torch.randn(64, 64, device=DEVICE)
            assert_same(fast(value), plain(value))
    for region in regions("refused"):
        assert "CPU tensor" in region["reason"]


def test_the_option_never_is_obeyed() -> None:
    fast = graphed(torch.relu, graphs="never")
    with torch.no_grad():
        for _ in range(4):
            fast(torch.randn(8, device=DEVICE))
    assert not regions("serving")


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


ALLOCATOR_PROGRAM = """
    import torch, pygraph_rt
    from tests.gpu.support import check, regions
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64))
    net = net.cuda().eval()
    work = lambda x: torch.sort(net(x), dim=-1)[0].clone()
    check(work, lambda: [torch.randn(32, 64, device="cuda")], served=SERVED)
    print([(r["state"], r["reason"]) for r in regions()])
"""


def test_expandable_segments_are_served() -> None:
    code = ALLOCATOR_PROGRAM.replace("SERVED", "True")
    out = run_python(code, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert "serving" in out


def test_another_allocator_is_refused_by_name() -> None:
    code = ALLOCATOR_PROGRAM.replace("SERVED", "False").replace(
        "check(work",
        "from tests.gpu import support; support.poison_free_memory = lambda: 0; check(work",
    )
    out = run_python(code, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    assert "the CUDA allocator is cudaMallocAsync" in out
