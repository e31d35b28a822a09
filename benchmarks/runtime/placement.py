"""CPU values beside GPU tensors, case by case: right values, right devices, how fast, and whether a
graph serves them. `python -m benchmarks.runtime.placement --out FILE`.

Each case runs in a process of its own, because the stock modes may crash; they compile side by side
with `--jobs`, and what is timed runs alone. `pygraph, before` is the backend without its placement
pass.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType
from typing import Any
from unittest import mock

import torch

import pygraph_rt
from benchmarks.runtime.__main__ import environment
from benchmarks.runtime.measure import Step, compiled, period_ms, spread, turn
from benchmarks.runtime.placement_cases import CASES, WIDTH, Case, Tensors
from pygraph_rt.host_values import placement
from pygraph_rt.inductor import hook

ROOT = Path(__file__).resolve().parents[2]
MODES = ("default", "reduce-overhead", "pygraph, before", "pygraph")
CHECKS = 6


def step_of(case: Case, mode: str) -> Step:
    """A case, compiled in one of the modes. Each has a code object of its own, because all
    compilations of one code object are tried in turn on a call.
    """
    code = case.function.__code__.replace()
    function = FunctionType(code, case.function.__globals__, case.function.__name__)
    if mode == "pygraph, before":
        before = pygraph_rt.backend.Backend()

        def backend(gm: Any, inputs: Any) -> Any:
            with mock.patch.object(hook, "place", lambda _: placement.Placement()):
                return before(gm, inputs, options={"graphs": "always"})

        run = torch.compile(function, backend=backend)
        return lambda inputs: run(*inputs)
    return compiled(function, mode)


def compare(case: Case, step: Step, make: Callable[[], Tensors]) -> dict[str, Any]:
    """Results of several calls against eager: the largest difference, and where results are."""
    worst, places = 0.0, set()
    for _ in range(CHECKS):
        inputs: Tensors = make()
        others = [t.clone() for t in inputs]
        got, want = step(inputs), case.function(*others)
        ours = [*torch.utils._pytree.tree_leaves(got), *inputs]
        theirs = [*torch.utils._pytree.tree_leaves(want), *others]
        for ours_, theirs_ in zip(ours, theirs, strict=True):
            if ours_.device.type != theirs_.device.type or ours_.dtype != theirs_.dtype:
                places.add(f"{ours_.device.type} for {theirs_.device.type}")
            difference = (ours_.double().cpu() - theirs_.double().cpu()).abs()
            worst = max(worst, float(difference.max()))
    return {"largest_difference": worst, "devices": sorted(places) or "as in eager"}


def attempt(
    case: Case, mode: str, make: Callable[[], Tensors], steps: dict[str, Step]
) -> dict[str, Any]:
    """Compile a case and compare it; a step that works is added to `steps`."""
    try:
        step = step_of(case, mode)
        found = compare(case, step, make)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    steps[mode] = step
    return found


def measure(name: str, device: str, tiny: bool, lock: str) -> dict[str, Any]:
    """One case in all modes: checked, then timed in turns."""
    torch.manual_seed(0)
    case = CASES[name]
    weight = torch.randn(WIDTH, WIDTH, device=device) / WIDTH**0.5

    def make() -> Tensors:
        return [torch.randn(8, WIDTH, device=device), weight, *case.make()]

    steps: dict[str, Step] = {}
    modes: dict[str, dict[str, Any]] = {}
    with torch.no_grad(), turn(lock, False):
        for mode in MODES:
            modes[mode] = attempt(case, mode, make, steps)
    samples: dict[str, list[float]] = {mode: [] for mode in steps}
    with torch.no_grad(), turn(lock, True):
        sets = [make() for _ in range(4)]
        for number in range(3 if tiny else 15):
            for mode in list(steps) if number % 2 else list(steps)[::-1]:
                samples[mode].append(period_ms(steps[mode], sets, 3 if tiny else 25))
    for mode, values in samples.items():
        modes[mode]["period_ms"] = spread(values)
    regions = [
        {
            k: r[k]
            for k in ("name", "state", "reason", "nodes", "served", "host_values", "host_bytes")
        }
        for r in pygraph_rt.report().to_dict()["regions"]
    ]
    for region in regions:
        region["reason"] = region["reason"].split(" (compiled from")[0]
    return {"case": name, "what": case.what, "modes": modes, "regions": regions}


def run(name: str, options: argparse.Namespace, cache: str, lock: str) -> dict[str, Any]:
    """A case in a process of its own, or what went wrong with it."""
    command = [sys.executable, "-m", "benchmarks.runtime.placement", "--case", name]
    command += ["--device", options.device, "--lock", lock, *(["--tiny"] if options.tiny else [])]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=False,
            timeout=options.seconds,
        )
    except subprocess.TimeoutExpired:
        return {"case": name, "error": f"not done after {options.seconds} s"}
    with contextlib.suppress(ValueError, IndexError):
        return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]
    told = done.stderr.strip().splitlines()[-4:]
    return {"case": name, "error": f"exit status {done.returncode}", "last_lines": told}


def table(rows: list[dict[str, Any]]) -> str:
    """One line a case and mode."""
    lines = []
    for row in rows:
        for mode, found in row.get("modes", {"": row}).items():
            period = found.get("period_ms", {}).get("median", "-")
            result = found.get("error") or f"{found['largest_difference']:.1e} {found['devices']}"
            lines.append(f"{row['case']:15} {mode:16} {period!s:8} {result[:90]}")
        states = [f"{r['state']}/{r['served']}" for r in row.get("regions", [])]
        lines.append(f"{row['case']:15} regions          {' '.join(states)}")
    return "\n".join(lines)


def main() -> None:
    """Run all cases, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=list(CASES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a few calls, to try the script out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=300, help="limit for a case")
    parser.add_argument("--lock", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.device, options.tiny, options.lock)))
        return
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", f"{folder}/cache")
        rows = list(pool.map(lambda n: run(n, options, cache, f"{folder}/lock"), CASES))
    print(table(rows))
    if options.out:
        found = {"environment": environment(), "cases": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
