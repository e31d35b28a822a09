"""What `graphs="auto"` chooses, what choosing costs, and whether it is the same every time:
`python -m benchmarks.runtime.selection --out FILE`.

For each workload: steady state of every mode in one process, interleaved; the cost of the first
200 calls; the choices of several fresh processes; and of one that remembers. Compiling runs side by
side; while anything is timed or decided, nothing else runs or compiles.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch
from torch._dynamo import pgo

import pygraph_rt
from benchmarks.runtime import workloads
from benchmarks.runtime.__main__ import ROOT, environment
from benchmarks.runtime.measure import period_ms, spread, synchronize, turn
from pygraph_rt.reports.report import REGIONS
from pygraph_rt.select import groups

FIRST_CALLS, SETTLING_CALLS, SYNCHRONISED_EVERY = 200, 1000, 50
# A comparison waits a second for a graph that is not called any more, as where Dynamo compiled a
# break's code anew.
SETTLING_SECONDS = 3.0
ROUNDS, ROUND_MS = 9, 60.0
MODES = ("default", "reduce-overhead", "auto", "never", "always")
UNDECIDED = {"observing", "deciding"}
Step = Callable[[list[torch.Tensor]], Any]


def mlp(device: str, tiny: bool) -> workloads.Workload:
    """Two small layers: a few kernels, as short as kernels are."""
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)
    ).to(device)
    return model, lambda: [torch.randn(16, 64, device=device)]


def equation_of_state(device: str, tiny: bool) -> workloads.Workload:
    """Two large fused kernels on a grid of a million cells."""
    from benchmarks.workloads.zoo.pyhpc_equation_of_state import EnthalpyByTemperature, grid

    x, y, z = grid(64 if tiny else 1_048_576)

    def make() -> list[torch.Tensor]:
        salt = torch.rand(x, y, z, device=device) * 10 + 0.01
        heat = torch.rand(x, y, z, device=device) * 32 - 12
        return [salt, heat, torch.rand(1, 1, z, device=device) * 1000]

    return EnthalpyByTemperature().eval().to(device), make


def broken(device: str, tiny: bool) -> workloads.Workload:
    """Three compiled graphs with graph breaks between them: large, tiny, large; the first break
    reads a value, as for a log.
    """
    depth, width = (2 if tiny else 40), 256
    first, last = (
        torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(depth))).to(device)
        for _ in range(2)
    )

    peaks = [0.0]

    def run(x: torch.Tensor) -> torch.Tensor:
        x = first(x)
        peaks[0] = x.abs().max().item()
        x = x * 2
        torch._dynamo.graph_break()
        return last(x)

    return run, lambda: [torch.randn(8, width, device=device)]


WORKLOADS: dict[str, Callable[[str, bool], workloads.Workload]] = {
    "mlp": mlp,
    "equation_of_state": equation_of_state,
    "broken": broken,
    "bert": workloads.bert,
    "efficientnet": workloads.efficientnet,
    "vit": workloads.vit,
}


def turns_taken(alone: bool) -> contextlib.AbstractContextManager[None]:
    """Compile beside others, or hold the machine: one process of this benchmark at a time."""
    return turn(os.environ["SELECTION_LOCK"], alone)


def compiled(function: Callable[..., Any], mode: str) -> Step:
    """A step that takes a list of inputs. Each mode finds out for itself what changes from call to
    call, as in a process of its own.
    """
    pgo.reset_code_state()
    if mode == "default":
        run = torch.compile(function)
    elif mode == "reduce-overhead":
        inner = torch.compile(function, mode="reduce-overhead")

        def run(*inputs: torch.Tensor) -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            return inner(*inputs)
    else:
        run = torch.compile(function, backend=pygraph_rt.pygraph, options={"graphs": mode})
    return lambda inputs: run(*inputs)


def undecided() -> list[tuple[str, int]]:
    """Regions that are still being watched or compared, and how often they were called."""
    regions = pygraph_rt.report().to_dict()["regions"]
    return [(r["name"], r["served"] + r["unserved"]) for r in regions if r["state"] in UNDECIDED]


def settle(step: Step, inputs: list[list[torch.Tensor]], calls: int, done: int) -> int:
    """Calls until everything is decided that is called, or both `calls` and SETTLING_SECONDS are
    over; how many there have been.
    """
    until = time.monotonic() + SETTLING_SECONDS
    before: list[tuple[str, int]] = []
    while done < calls or time.monotonic() < until:
        now = undecided()
        if done >= 4 and {*now} <= {*before}:
            break
        before = now
        for _ in range(SYNCHRONISED_EVERY):
            step([t.clone() for t in inputs[done % len(inputs)]])
            done += 1
        synchronize()
    return done


def rows() -> list[dict[str, Any]]:
    """The report's regions, without folders of this machine."""
    text = re.sub(r"/[^ \"]*/(site-packages/)?", "", pygraph_rt.report().to_json())
    return list(json.loads(text)["regions"])


