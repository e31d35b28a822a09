"""Run the runtime's benchmarks and write one JSON file: `python -m benchmarks.runtime --out
FILE`.

Each measurement runs in a process of its own; a crash of one is a row of its own. They run one
after the other, or with `--jobs` side by side, where compiling overlaps and only what is timed runs
alone (warm-up times then are those of a busy machine). `--shard 1/4` runs a quarter of them, and
`--resume` what the file lacks: rows of other runs stay, each with its commit, GPU and torch.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import slices
from benchmarks.runtime.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]
MODES = ["default", "reduce-overhead", "pygraph"]
# reduce-overhead may crash here, so its timing does not share a process with the others.
ALONE = {"decode"}


def run(
    arguments: list[str], cache: str, seconds: int, module: str = "benchmarks.runtime.measure"
) -> dict[str, Any]:
    """One measurement's JSON, or what went wrong with it."""
    command = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"arguments": arguments, "error": f"not done after {seconds} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        told = [line for line in done.stderr.strip().splitlines() if line.strip()]
        return {
            "arguments": arguments,
            "error": f"exit status {done.returncode}",
            "last_lines": [line[:300] for line in told[-12:]],
        }
    return json.loads(lines[-1])  # type: ignore[no-any-return]


def environment() -> dict[str, Any]:
    """The machine and the versions."""
    import torch

    found: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }
    if torch.cuda.is_available():
        from pygraph_rt.cuda import driver

        found["gpu"] = torch.cuda.get_device_name()
        found["driver"] = driver.load().version()
    for name in ("triton", "transformers", "timm"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def plan(wanted: list[str], names: list[str]) -> list[tuple[str, list[str]]]:
    """(section, arguments) of every measurement, in order."""
    found = [("host", ["host"])] if "host" in wanted else []
    for name in names if "timing" in wanted else []:
        groups = [["default", "pygraph"], ["reduce-overhead"]] if name in ALONE else [MODES]
        for group in groups:
            arguments = ["timing", "--workload", name, "--modes", ",".join(group)]
            found.append(("timing", arguments))
    for name in names if "memory" in wanted else []:
        found += [("memory", ["memory", "--workload", name, "--modes", m]) for m in MODES]
    return found


def measure(section: str, arguments: list[str], cache: str, seconds: int) -> dict[str, Any]:
    """One measurement; what is measured from a cold cache gets one of its own."""
    with contextlib.ExitStack() as stack:
        if section == "memory":
            cache = stack.enter_context(tempfile.TemporaryDirectory())
        row = run(arguments, cache, seconds)
    print(summary(row), flush=True)
    return {**row, "date": datetime.date.today().isoformat(), **slices.stamp()}


def sections(done: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Rows under the names of their sections."""
    found: dict[str, Any] = {}
    for section, row in done:
        if section == "host":
            found["host"] = row
        else:
            found.setdefault(section, []).append(row)
    return found


def read(path: Path) -> dict[str, Any]:
    """The result file; empty where there is none."""
    return json.loads(path.read_text()) if path.exists() else {}  # type: ignore[no-any-return]


def write(path: Path, result: dict[str, Any], old: dict[str, Any]) -> None:
    """The result file, with the old one's rows that were not measured again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(merged(old, result), indent=1) + "\n")


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """New measurements, and those of the old file that were not made again."""
    result = {**old, **new}
    if "error" in new.get("host", {}) and "host" in old:
        result["host"] = old["host"]
    for section in ("timing", "memory"):
        rows = new.get(section, [])
        again = {key(row) for row in rows if "error" not in row}
        left = [{"date": old["environment"]["date"], **row} for row in old.get(section, [])]
        result[section] = [r for r in left if "error" not in r and key(r) not in again] + rows
    return result


def key(row: dict[str, Any]) -> tuple[str, ...]:
    """What was measured: the workload and the modes."""
    return (row["workload"], *([row["mode"]] if "mode" in row else row.get("period_ms", ())))


def wanted_key(arguments: list[str]) -> tuple[str, ...]:
    """The key of the row that a measurement's arguments ask for."""
    if "--workload" not in arguments:
        return ()
    modes = arguments[arguments.index("--modes") + 1]
    return (arguments[arguments.index("--workload") + 1], *modes.split(","))


def left_to_do(
    planned: list[tuple[str, list[str]]], part: slices.Slice, old: dict[str, Any], resume: bool
) -> list[tuple[str, list[str]]]:
    """The measurements of this part; with `resume` without those that the file has."""
    done = {
        (section, key(row))
        for section in ("timing", "memory")
        for row in old.get(section, [])
        if resume and "error" not in row and slices.is_current(row)
    }
    return [
        (section, arguments)
        for section, arguments in part.of(planned)
        if (section, wanted_key(arguments)) not in done
    ]


def summary(row: dict[str, Any]) -> str:
    """A measurement in one line."""
    if "error" in row:
        return f"{' '.join(row['arguments'])}: {row['error']} {row.get('last_lines', '')}"
    if "period_ms" in row:
        periods = {mode: value["median"] for mode, value in row["period_ms"].items()}
        states = [(r["state"], r["nodes"]) for r in row["regions"]]
        return f"{row['workload']}: ms {periods} GPU busy {row['gpu_busy_ms']} {states}"
    if "rows" in row:
        return f"host: {row}"
    return str(row)


def main() -> None:
    """Run everything that was asked for and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/runtime.json"))
    parser.add_argument("--only", default="timing,memory,host")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script out")
    slices.add_options(parser)
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="how many to start together; what is timed waits its turn",
    )
    parser.add_argument("--seconds", type=int, default=240, help="limit of one measurement")
    given = parser.parse_args()
    extra = ["--device", given.device, *(["--tiny"] if given.tiny else [])]
    old = read(given.out)
    planned = plan(given.only.split(","), given.workloads.split(","))
    planned = left_to_do(planned, given.shard, old, given.resume)
    result: dict[str, Any] = {"environment": {**environment(), "started_together": given.jobs}}
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(given.jobs) as pool:
        if given.jobs > 1:
            extra += ["--lock", str(Path(cache) / "turn")]
        tasks = [
            (section, pool.submit(measure, section, [*arguments, *extra], cache, given.seconds))
            for section, arguments in planned
        ]
        for _ in as_completed(task for _, task in tasks):
            done = [(section, task.result()) for section, task in tasks if task.done()]
            write(given.out, {**result, **sections(done)}, old)  # a run cut short leaves its part


if __name__ == "__main__":
    main()
