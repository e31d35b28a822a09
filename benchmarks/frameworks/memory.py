"""GPU memory of each framework's program in each mode, in a process of its own:
`python -m benchmarks.frameworks.memory` adds it to the rows of a result file.

A mode that runs in a process after others finds there what they have left: workspaces of libraries,
say. A user's program does not.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from benchmarks import rows, slices
from benchmarks.frameworks.base import MODES, Meter, Setup, load, names
from benchmarks.frameworks.measure import lengths, run
from benchmarks.runtime.__main__ import run as run_process
from benchmarks.runtime.measure import end_with_the_parent

RESULT = Path("benchmarks/results/frameworks.json")


def one(name: str, mode: str, setup: Setup) -> dict[str, int]:
    """MiB while one mode warms up and afterwards, largest values: what torch reserves, and what is
    allocated in it.
    """
    warnings.simplefilter("ignore")
    torch._dynamo.config.recompile_limit = 64
    torch.set_float32_matmul_precision("high")
    framework = load(name)
    meter = Meter(*lengths(framework, setup))
    run(framework, mode, meter, setup)
    return meter.memory


def all_modes(name: str, cache: str, extra: list[str]) -> dict[str, Any]:
    """One framework, its modes one after the other."""
    found = {}
    for mode in MODES:
        found[mode] = run_process(
            ["--name", name, "--mode", mode, *extra], cache, 150, "benchmarks.frameworks.memory"
        )
        if lines := found[mode].get("last_lines"):
            found[mode]["last_lines"] = [rows.without_paths(line) for line in lines]
        print(name, mode, found[mode], flush=True)
    return {"modes": found, "date": datetime.date.today().isoformat(), **slices.stamp()}


def put(path: Path, name: str, found: dict[str, Any]) -> None:
    """Add a row's memory to a result file."""
    result = json.loads(path.read_text())
    for row in result["rows"]:
        if row["name"] == name:
            row["memory"] = found
    path.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    """Measure the rows that were asked for, or print one mode of one row."""
    end_with_the_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(names()), help="rows, by name")
    parser.add_argument("--jobs", type=int, default=1, help="how many rows side by side")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script out")
    parser.add_argument("--name", help="only print this row's memory in --mode")
    parser.add_argument("--mode", choices=MODES)
    given = parser.parse_args()
    if given.name:
        print(json.dumps(one(given.name, given.mode, Setup(given.device, given.tiny))))
        return
    extra = ["--device", given.device, *(["--tiny"] if given.tiny else [])]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", folder)
        waiting = {pool.submit(all_modes, n, cache, extra): n for n in given.only.split(",")}
        for done in as_completed(waiting):  # what is measured stays, should a later row not end
            put(given.out, waiting[done], done.result())


if __name__ == "__main__":
    main()