def reports(result: dict[str, Any]) -> str:
    """The compared workloads' reports, as a page."""
    said = [
        "# Example reports",
        "",
        "<!-- all blocks: output of `make bench-selection` -->",
        "",
        "What `print(pygraph_rt.report())` shows for six programs once everything had been decided "
        f"on one {result['environment'].get('gpu', 'machine without a GPU')} with torch "
        f"{result['environment']['torch']}. Folders are left out. The numbers are in "
        "[selection.json](../../benchmarks/results/selection.json) (`make bench-selection`). "
        "What each column means: [The report](report.md).",
    ]
    for row in result["compared"]:
        if "regions" in row:
            about = " ".join((WORKLOADS[row["workload"]].__doc__ or "").split())
            # Reports of version 0.1 said "the ordinary path".
            saved = json.dumps({"regions": row["regions"]})
            report = pygraph_rt.Report.from_json(
                saved.replace("the ordinary path", "compiled code")
            )
            said += ["", f"## {row['workload']}", "", about, "", "```", str(report), "```"]
    return "\n".join(said) + "\n"


class OwnTime:
    """Time that selection itself takes: of its calls, what is not spent in the regions."""

    def __init__(self) -> None:
        self.ms = 0.0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure within this context."""
        call, ran = groups.CompiledGraph.call, groups.Group.ran

        def timed(entry: Any, member: Any, args: Any) -> Any:
            started = time.perf_counter()
            results = call(entry, member, args)
            self.ms += (time.perf_counter() - started) * 1e3
            return results

        def inside(group: Any, inside_ms: float) -> None:
            self.ms -= inside_ms
            ran(group, inside_ms)

        groups.CompiledGraph.call, groups.Group.ran = timed, inside
        try:
            yield
        finally:
            groups.CompiledGraph.call, groups.Group.ran = call, ran


def first_calls(step: Step, inputs: list[list[torch.Tensor]]) -> dict[str, Any]:
    """Wall time of the calls after the compilation, what selection took of it itself, and which
    calls were made without graph once there was one.
    """
    own = OwnTime()
    regions = REGIONS().refreshed()
    captured_at = plain_before = 0
    synchronize()
    started = time.perf_counter()
    with own.measured():
        for i in range(FIRST_CALLS):
            step([t.clone() for t in inputs[i % len(inputs)]])
            if not captured_at and any(r.graphs for r in regions):
                captured_at, plain_before = i + 1, sum(r.unserved for r in regions)
            if i % SYNCHRONISED_EVERY == SYNCHRONISED_EVERY - 1:
                synchronize()
    wall = (time.perf_counter() - started) * 1e3
    found = rows()
    each = max(1, len(found))
    return {
        "wall_ms": wall,
        "capture_ms": sum(r["capture_ms"] for r in found),
        "own_ms": own.ms,
        "captured_at": captured_at,
        "served_calls": sum(r["served"] for r in found) / each,
        "plain_calls_after": (sum(r["unserved"] for r in found) - plain_before) / each,
    }


def compare(name: str, device: str, tiny: bool) -> dict[str, Any]:
    """The first calls of "auto", then the steady state of every mode."""
    function, make = WORKLOADS[name](device, tiny)
    inputs = [make() for _ in range(8)]
    steps = {"auto": compiled(function, "auto")}
    with turns_taken(alone=False):
        steps["auto"](inputs[0])
    with turns_taken(alone=True):
        first = first_calls(steps["auto"], inputs)
        calls = settle(steps["auto"], inputs, SETTLING_CALLS, FIRST_CALLS)
        found = rows()
    with turns_taken(alone=False):
        for mode in MODES:
            if mode not in steps:
                steps[mode] = compiled(function, mode)
                for batch in inputs[:4]:
                    steps[mode]([t.clone() for t in batch])
    with turns_taken(alone=True):
        counts = {}
        for mode in MODES:
            warm = period_ms(steps[mode], inputs, 16)
            counts[mode] = max(5, min(400, math.ceil(ROUND_MS / warm)))
        samples: dict[str, list[float]] = {mode: [] for mode in MODES}
        for turn in range(ROUNDS):
            for i in range(len(MODES)):
                mode = MODES[(i + turn) % len(MODES)]
                samples[mode].append(period_ms(steps[mode], inputs, counts[mode]))
    periods = {mode: spread(values) for mode, values in samples.items()}
    return {
        "workload": name,
        "period_ms": periods,
        "of_the_better": better(periods),
        "first_calls": cost(first, periods),
        "calls_until_decided": calls,
        "regions": found,
    }


def better(periods: dict[str, Any]) -> float:
    """Speed of "auto" relative to the better of default and reduce-overhead."""
    best = min(periods["default"]["median"], periods["reduce-overhead"]["median"])
    return round(best / periods["auto"]["median"], 3)


def cost(first: dict[str, Any], periods: dict[str, Any]) -> dict[str, Any]:
    """What deciding took of the first calls, capture aside.

    own: selection's own time, as a part. trying: calls made, once there was a graph, in the mode
    that turned out slower, as a part.
    """
    plain, graph = periods["never"]["median"], periods["always"]["median"]
    spent = first["wall_ms"] - first["capture_ms"]
    slower = first["plain_calls_after" if graph < plain else "served_calls"]
    return {
        **{key: round(value, 3) for key, value in first.items()},
        "own": round(first["own_ms"] / spent, 4),
        "trying": round(slower * abs(plain - graph) / spent, 4),
    }


def choose(name: str, device: str, tiny: bool) -> dict[str, Any]:
    """Calls until everything is decided in this process, and what was."""
    function, make = WORKLOADS[name](device, tiny)
    inputs = [make() for _ in range(8)]
    step = compiled(function, "auto")
    with turns_taken(alone=False):
        step(inputs[0])
    with turns_taken(alone=True):
        calls = settle(step, inputs, SETTLING_CALLS, 1)
    kept = ("name", "state", "choice", "choice_why", "candidates", "served", "unserved")
    return {
        "workload": name,
        "calls": calls,
        "regions": [{k: row[k] for k in kept} for row in rows()],
    }


def worker(given: argparse.Namespace) -> None:
    """One process's measurement, printed as its last line."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    with torch.no_grad():
        run = compare if given.worker == "compare" else choose
        print(json.dumps(run(given.workloads, given.device, given.tiny)))


