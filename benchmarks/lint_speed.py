"""``make bench-lint``: how fast the linter is, beside ``ast.parse``, TorchFix and ruff, on one
core.

Every tool reads the same files. Rounds are interleaved; what is compared is CPU time (user +
system) of the process and its children, because wall time depends on who else uses the machine;
wall time is written down too. TorchFix is slow enough to be given every n-th file only
(``--torchfix-share``), and compared by line.

Writes ``benchmarks/results/lint_speed.json`` (or ``--out FILE``).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "lint_speed.json"
SMALL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(x.shape[0]).to(x.device)
        return x * mask + x.amax().item()
"""
# One process that does nothing but parse, so that start-up is counted alike.
PARSE = """
import ast, gc, pathlib, sys
gc.disable()
for name in pathlib.Path(sys.argv[1]).read_text().splitlines():
    ast.parse(pathlib.Path(name).read_bytes())
"""


@dataclass
class Timing:
    """One process: CPU and wall seconds, and the largest memory of it or a child, in MiB."""

    cpu: float
    wall: float
    memory: float


def run(command: Sequence[str], folder: Path) -> Timing:
    """Run a command pinned to the cores this process is pinned to; its output is dropped."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    wall = time.perf_counter() - start
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return Timing(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / scale)


def package_folder(given: str) -> Path:
    """A folder as it is, or that of an installed package."""
    path = Path(given)
    if path.is_dir():
        return path.absolute()
    spec = importlib.util.find_spec(given)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{given}: neither a folder nor an installed package")
    return Path(next(iter(spec.submodule_search_locations)))


def count_lines(files: Sequence[Path]) -> int:
    """Lines of all files."""
    return sum(path.read_bytes().count(b"\n") for path in files)


def copy_share(files: Sequence[Path], top: Path, step: int, folder: Path) -> list[Path]:
    """Every ``step``-th file, copied below ``folder``, for a tool that only takes folders."""
    copies = []
    for path in files[::step]:
        target = folder / path.relative_to(top)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        copies.append(target)
    return copies


def version(distribution: str) -> str | None:
    """An installed distribution's version."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def summary(timings: Sequence[Timing], lines: int, files: int) -> dict[str, Any]:
    """Medians of the rounds, and microseconds of CPU time a line."""
    cpu = statistics.median(timing.cpu for timing in timings)
    return {
        "files": files,
        "lines": lines,
        "cpu_seconds": round(cpu, 3),
        "wall_seconds": round(statistics.median(timing.wall for timing in timings), 3),
        "memory_mib": round(max(timing.memory for timing in timings), 1),
        "us_per_line": round(cpu / lines * 1e6, 3) if lines else None,
        "rounds": [asdict(timing) for timing in timings],
    }


def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """All tools over the package; each round runs each of them once."""
    top = package_folder(options.package)
    files = sorted(path for path in top.rglob("*.py") if path.is_file())
    lines = count_lines(files)
    listing = work / "files.txt"
    listing.write_text("\n".join(map(str, files)))
    small = work / "small" / "model.py"
    small.parent.mkdir()
    small.write_text(SMALL)
    share = copy_share(files, top, options.torchfix_share, work / "share")

    cache = str(work / "cache")
    mine = [sys.executable, "-m", "pygraph_lint"]
    binaries = Path(sys.executable).parent
    commands = {
        "ast_parse": [sys.executable, "-c", PARSE, str(listing)],
        "pygraph_lint": [*mine, "--no-cache", "--jobs", "1", str(top)],
        "pygraph_lint_cached": [*mine, "--cache-dir", cache, str(top)],
        "version": [*mine, "--version"],
        "small_file": [*mine, "--no-cache", str(small)],
        "ruff": [str(binaries / "ruff"), "check", "--isolated", "--no-cache", str(top)],
        "torchfix": [str(binaries / "torchfix"), "-j", "1", "--select", "ALL", str(work / "share")],
    }
    of_share = (count_lines(share), len(share))
    sizes = {name: (lines, len(files)) for name in commands}
    sizes |= {"torchfix": of_share, "version": (0, 0), "small_file": (SMALL.count("\n"), 1)}

    run(commands["pygraph_lint_cached"], work)
    timings: dict[str, list[Timing]] = {name: [] for name in commands}
    for number in range(options.rounds):
        for name, command in commands.items():
            if name == "torchfix" and number >= options.torchfix_rounds:
                continue
            print(f"round {number + 1}: {name} ...", flush=True, file=sys.stderr)
            timings[name].append(run(command, work))
    return {name: summary(found, *sizes[name]) for name, found in timings.items() if found}


def report(tools: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The figures with the wanted ones and the environment."""
    mine = tools["pygraph_lint"]
    ratios = {"times_ast_parse": round(mine["cpu_seconds"] / tools["ast_parse"]["cpu_seconds"], 2)}
    if "torchfix" in tools:
        ratios["times_faster_than_torchfix_per_line"] = round(
            tools["torchfix"]["us_per_line"] / mine["us_per_line"], 1
        )
    return {
        "package": {"name": options.package, "version": version(options.package)},
        "lines": mine["lines"],
        "files": mine["files"],
        "ratios": ratios,
        "wanted": {
            "times_ast_parse": "<= 9",
            "times_faster_than_torchfix_per_line": ">= 25",
            "pygraph_lint_cached.wall_seconds": "< 2",
            "pygraph_lint.memory_mib": "< 400",
            "version.wall_seconds": "< 0.15",
            "small_file.wall_seconds": "< 0.4",
        },
        "tools": tools,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("pygraph-lint", "torchfix", "ruff", "libcst")},
        },
        "machine": {
            "processor": processor(),
            "cores_used": 1,
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "load_average": [round(load, 2) for load in os.getloadavg()],
        },
    }


def pin_to_one_core() -> None:
    """Keep this process and its children on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", default="transformers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torchfix-rounds", type=int, default=1, help="0: without TorchFix")
    parser.add_argument(
        "--torchfix-share", type=int, default=1, metavar="N", help="every N-th file"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    pin_to_one_core()
    with tempfile.TemporaryDirectory() as work:
        tools = measure(options, Path(work))
    found = report(tools, options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    for name, tool in tools.items():
        per_line = f"{tool['us_per_line']:9.2f} us/line" if tool["lines"] else ""
        print(
            f"{name:20} {tool['cpu_seconds']:8.2f} s CPU {tool['wall_seconds']:8.2f} s wall "
            f"{tool['memory_mib']:6.0f} MiB {per_line}"
        )
    print(json.dumps(found["ratios"]))


if __name__ == "__main__":
    main()
