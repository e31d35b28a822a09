"""Run the programs and write one JSON file: `make adverse-gpu ARGS="--jobs 12"`.

Each runs in a process of its own: under default mode, with graphs, and without them
(`graphs="never"`). Results with graphs must be those without, bit for bit, and those of default
mode but for rounding. Verdicts: equal; different; limit (different, as docs/reference/limits.md
says); error (the program proves nothing: it failed, took too long, or differs from
itself); skipped.
`python -m tests.gpu.adverse NAME` runs one program here and prints its row.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import rows, slices
from benchmarks.runtime.__main__ import environment, read
from tests.gpu.adverse import harness
from tests.gpu.adverse.harness import CASES, Case

SUBJECTS = (
    "inputs",
    "cpu_values",
    "results",
    "saved_tensors",
    "gradients",
    "weights",
    "random_numbers",
    "operators",
    "kernels",
    "libraries",
    "streams_and_threads",
    "dynamic_shapes",
    "memory",
    "surroundings",
    "options",
)
OUT = Path("benchmarks/results/adverse.json")

for subject in SUBJECTS:
    importlib.import_module(f"tests.gpu.adverse.{subject}")


# -- one program, in this process


def settle() -> None:
    """Some kernels give other last bits with other block sizes, and the faster one is measured: two
    compilations of one program may differ. Nothing is tuned: what torch's own setting leaves out
    (persistent reductions, with torch 2.11) takes the first of its block sizes.
    """
    import torch
    from torch._inductor.runtime import triton_heuristics

    torch._inductor.config.deterministic = True
    torch._inductor.config.triton.autotune_pointwise = False
    tuned = triton_heuristics.cached_autotune

    def first(hints: Any, configs: list[Any], *args: Any, **kwargs: Any) -> Any:
        kind = str(kwargs.get("heuristic_type"))
        ours = "REDUCTION" in kind or "SPLIT_SCAN" in kind
        return tuned(hints, configs[:1] if ours else configs, *args, **kwargs)

    triton_heuristics.cached_autotune = first


def use_helper(file: Path) -> None:
    """Let graphs allocate in compiled code from the first one on."""
    from pygraph_rt.backend import _graph_maker
    from pygraph_rt.cuda.native import memory
    from tests.gpu.support import ReadyHelper

    platform = _graph_maker().platform
    ready = ReadyHelper(memory.load_file(file))
    vars(platform)["native"] = replace(platform.native, memory=ready)


def row_of(program: Case) -> rows.Row:
    """Run a program in all of its modes."""
    if program.cuda and not harness.CUDA:
        return {"verdict": "skipped", "difference": "it needs a GPU"}
    runs: dict[str, harness.Run] = {}
    try:
        for mode in program.modes:
            print(f"{program.name}: {mode}", flush=True)
            runs[mode] = harness.run(program.run, mode)
    except harness.Skip as why:
        return {"verdict": "skipped", "difference": str(why)}
    verdict, told = harness.judged(runs, program.expected)
    if verdict == "different":
        again = harness.run(program.run, "never")
        itself = harness.difference(again.results, runs["never"].results)
        if itself:
            verdict, told = "error", f"compiled code differs from itself, never{itself}"
    graphs = [runs[mode] for mode in program.modes if mode in ("always", "auto")]
    return {
        "verdict": verdict,
        "difference": rows.without_paths(told),
        "graphs": {found.mode: counted(found.regions) for found in graphs},
        "seconds": round(sum(found.seconds for found in runs.values()), 1),
    }


def counted(regions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many regions and calls graphs served, and why others were not."""
    reasons = {rows.without_paths(r["reason"])[:200] for r in regions if r["reason"]}
    return {
        "regions": len(regions),
        "serving": sum(r["served"] > 0 for r in regions),
        "calls": sum(r["served"] + r["unserved"] for r in regions),
        "served": sum(r["served"] for r in regions),
        "reasons": sorted(reasons),
    }


def run_here(name: str, helper: Path | None) -> None:
    """Print a program's row, and end the process: how one ends is another subject. Where the
    program needs another environment, it starts again in that.
    """
    wanted = {**os.environ, **CASES[name].env}
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, "-m", "tests.gpu.adverse", name], wanted)
    settle()
    if helper is not None:
        use_helper(helper)
    try:
        row = row_of(CASES[name])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(3)
    print(json.dumps(row), flush=True)
    os._exit(0)


# -- all of them


