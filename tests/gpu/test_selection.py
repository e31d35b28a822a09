"""Graph or no graph on a real GPU: what is chosen, right results meanwhile, remembered choices."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import pygraph_rt
from tests.gpu.support import DEVICE, assert_same, regions, ungraphed

MOST_CALLS = 1000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Decisions of each test, in a folder of its own."""
    monkeypatch.setenv("PYGRAPH_CACHE_DIR", str(tmp_path))
    return tmp_path / "decisions"


def deep(layers: int = 30) -> torch.nn.Module:
    """Many small kernels: launching them takes longer than running them."""
    made = [torch.nn.Linear(128, 128) for _ in range(layers)]
    return torch.nn.Sequential(*made).to(DEVICE).eval()


def auto(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=pygraph_rt.pygraph, options=options or None)


def undecided() -> bool:
    return bool(regions("observing") or regions("deciding"))


def run(fast: Any, plain: Any, make: Any) -> int:
    """Calls until everything is decided, compared bit for bit; how many."""
    with torch.no_grad():
        for i in range(MOST_CALLS):
            x = make()
            assert_same(fast(x), plain(x))
            if i > 3 and not undecided():
                return i
    raise AssertionError(f"not decided: {regions()}")


def test_a_host_bound_region_gets_a_graph(folder: Path) -> None:
    module = deep()
    run(auto(module), ungraphed(module), lambda: torch.randn(8, 128, device=DEVICE))
    (region,) = regions()
    assert (region["choice"], region["state"]) == ("graph", "serving"), region
    graph, plain = (region["candidates"][name] for name in ("graph", "no graph"))
    assert graph["median"] < plain["median"]
    (file,) = folder.iterdir()
    assert json.loads(file.read_text())["choice"] == "graph"


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="compares times")
def test_a_region_that_only_waits_for_the_gpu_gets_none() -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2

    x = torch.randn(64, 1024, 1024, device=DEVICE)
    fast = auto(work)
    with torch.no_grad():
        for i in range(MOST_CALLS):
            fast(x)
            if i % 20 == 19:
                torch.cuda.synchronize()
                if not undecided():
                    break
    (region,) = regions()
    assert (region["choice"], region["state"]) == ("no graph", "no graph"), region
    assert all(p.replay is None for p in pygraph_rt.pygraph.partitions())


def test_a_remembered_choice_is_used_at_once() -> None:
    module = deep()

    def make() -> torch.Tensor:
        return torch.randn(8, 128, device=DEVICE)

    run(auto(module), ungraphed(module), make)
    torch._dynamo.reset()
    fast = auto(module)
    with torch.no_grad():
        for _ in range(4):
            fast(make())
    region = regions()[-1]
    assert region["choice"] == "graph"
    assert "remembered" in region["choice_why"]
    assert (region["state"], region["served"], region["unserved"]) == ("serving", 2, 2)


def test_nothing_is_remembered_when_told_so(folder: Path) -> None:
    module = deep()
    fast = auto(module, remember=False)
    run(fast, ungraphed(module), lambda: torch.randn(8, 128, device=DEVICE))
    assert not folder.exists()


def test_graph_breaks_are_one_loop() -> None:
    first, second = deep(), deep()

    def work(x: torch.Tensor) -> torch.Tensor:
        x = first(x)
        torch._dynamo.graph_break()
        return second(x)

    run(auto(work), ungraphed(work), lambda: torch.randn(8, 128, device=DEVICE))
    one, other = regions()
    assert one["choice"] == other["choice"] == "graph"
    assert one["candidates"] == other["candidates"]


def test_a_capture_of_the_users_own_in_the_middle() -> None:
    module = deep()
    fast, plain = auto(module), ungraphed(module)
    x = torch.randn(8, 128, device=DEVICE)
    with torch.no_grad():
        for _ in range(24):
            fast(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = fast(x)
        graph.replay()
        assert_same(result, plain(x))
        run(fast, plain, lambda: torch.randn(8, 128, device=DEVICE))


def test_threads_take_part_without_mixing_results() -> None:
    module = deep()
    fast, plain = auto(module), ungraphed(module)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(300):
                    # On the CPU: while one thread captures, torch lets no other draw on the GPU.
                    x = torch.randn(8, 128).to(DEVICE)
                    assert_same(fast(x), plain(x))
        except BaseException as error:
            failures.append(error)

    with torch.no_grad():
        x = torch.randn(8, 128, device=DEVICE)
        assert_same(fast(x), plain(x))
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
