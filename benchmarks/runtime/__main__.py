"""Run the runtime's benchmarks and write one JSON file: `python -m benchmarks.runtime --out
FILE`.

Each measurement runs in a process of its own, one after the other; a crash of one is a row of its
own.
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
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.runtime.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]
MODES = ["default", "reduce-overhead", "pygraph"]
# reduce-overhead may crash here, so its timing does not share a process with the others.
ALONE = {"decode"}


def run(arguments: list[str], cache: str, seconds: int) -> dict[str, Any]:
    """One measurement's JSON, or what went wrong with it."""
    command = [sys.executable, "-m", "benchmarks.runtime.measure", *arguments]
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
            "last_lines": [line[:300] for line in told[-4:]],
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
        from pygraph_rt import driver

        found["gpu"] = torch.cuda.get_device_name()
        found["driver"] = driver.load().version()
    for name in ("triton", "transformers", "timm"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def timings(names: list[str], extra: list[str], cache: str, seconds: int) -> list[dict[str, Any]]:
    """Periods of all modes of each workload."""
    rows = []
    for name in names:
        groups = [["default", "pygraph"], ["reduce-overhead"]] if name in ALONE else [MODES]
        for group in groups:
            arguments = ["timing", "--workload", name, "--modes", ",".join(group), *extra]
            rows.append(run(arguments, cache, seconds))
            print(summary(rows[-1]), flush=True)
    return rows


def memories(names: list[str], extra: list[str], seconds: int) -> list[dict[str, Any]]:
    """Warm-up from a cold cache and peak memory, of each workload and mode."""
    rows = []
    for name in names:
        for mode in MODES:
            with tempfile.TemporaryDirectory() as cold:
                rows.append(
                    run(["memory", "--workload", name, "--modes", mode, *extra], cold, seconds)
                )
            print(summary(rows[-1]), flush=True)
    return rows


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
    parser.add_argument("--seconds", type=int, default=240, help="limit of one measurement")
    given = parser.parse_args()
    extra = ["--device", given.device, *(["--tiny"] if given.tiny else [])]
    names = given.workloads.split(",")
    wanted = given.only.split(",")
    result: dict[str, Any] = {"environment": environment()}
    with tempfile.TemporaryDirectory() as cache:
        if "host" in wanted:
            result["host"] = run(["host", *extra], cache, given.seconds)
            print(summary(result["host"]), flush=True)
        if "timing" in wanted:
            result["timing"] = timings(names, extra, cache, given.seconds)
    if "memory" in wanted:
        result["memory"] = memories(names, extra, given.seconds)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