def build_helper(folder: Path) -> Path | None:
    """Build the memory helper once for all programs."""
    from pygraph_rt.cuda.native import memory

    if not (harness.CUDA and memory.cxx()):
        return None
    folder.mkdir(mode=0o700)
    return memory.build(folder)


def has_helper(name: str, which: str) -> bool:
    """Whether a program has the memory helper from its first graph on."""
    if "PYGRAPH_RT_NATIVE" in CASES[name].env or which == "none":
        return False
    return which == "all" or list(CASES).index(name) % 2 == 1


def measured(name: str, helper: Path | None, limit: float) -> rows.Row:
    """A program's row, from a process with empty caches."""
    command = [sys.executable, "-m", "tests.gpu.adverse", name]
    if helper is not None:
        command += ["--helper-file", str(helper)]
    with tempfile.TemporaryDirectory(prefix="adverse", ignore_cleanup_errors=True) as cache:
        found = {
            **os.environ,
            "OMP_NUM_THREADS": "2",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
            "TRITON_CACHE_DIR": f"{cache}/triton",
            "PYGRAPH_CACHE_DIR": f"{cache}/pygraph",
            **CASES[name].env,
        }
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            done = subprocess.run(command, cwd=slices.ROOT, env=found, timeout=limit, **both)
        except subprocess.TimeoutExpired as late:
            return failed(f"not done after {limit:.0f} s", late.output)
    if done.returncode:
        return failed(f"exit status {done.returncode}", done.stdout)
    row: rows.Row = json.loads(done.stdout.decode(errors="replace").strip().splitlines()[-1])
    return row


def failed(why: str, output: bytes | None) -> rows.Row:
    """The row of a program whose process failed."""
    lines = (output or b"").decode(errors="replace").strip().splitlines()
    told = [rows.without_paths(line)[:300] for line in lines[-8:]]
    return {"verdict": "error", "difference": why, "last_lines": told}


def described(row: rows.Row) -> str:
    """A row in one line."""
    graphs = [
        f"{mode}: {g['serving']}/{g['regions']} regions, {g['served']}/{g['calls']} calls"
        for mode, g in row.get("graphs", {}).items()
    ]
    return "  ".join([f"{row['verdict']:9} {row['name']:36}", *graphs, row["difference"][:300]])


def left_to_do(given: argparse.Namespace, old: list[rows.Row]) -> list[str]:
    """The programs of this part; with `--resume` without those that the file has."""
    parts = given.only.split(",")
    names = given.shard.of([n for n in CASES if any(part in n for part in parts)])
    done = {r["name"] for r in old if slices.is_current(r) and r["verdict"] != "error"}
    return [name for name in names if not (given.resume and name in done)]


def write(given: argparse.Namespace, found: dict[str, rows.Row]) -> dict[str, int]:
    """Write the result file, and return how often there was each verdict."""
    kept = [found[name] for name in CASES if name in found]
    counts = dict(sorted(Counter(row["verdict"] for row in kept).items()))
    machine = {**environment(), "started_together": given.jobs, "helper": given.helper}
    result = {"environment": machine, "counts": counts, "rows": kept}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    return counts


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("name", nargs="?", help="run this program alone, in this process")
    options.add_argument("--out", type=Path, default=OUT)
    options.add_argument("--only", default="", help="parts of names, separated by commas")
    options.add_argument("--jobs", type=int, default=1, help="how many to start together")
    options.add_argument("--limit", type=float, default=240, help="seconds for a program")
    options.add_argument(
        "--helper",
        choices=("half", "all", "none"),
        default="half",
        help="which programs have the compiled memory helper from their first graph on",
    )
    options.add_argument("--helper-file", type=Path, help=argparse.SUPPRESS)
    slices.add_options(options)
    return options


def main() -> None:
    """Run the programs that were asked for."""
    given = parser().parse_args()
    if given.name is not None:
        run_here(given.name, given.helper_file)
    old = read(given.out).get("rows", [])
    found = {row["name"]: row for row in old}
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        built = None if given.helper == "none" else build_helper(Path(folder) / "helper")

        def one(name: str) -> rows.Row:
            helper = built if has_helper(name, given.helper) else None
            marks = {"name": name, "subject": CASES[name].subject, "helper": helper is not None}
            return {**marks, **measured(name, helper, given.limit), **slices.stamp()}

        for task in as_completed([pool.submit(one, n) for n in left_to_do(given, old)]):
            row = task.result()
            print(described(row), flush=True)
            found[row["name"]] = row
            counts = write(given, found)  # a run cut short leaves its part
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
