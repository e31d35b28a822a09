"""Four threads that call a cold model at once fail no oftener than in default mode."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from pygraph_rt.shared_state import forget_everything
from tests.runtime import inductor_on_software_gpu
from tests.runtime.inductor_on_software_gpu import FALLBACK, OPTIONS

TRIES, THREADS, CALLS = 100, 4, 6


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    forget_everything()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield inductor_on_software_gpu.install(monkeypatch)
    torch._dynamo.reset()


def call(run: Any, model: Any, together: threading.Barrier) -> None:
    together.wait()
    for _ in range(CALLS):
        x = torch.randn(4, 8)
        with torch.no_grad():
            torch.testing.assert_close(run(x), model(x))


def failures(backend: str, options: dict[str, Any]) -> list[str]:
    """What threads raised, or computed wrongly, one entry a try."""
    found: list[str] = []
    for number in range(TRIES):
        torch._dynamo.reset()
        torch.manual_seed(number)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
        run = torch.compile(model, backend=backend, options=options)
        together = threading.Barrier(THREADS)
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            calls = [pool.submit(call, run, model, together) for _ in range(THREADS)]
            errors = [made.exception(timeout=120) for made in calls]
        found += [f"{type(e).__name__}: {e}"[:200] for e in errors if e is not None][:1]
    return found


def test_threads_that_call_a_cold_model(gpu: Any) -> None:
    ours = failures("pygraph", OPTIONS)
    assert not ours or len(ours) <= len(failures("inductor", FALLBACK)), ours
    assert gpu.launches, "no graph was served"
