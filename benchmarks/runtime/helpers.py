"""What the compiled helpers are worth: a training step with and without them (PYGRAPH_RT_NATIVE),
as `python -m benchmarks.runtime.helpers --out FILE`.

Each round has a process with the helpers and one without, in turn. In each, default mode and
pygraph alternate, and what is compared is pygraph's time as a part of default mode's: a machine
that is busy for a while is so for both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.runtime.__main__ import environment, run
from benchmarks.runtime.training import MODULE
from pygraph_rt.cuda.native import memory

MODES = ("default", "pygraph")


def measured(name: str, helpers: bool, extra: list[str], cache: str, seconds: int) -> Any:
    """Milliseconds a step in each mode, in a process of its own."""
    arguments = ["--one", "timing", "--workload", name, "--modes", ",".join(MODES), *extra]
    with mock.patch.dict(os.environ, {"PYGRAPH_RT_NATIVE": str(int(helpers))}):
        row = run(arguments, cache, seconds, MODULE)
    if "error" in row:
        return row
    return {mode: row["period_ms"][mode]["median"] for mode in MODES}


def compared(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Median of pygraph's time as a part of default mode's, with and without the helpers."""
    return {
        way: round(statistics.median(r[way]["pygraph"] / r[way]["default"] for r in rounds), 4)
        for way in ("with_helpers", "without")
    }


def rows(
    names: list[str], rounds_each: int, extra: list[str], cache: str, seconds: int
) -> list[dict[str, Any]]:
    """One row a workload: all rounds, and what they come to where none failed."""
    found = []
    for name in names:
        rounds = []
        for _ in range(rounds_each):
            ways = (("with_helpers", True), ("without", False))
            rounds.append(
                {way: measured(name, helpers, extra, cache, seconds) for way, helpers in ways}
            )
        failed = any("error" in way for each in rounds for way in each.values())
        row = {"workload": name, "rounds": rounds, **({} if failed else compared(rounds))}
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def main() -> None:
    """Build the helper, so that nobody waits for it, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/helpers.json"))
    parser.add_argument("--workloads", default="bert_training,six_shapes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script out")
    parser.add_argument("--seconds", type=int, default=240, help="limit of one process")
    given = parser.parse_args()
    extra = ["--device", given.device, *(["--tiny"] if given.tiny else [])]
    with tempfile.TemporaryDirectory() as cache:
        folder = Path(cache) / "pygraph"
        folder.mkdir(mode=0o700)
        if memory.build(folder) is None:
            parser.error("the memory helper cannot be built here")
        names = given.workloads.split(",")
        found = rows(names, given.rounds, extra, cache, given.seconds)
    result = {"environment": environment(), "rows": found}
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
