"""One rank of one row, started by `benchmarks.distributed` or torchrun.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \\
        python -m benchmarks.distributed.worker --row "right: fsdp" --out FOLDER
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
import torch.distributed as distributed

import pygraph_rt
from benchmarks.distributed import faults, right, speed
from benchmarks.distributed.rows import ROWS, Row

FAULT_TIMEOUT_S = 30
# Ranks compile for a while, and not equally long.
TIMEOUT_S = 600


def start(rank: int, timeout: int) -> torch.device:
    """Join the process group, where this process has none; this rank's device."""
    local = int(os.environ.get("LOCAL_RANK", rank))
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    cuda = count >= int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    if not distributed.is_initialized():
        distributed.init_process_group(
            "nccl" if cuda else "gloo",
            timeout=datetime.timedelta(seconds=timeout),
            device_id=device if cuda else None,
        )
    return device


def deterministic() -> None:
    """The same results in each run. With `warn_only` attention's backward would not be."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def measure(
    row: Row, device: torch.device, mode: str, modes: right.Modes
) -> Iterator[Mapping[str, Any]]:
    """What this rank finds; each result holds all of the one before. The profiler comes last: where
    a stock graph holds a collective it may never return.
    """
    if row.kind == "right":
        deterministic()
        yield right.compare(row.case, row.steps, device, modes)
    elif row.kind == "faults":
        yield faults.run(row.case, row.steps, device, row.fault, mode)
    elif row.kind == "speed":
        chosen = ("default", mode) if row.apart else tuple(speed.MODES)
        found, default = speed.speed(row.case, row.steps, device, chosen)
        yield found
        yield found | {"idle_share": speed.idle_share(default) if default else None}
    else:
        kinds = {"soak": speed.soak, "freed": speed.freed, "layers": speed.layers}
        yield kinds[row.kind](row.case, row.steps, device)


def main(arguments: Sequence[str], modes: right.Modes = right.MODES) -> int:
    """Exit status 1 where the row fails; FOLDER/rankN.json says how."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", required=True, choices=[row.name for row in ROWS], metavar="ROW")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--mode", default="pygraph", help="of a fault, or of a row whose modes run apart"
    )
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args(arguments)
    row = next(row for row in ROWS if row.name == given.row)
    if given.tiny:  # torch's own operators: nothing is compiled in C++
        row = row.tiny()
        torch._inductor.config.fallback_by_default = True
    rank = int(os.environ["RANK"])
    try:
        timeout = FAULT_TIMEOUT_S if row.kind == "faults" else TIMEOUT_S
        for found in measure(row, start(rank, timeout), given.mode, modes):
            keep(found, given.out, rank)
    except Exception as error:
        traceback.print_exc()
        said = next(iter(str(error).splitlines()), "")
        keep({"error": f"{type(error).__name__}: {said[:300]}"}, given.out, rank)
        return 1
    return 0


def keep(found: Mapping[str, Any], folder: Path, rank: int) -> None:
    """Write a rank's result, in place of an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"report{rank}.json").write_text(pygraph_rt.report().to_json())
    new = folder / f"rank{rank}.new"
    new.write_text(json.dumps(found))
    new.replace(folder / f"rank{rank}.json")


if __name__ == "__main__":
    sys.stdout.flush()
    ended = main(sys.argv[1:])
    if ended:
        os._exit(ended)  # collectives that wait for other ranks are not waited for
    distributed.destroy_process_group()
