"""Served calls under compute-sanitizer's memcheck: `python -m benchmarks.runtime.memcheck`.

Runs this file's program twice under the tool and writes what it found: once as users would run
it, and once with one address of the graph made wrong on purpose, which the tool has to see.
The tool knows cudaMalloc's allocations, so it sees accesses outside of the allocator's segments.
Error codes of API calls are left out: a capture asks the driver for one parameter after the other
until it says that there are no more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOOLKIT = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
_WRONG_BY = 1 << 40


def program(planted: bool) -> None:
    """A captured MLP, a convolution and a sort, with inputs and arena moved between calls."""
    import torch

    import pygraph_rt
    from pygraph_rt.verify.bits import same_bits

    mlp = torch.nn.Sequential(
        torch.nn.Linear(256, 512),
        torch.nn.GELU(),
        torch.nn.Linear(512, 250),
        torch.nn.LayerNorm(250),
    )
    mlp = mlp.cuda().eval()
    conv = torch.nn.Conv2d(3, 8, 3).cuda().eval()

    def work(x: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = mlp(x)
        return hidden, torch.sort(hidden * 2, dim=-1)[0], torch.relu(conv(image)).mean((2, 3))

    fast = torch.compile(work, backend=pygraph_rt.pygraph, options={"graphs": "always"})
    plain = torch.compile(work, backend=pygraph_rt.pygraph, options={"graphs": "never"})
    held: list[Any] = []
    with torch.no_grad():
        for i in range(12):
            held.append(torch.empty((i % 5 + 1) << 20, dtype=torch.uint8, device="cuda"))
            inputs = [torch.randn(33, 256, device="cuda"), torch.randn(2, 3, 33, 31, device="cuda")]
            results, expected = fast(*inputs), plain(*inputs)
            held.append(results)
            if i % 4 == 3:
                held.clear()
                torch.cuda.empty_cache()
            for a, b in zip(results, expected, strict=True):
                if not same_bits(a, b):
                    raise RuntimeError("results under a graph differ")
    replays = [p.replay for p in pygraph_rt.pygraph.partitions() if p.replay is not None]
    served = sum(r["served"] for r in pygraph_rt.report().to_dict()["regions"])
    print(json.dumps({"graphs": len(replays), "served": served}), flush=True)
    if planted:
        patcher = replays[0]._launcher.sub_graphs[0].graph.patcher
        patcher.addresses[0] += _WRONG_BY
        patcher.launch(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()


def tool() -> str | None:
    """The sanitizer's command."""
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=str(TOOLKIT / "bin")
    )


def check(command: str, planted: bool, seconds: int) -> dict[str, Any]:
    """One run under the tool: number of errors, and what the program said."""
    arguments = [command, "--tool", "memcheck", "--report-api-errors", "no"]
    arguments += ["--print-limit", "3", sys.executable, "-m"]
    arguments += ["benchmarks.runtime.memcheck", "--program", *(["--planted"] if planted else [])]
    # One process: the tool would otherwise watch the compiler's workers too.
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    try:
        done = subprocess.run(
            arguments,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {seconds} s"}
    found = re.search(r"ERROR SUMMARY: (\d+) error", done.stdout)
    said = re.search(r'\{"graphs".*\}', done.stdout)
    if found is None or said is None:
        return {"error": (done.stdout + done.stderr)[-600:]}
    first = re.search(r"========= (Invalid .*|Program hit .*)", done.stdout)
    return {
        "errors": int(found[1]),
        "first_error": first[1].strip() if first else None,
        **json.loads(said[0]),
    }


def main() -> None:
    """Run both and write the file; exit status 1 when memcheck found what it should not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks/results/runtime_memcheck.json"
    )
    parser.add_argument("--program", action="store_true", help="what runs under the tool")
    parser.add_argument("--planted", action="store_true", help="with one wrong address")
    parser.add_argument("--seconds", type=int, default=240, help="limit of one run")
    given = parser.parse_args()
    if given.program:
        program(given.planted)
        return
    command = tool()
    if command is None:
        raise SystemExit(
            "compute-sanitizer was not found: install the CUDA toolkit, or set CUDA_HOME"
        )
    from benchmarks.runtime.__main__ import environment

    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    result = {
        "environment": environment(),
        "tool": re.findall(r"Version (\S+)", version.stdout)[:1]
        or version.stdout.splitlines()[-1:],
        "as_it_is": check(command, False, given.seconds),
        "one_wrong_address": check(command, True, given.seconds),
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    if result["as_it_is"].get("errors") != 0 or not result["one_wrong_address"].get("errors"):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
