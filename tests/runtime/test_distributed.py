"""DDP, FSDP2, tensor parallel and pipelines on gloo, with graphs on the GPU made of CPU memory: bit
for bit what default mode computes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

distributed = pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="this torch has no torch.distributed"
)
ROOT = Path(__file__).parents[2]
LONG = os.environ.get("PYGRAPH_DISTRIBUTED") == "all"
MINUTES = pytest.mark.skipif(not LONG, reason="make test-distributed runs it")
CASES = ["fsdp, bf16"]
MORE = [
    "ddp, no_sync",
    "tp decode",
    "ddp",
    "fsdp",
    "fsdp, saved and loaded",
    "fsdp, hooks and clipping",
    "fsdp, checkpointing",
    "ddp, optimize_ddp off",
    "ddp, small buckets",
    "fsdp, no reshard",
    "fsdp, offload",
    "tp",
    "tp, sequence parallel",
    "pipeline",
    "two models on two devices",
]
MESHES = ["fsdp x tp", "ddp x tp", "pipeline x fsdp"]


def ended(rows: list[str], ranks: int, folder: Path) -> list[int]:
    """Exit codes of all ranks, after the rows' results were written to the folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.runtime.distributed_program"]
    command += [";".join(rows), str(folder)]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"WORLD_SIZE": str(ranks), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    running = []
    for rank in range(ranks):
        with (folder / f"log{rank}").open("w") as log:
            own = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            running.append(
                subprocess.Popen(command, cwd=ROOT, env=own, stdout=log, stderr=subprocess.STDOUT)
            )
    try:
        for process in running:
            process.wait(timeout=1500)
    finally:
        for process in running:
            process.kill()
    return [process.returncode for process in running]


def run(cases: list[str], ranks: int, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of each case, by rank."""
    codes = ended([f"right: {case}" for case in cases], ranks, folder)
    logs = "\n".join((folder / f"log{rank}").read_text()[-2000:] for rank in range(ranks))
    assert codes == [0] * ranks, logs
    return {
        case: [
            json.loads((folder / str(n) / f"rank{rank}.json").read_text()) for rank in range(ranks)
        ]
        for n, case in enumerate(cases)
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """All cases, run one after the other by the same two processes."""
    return run(CASES + (MORE if LONG else []), 2, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Meshes of two dimensions, on four ranks."""
    return run(MESHES, 4, tmp_path_factory.mktemp("four"))


def check(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert "error" not in rank, rank
        assert rank["first_difference"] is None, rank
        assert rank["results"] >= rank["steps"], rank
        assert rank["served"] >= rank["steps"], rank
        # What has nothing but views between two collectives is no graph.
        assert all("launches no GPU work" in reason for reason in rank["refused"]), rank


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_compute_what_default_mode_computes(case: str, results: Any) -> None:
    check(results[case])


@MINUTES
@pytest.mark.parametrize("case", MORE)
def test_two_ranks_in_more_ways(case: str, results: Any) -> None:
    check(results[case])


@MINUTES
@pytest.mark.parametrize("case", MESHES)
def test_four_ranks_on_meshes_of_two_dimensions(case: str, four: Any) -> None:
    check(four[case])


def test_equal_blocks_are_captured_once(results: Any) -> None:
    """Two blocks, forward and backward: two regions, which serve all calls but their first ones."""
    for rank in results["fsdp, bf16"]:
        assert rank["regions"] == 2
        assert rank["served"] + rank["unserved"] == 2 * 2 * rank["steps"]
        assert rank["unserved"] <= 4


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        ("killed", [1, -9]),
        pytest.param("raising", [1, 1], marks=MINUTES),
        pytest.param("out of memory", [1, 1], marks=MINUTES),
        pytest.param("late", [0, 0], marks=MINUTES),
    ],
)
def test_a_job_with_a_failing_rank_ends_as_without_graphs(
    fault: str, codes: list[int], tmp_path: Path
) -> None:
    """Nobody waits for the rank but in a collective, which gloo ends."""
    assert ended([f"faults: {fault}: fsdp"], 2, tmp_path) == codes
    if codes == [0, 0]:
        found = [json.loads((tmp_path / "0" / f"rank{n}.json").read_text()) for n in range(2)]
        assert all(rank["seconds"] >= 5 for rank in found)
