"""Two versions of the runtime on the same rows, in turn, in fresh processes.

    python -m benchmarks.compare_commits --base FOLDER [--rounds 5] [--out FILE]

FOLDER is a checkout of the other version (`git worktree add FOLDER REVISION`). In each round both
versions of all rows get warm side by side, and are timed one at a time. The ratio of medians is
reported with a 95 % interval, by resampling rounds. Rows may be split over several runs with
`--shard` and `--resume`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import slices
from benchmarks.workloads.jobs import Child, Task

ROWS = (
    "runtime:decode",
    "runtime:bert",
    "runtime:gpt2",
    "runtime:efficientnet",
    "runtime:vit",
    "training:bert_training",
    "training:gpt2_training",
    "training:mt5_training",
    "training:six_shapes",
    "workloads:llama_decode_b1",
    "workloads:speech_transformer_inference",
    "workloads:xlnet_inference",
    "workloads:dlrm_inference",
    "workloads:diffusion_step",
    "workloads:mixture_of_experts",
    "workloads:mt5_inference",
    "workloads:distilgpt2_training",
    "workloads:bert_pytorch_training",
    "workloads:deeprecommender_training",
)
_MODULES = {
    "runtime": ["benchmarks.runtime.measure", "timing"],
    "training": ["benchmarks.runtime.training", "--one", "timing"],
}
_RESAMPLES = 10_000


def command(row: str, device: str, tiny: bool) -> list[str]:
    """The command that times a row under pygraph alone."""
    family, _, workload = row.partition(":")
    arguments = ["--workload", workload, "--modes", "pygraph", "--device", device]
    return [sys.executable, "-m", *_MODULES[family], *arguments, *(["--tiny"] if tiny else [])]


def period(row: str, tree: Path, scratch: Path, given: argparse.Namespace) -> dict[str, float]:
    """Milliseconds a call of one row in the checkout `tree`, and those of the GPU's kernels. It is
    timed while no other process with the same folder `scratch` compiles or is timed.

    Raises RuntimeError with the last lines of a process that failed.
    """
    folder = str(tree.resolve())
    cache = scratch / row.replace(":", "-") / folder.strip("/").replace("/", "-")
    done = subprocess.run(
        [*command(row, given.device, given.tiny), "--lock", str(scratch / "turn")],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": folder, "TORCHINDUCTOR_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=given.seconds,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError("; ".join(done.stderr.strip().splitlines()[-3:]))
    timed = json.loads(lines[-1])
    found = {"ms": float(timed["period_ms"]["pygraph"]["median"])}
    if busy := timed["gpu_busy_ms"]["pygraph"]:
        found["kernel_ms"] = busy
    return found


def interval(base: Sequence[float], new: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of median(base) / median(new), by resampling; above 1: new is faster."""
    draw = random.Random(seed)
    ratios = sorted(
        statistics.median(draw.choices(base, k=len(base)))
        / statistics.median(draw.choices(new, k=len(new)))
        for _ in range(_RESAMPLES)
    )
    return ratios[int(0.025 * _RESAMPLES)], ratios[int(0.975 * _RESAMPLES) - 1]


Runs = dict[str, dict[str, list[dict[str, float]]]]  # of each row, then of each version


def compare(rows: Sequence[str], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All rounds of rows of the runtime's and the training benchmark."""
    trees = {"base": given.base, "new": slices.ROOT}
    found: Runs = {row: {side: [] for side in trees} for row in rows}
    errors: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2 * len(rows) + 1) as pool:
        for number in range(given.rounds):
            left = [row for row in rows if row not in errors]
            order = list(itertools.product(left, list(trees)[:: -1 if number % 2 else 1]))
            tasks = [pool.submit(period, r, trees[s], Path(scratch), given) for r, s in order]
            for (row, side), task in zip(order, tasks, strict=True):
                if error := task.exception():
                    errors[row] = f"{side}: {error!r}"
                else:
                    found[row][side].append(task.result())
    yield from results(found, errors)


def compared(row: str, times: dict[str, list[float]]) -> dict[str, Any]:
    """What a row's times (milliseconds of each round) say."""
    low, high = interval(times["base"], times["new"])
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "row": row,
        "ms": times,
        "ratio": round(medians["base"] / medians["new"], 4),
        "interval_95": [round(low, 4), round(high, 4)],
        **slices.stamp(),
    }


def results(found: Runs, errors: dict[str, str]) -> Iterator[dict[str, Any]]:
    """A row for each: `ms` of all runs and what they say, and other times of the same runs."""
    for row, versions in found.items():
        if row in errors:
            yield {"row": row, "error": errors[row][-400:], **slices.stamp()}
            continue
        parts: dict[str, dict[str, list[float]]] = {
            part: {side: [run[part] for run in runs] for side, runs in versions.items()}
            for part in versions["new"][0]
        }
        yield {**compared(row, parts.pop("ms")), **parts}


def compare_workloads(names: Sequence[str], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All rounds of these workloads. A row has the host's time of a call, too."""
    trees = {"base": given.base.resolve(), "new": slices.ROOT}
    found: Runs = {name: {side: [] for side in trees} for name in names}
    errors: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(given.rounds):
            left = [name for name in names if name not in errors]
            order = list(itertools.product(left, list(trees)[:: -1 if number % 2 else 1]))
            children = {}
            for name, side in order:
                folder = Path(scratch) / f"{number}-{side}"
                folder.mkdir(exist_ok=True)
                size = ("--device", given.device, *(["--tiny"] if given.tiny else []))
                cache = Path(scratch) / side
                task = Task("timing", name, ("pygraph",), cache, size, tree=trees[side])
                children[name, side] = Child(task, folder, 1, given.seconds)
            _until_ready(children.values())
            for name, side in order:
                children[name, side].go(given.seconds)
                outcome = children[name, side].outcome()
                try:
                    found[name][side].append(_measured(outcome))
                except KeyError:
                    errors[name] = f"{side}: {outcome.get('error') or outcome.get('failed')}"
    for row in results(found, errors):
        yield {**row, "row": f"workloads:{row['row']}"}


def _until_ready(children: Iterable[Child]) -> None:
    for child in children:
        while not child.ready.is_set() and not child.finished():
            time.sleep(0.05)


def _measured(outcome: dict[str, Any]) -> dict[str, float]:
    """Milliseconds a call; `kernel_ms` where there is a GPU. Raises KeyError if it failed."""
    timed = outcome["timed"]["pygraph"]
    measured = {part: statistics.median(timed[part]) for part in ("ms", "host_ms")}
    if "pygraph" in outcome.get("profiles", {}):
        measured["kernel_ms"] = outcome["profiles"]["pygraph"]["busy_ms"]
    return measured


def main() -> None:
    """Compare the rows that are left to do, and write the file after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--base", type=Path, required=True, help="checkout of the other version")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script out")
    parser.add_argument("--seconds", type=int, default=240, help="limit of one process")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/compare_commits.json"))
    slices.add_options(parser)
    given = parser.parse_args()
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else {}
    wanted = [
        row
        for row in given.shard.of(given.rows.split(","))
        if not (given.resume and row in rows and slices.is_current(rows[row]))
    ]
    workloads = [row.partition(":")[2] for row in wanted if row.startswith("workloads:")]
    others = [row for row in wanted if not row.startswith("workloads:")]
    for result in itertools.chain(compare(others, given), compare_workloads(workloads, given)):
        rows[result["row"]] = result
        shown = {key: value for key, value in result.items() if not key.endswith("ms")}
        print(json.dumps(shown), flush=True)
        given.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
