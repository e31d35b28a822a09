"""DDP, FSDP2, tensor parallel and pipelines on gloo, with graphs on the GPU made of CPU memory: bit
for bit what default mode computes, and after a fault the end that default mode comes to.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.distributed import __main__ as command
from benchmarks.distributed import verdicts
from benchmarks.distributed.rows import FAULTS, MESHES, RIGHT, ROWS

distributed = pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="this torch has no torch.distributed"
)
MINUTES = pytest.mark.skipif(
    os.environ.get("PYGRAPH_DISTRIBUTED") != "all", reason="make test-distributed runs it"
)
PROGRAM = "tests.runtime.distributed_program"
# What has nothing but views between two collectives is no graph. The other one is about the GPU
# made of CPU memory only: there each view is a buffer of its own.
NO_GRAPH = ("launches no GPU work", "returns a view whose base cannot be told for certain")


def run(
    name: str, ranks: int, folder: Path, mode: str = "pygraph", then: str = ""
) -> dict[str, Any]:
    """Exit codes of all ranks, when they ended, and their results. Each row has a limit of its
    own, `then` included: a row that comes after it in the same processes.
    """
    row = next(row for row in ROWS if row.name == name)
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYGRAPH_THEN", then)
        return command.launch(row, ranks, True, mode, folder, PROGRAM)


@pytest.fixture(scope="module")
def bf16(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A case, after which one of the two ranks is killed."""
    folder = tmp_path_factory.mktemp("bf16")
    return run("right: fsdp, bf16", 2, folder, then="faults: killed: fsdp")


def check(job: dict[str, Any]) -> None:
    for rank in job["ranks"]:
        assert "error" not in rank, rank
        assert rank["first_difference"] is None, rank
        assert rank["results"] >= rank["steps"], rank
        assert rank["served"] >= rank["steps"], rank
        assert all(any(why in said for why in NO_GRAPH) for said in rank["refused"]), rank


def test_two_ranks_compute_what_default_mode_computes(bf16: dict[str, Any]) -> None:
    check(bf16)


@MINUTES
@pytest.mark.parametrize("case", [c.name for c in RIGHT if c.name != "fsdp, bf16"])
def test_two_ranks_in_more_ways(case: str, tmp_path: Path) -> None:
    job = run(f"right: {case}", 2, tmp_path)
    check(job)
    assert job["exit_codes"] == [0, 0]


@MINUTES
@pytest.mark.parametrize("case", [*(mesh.name for mesh in MESHES), "fsdp", "ddp"])
def test_four_ranks(case: str, tmp_path: Path) -> None:
    job = run(f"right: {case}", 4, tmp_path)
    check(job)
    assert job["exit_codes"] == [0] * 4


def test_equal_blocks_are_captured_once(bf16: dict[str, Any]) -> None:
    """Two blocks, forward and backward: two regions, which serve all calls but their first ones."""
    for rank in bf16["ranks"]:
        assert rank["regions"] == 2
        assert rank["served"] + rank["unserved"] == 2 * 2 * rank["steps"]
        assert rank["unserved"] <= 4


def test_a_job_with_a_killed_rank_ends(bf16: dict[str, Any]) -> None:
    """The other one waits for it only in a collective, which gloo ends."""
    assert bf16["fault"]
    assert bf16["exit_codes"] == [1, -9]


@MINUTES
@pytest.mark.parametrize(
    ("fault", "case", "ranks"),
    [
        *((fault, case, 2) for case in ("fsdp", "ddp") for fault in FAULTS),
        *((fault, "fsdp", 4) for fault in ("killed", "late")),
    ],
)
def test_a_job_with_a_fault_ends_as_in_default_mode(
    fault: str, case: str, ranks: int, tmp_path: Path
) -> None:
    """All ranks have default mode's exit codes, at most 5 s later."""
    name = f"faults: {fault}: {case}"
    runs = {mode: run(name, ranks, tmp_path / mode, mode) for mode in ("default", "pygraph")}
    assert verdicts.of_fault(runs)["good"], runs
    ours = runs["pygraph"]
    assert ours["fault"] is (fault != "none")
    others, last = (0, 0) if fault in ("none", "late") else (1, -9 if fault == "killed" else 1)
    assert ours["exit_codes"] == [others] * (ranks - 1) + [last]
    if fault == "late":
        assert all(rank["seconds"] >= 5 for rank in ours["ranks"])