def start(given: argparse.Namespace, what: str, name: str, folder: str, scratch: str) -> Any:
    """Run one worker; its JSON, or what went wrong."""
    command = [sys.executable, "-m", "benchmarks.runtime.selection", "--worker", what]
    command += ["--workloads", name, "--device", given.device, *(["--tiny"] * given.tiny)]
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", f"{scratch}/code"),
        "PYGRAPH_CACHE_DIR": folder,
        "SELECTION_LOCK": f"{scratch}/lock",
    }
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=given.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"workload": name, "error": f"{what}: not done after {given.seconds} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        told = [line[:300] for line in done.stderr.strip().splitlines() if line.strip()]
        return {"workload": name, "error": f"{what}: {told[-6:]}"}
    return json.loads(lines[-1])


def summary(row: dict[str, Any]) -> str:
    """A measurement in a line."""
    if "error" in row:
        return f"{row['workload']}: {row['error']}"
    chosen = [(r["choice"] or r["state"], r["choice_why"]) for r in row["regions"]]
    if "period_ms" not in row:
        return f"{row['workload']}: {row['calls']} calls, {chosen}"
    periods = {mode: value["median"] for mode, value in row["period_ms"].items()}
    return (
        f"{row['workload']}: {row['of_the_better']} of the better, ms {periods}, first calls "
        f"{row['first_calls']}, decided after {row['calls_until_decided']}, {chosen}"
    )


def agreement(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """How many regions got the same choice in all runs of their workload."""
    names = sorted({run["workload"] for run in runs if "regions" in run})
    same = total = 0
    for name in names:
        seen = [r["regions"] for r in runs if r["workload"] == name and "regions" in r]
        for regions in zip(*seen, strict=True):
            total += 1
            same += len({r["choice"] or r["state"] for r in regions}) == 1
    return {"regions": total, "same": same}


def gathered(found: list[tuple[Any, list[Any], list[Any]]]) -> dict[str, Any]:
    """The result file's content, from each workload's processes."""
    chosen = [run for _, runs, _ in found for run in runs]
    return {
        "environment": environment(),
        "compared": [compared for compared, _, _ in found],
        "chosen": chosen,
        "agreement": agreement(chosen),
        "remembered": [run for _, _, again in found for run in again],
    }


def main() -> None:
    """Run everything and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/selection.json"))
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script out")
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=240, help="limit of one process")
    parser.add_argument(
        "--reports", type=Path, help="only write this page, from the file named by --out"
    )
    parser.add_argument("--worker", choices=["compare", "choose"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given)
        return
    if given.reports is not None:
        given.reports.write_text(reports(json.loads(given.out.read_text())))
        return
    names = given.workloads.split(",")
    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(len(names)) as chains,
        ThreadPoolExecutor(given.at_once) as pool,
    ):

        def one(what: str, name: str, folder: str) -> Any:
            found = start(given, what, name, f"{scratch}/{folder}", scratch)
            print(f"{what} {folder} {summary(found)}", flush=True)
            return found

        def chain(name: str) -> tuple[Any, list[Any], list[Any]]:
            """One workload's processes; the first fills the compiler's cache for the others."""
            compared = pool.submit(one, "compare", name, "compared").result()
            folders = [f"process-{i}" for i in range(given.processes)]
            runs = [pool.submit(one, "choose", name, folder) for folder in folders]
            chosen = [run.result() for run in runs]
            again = [pool.submit(one, "choose", name, folder).result() for folder in folders[:1]]
            return compared, chosen, again

        waiting = [chains.submit(chain, name) for name in names]
        for _ in as_completed(waiting):  # a run cut short leaves what it has
            result = gathered([task.result() for task in waiting if task.done()])
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(result["agreement"])


if __name__ == "__main__":
    main()
