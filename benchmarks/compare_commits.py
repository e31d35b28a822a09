"""Two versions of the runtime on the same rows, in turn, in fresh processes.

    python -m benchmarks.compare_commits --base FOLDER [--rounds 5] [--out FILE]

FOLDER is a checkout of the other version (`git worktree add FOLDER REVISION`). Each round runs both
versions of a row one after the other, in an order that changes from round to round. The ratio of
medians is reported with a 95 % interval, by resampling rounds. Rows may be split over several runs
with `--shard` and `--resume`. Workloads get warm side by side, and are timed one at a time.
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


def period(row: str, tree: Path, cache: str, given: argparse.Namespace) -> float:
    """Milliseconds a call of one row in the checkout `tree`.

    Raises RuntimeError with the last lines of a process that failed.
    """
    done = subprocess.run(
        command(row, given.device, given.tiny),
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree.resolve()), "TORCHINDUCTOR_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        timeout=given.seconds,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError("; ".join(done.stderr.strip().splitlines()[-3:]))
    return float(json.loads(lines[-1])["period_ms"]["pygraph"]["median"])


def interval(base: Sequence[float], new: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of median(base) / median(new), by resampling; above 1: new is faster."""
    draw = random.Random(seed)
    ratios = sorted(
        statistics.median(draw.choices(base, k=len(base)))
        / statistics.median(draw.choices(new, k=len(new)))
        for _ in range(_RESAMPLES)
    )
    return ratios[int(0.025 * _RESAMPLES)], ratios[int(0.975 * _RESAMPLES) - 1]


def compare(row: str, given: argparse.Namespace) -> dict[str, Any]:
    """All rounds of one row."""
    trees = {"base": given.base, "new": slices.ROOT}
    times: dict[str, list[float]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as cache:
        try:
            for number in range(given.rounds):
                for name in list(trees)[:: -1 if number % 2 else 1]:
                    own = str(Path(cache) / name)
                    times[name].append(period(row, trees[name], own, given))
        except (RuntimeError, subprocess.TimeoutExpired, KeyError) as error:
            return {"row": row, "error": str(error)[-400:], "ms": times, **slices.stamp()}
    return compared(row, times)


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


def compare_workloads(names: Sequence[str], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All rounds of these workloads: in each, both versions of all of them get warm side by side.

    A row has beside `ms` the time of the GPU's kernels and the host's time of a call.
    """
    trees = {"base": given.base.resolve(), "new": slices.ROOT}
    found: dict[str, dict[str, list[dict[str, float]]]] = {n: {t: [] for t in trees} for n in names}
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
    for name in names:
        row = f"workloads:{name}"
        if name in errors:
            yield {"row": row, "error": errors[name][-400:], **slices.stamp()}
            continue
        parts: dict[str, dict[str, list[float]]] = {
            part: {side: [run[part] for run in runs] for side, runs in found[name].items()}
            for part in found[name]["new"][0]
        }
        yield {**compared(row, parts.pop("ms")), **parts}


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
    others = (compare(row, given) for row in wanted if not row.startswith("workloads:"))
    for result in itertools.chain(others, compare_workloads(workloads, given)):
        rows[result["row"]] = result
        shown = {key: value for key, value in result.items() if not key.endswith("ms")}
        print(json.dumps(shown), flush=True)
        given.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
