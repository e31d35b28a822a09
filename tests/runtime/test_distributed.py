"""DDP, FSDP2, tensor parallel and pipelines on gloo, with graphs on the GPU made of CPU memory: bit
for bit what default mode computes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

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


class Job(NamedTuple):
    """Exit codes of all ranks, and the results of each case, by rank."""

    codes: list[int]
    found: dict[str, list[dict[str, Any]]]


def run(cases: list[str], ranks: int, folder: Path, *, then: Sequence[str] = ()) -> Job:
    """Run all cases, one after the other by the same processes, and then the rows of faults."""
    codes = ended([*(f"right: {case}" for case in cases), *then], ranks, folder)
    files = {
        case: [folder / str(n) / f"rank{rank}.json" for rank in range(ranks)]
        for n, case in enumerate(cases)
    }
    logs = "\n".join((folder / f"log{rank}").read_text()[-2000:] for rank in range(ranks))
    assert all(file.exists() for ranks_files in files.values() for file in ranks_files), logs
    return Job(codes, {case: [json.loads(f.read_text()) for f in files[case]] for case in cases})


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Two ranks, of which one is killed at the end."""
    cases = CASES + (MORE if LONG else [])
    return run(cases, 2, tmp_path_factory.mktemp("two"), then=["faults: killed: fsdp"])


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Meshes of two dimensions, on four ranks."""
    job = run(MESHES, 4, tmp_path_factory.mktemp("four"))
    assert job.codes == [0] * 4
    return job


def check(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert "error" not in rank, rank
        assert rank["first_difference"] is None, rank
        assert rank["results"] >= rank["steps"], rank
        assert rank["served"] >= rank["steps"], rank
        # What has nothing but views between two collectives is no graph.
        assert all("launches no GPU work" in reason for reason in rank["refused"]), rank


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_compute_what_default_mode_computes(case: str, two: Job) -> None:
    check(two.found[case])


@MINUTES
@pytest.mark.parametrize("case", MORE)
def test_two_ranks_in_more_ways(case: str, two: Job) -> None:
    check(two.found[case])


@MINUTES
@pytest.mark.parametrize("case", MESHES)
def test_four_ranks_on_meshes_of_two_dimensions(case: str, four: Job) -> None:
    check(four.found[case])


def test_equal_blocks_are_captured_once(two: Job) -> None:
    """Two blocks, forward and backward: two regions, which serve all calls but their first ones."""
    for rank in two.found["fsdp, bf16"]:
        assert rank["regions"] == 2
        assert rank["served"] + rank["unserved"] == 2 * 2 * rank["steps"]
        assert rank["unserved"] <= 4


def test_a_job_with_a_killed_rank_ends_as_without_graphs(two: Job) -> None:
    """The other one waits for it only in a collective, which gloo ends."""
    assert two.codes == [1, -9]


@MINUTES
@pytest.mark.parametrize(
    ("fault", "codes"), [("raising", [1, 1]), ("out of memory", [1, 1]), ("late", [0, 0])]
)
def test_a_job_with_a_failing_rank_ends_as_without_graphs(
    fault: str, codes: list[int], tmp_path: Path
) -> None:
    """Nobody waits for the rank but in a collective, which gloo ends."""
    assert ended([f"faults: {fault}: fsdp"], 2, tmp_path) == codes
    if codes == [0, 0]:
        found = [json.loads((tmp_path / "0" / f"rank{n}.json").read_text()) for n in range(2)]
        assert all(rank["seconds"] >= 5 for rank in found)
