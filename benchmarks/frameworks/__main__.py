"""Ten frameworks' own loops under default mode, reduce-overhead and pygraph:
`python -m benchmarks.frameworks`. Options as in `benchmarks.rows`.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from benchmarks import rows
from benchmarks.frameworks import base
from benchmarks.runtime.__main__ import run

MODULE = "benchmarks.frameworks.measure"


def measure(name: str, extra: list[str], cache: str, seconds: int) -> rows.Row:
    """One framework's row."""
    missing = [p for p in base.load(name).packages if importlib.util.find_spec(p) is None]
    if missing:
        return {"error": f"needs {', '.join(missing)}"}
    return run([name, *extra], cache, seconds, MODULE)


def summary(row: rows.Row) -> str:
    """A row in one line."""
    modes = {
        mode: found.get("error", "")[:90] or (found["step_ms"], found["right"])
        for mode, found in row["modes"].items()
    }
    served = row["modes"]["pygraph"].get("served_share")
    return f"{row['name']}: (ms a step, right) {modes} {row['speed']} served {served}"


def totals(found: list[rows.Row]) -> dict[str, Any]:
    """The judgement over all rows."""
    done = {row["name"]: row for row in found if "modes" in row}
    right = [name for name, row in done.items() if row["modes"]["pygraph"]["right"]]
    fast = [
        name
        for name in right
        if done[name]["speed"].get("beside default", 0) >= 1.1
        and done[name]["speed"].get("beside reduce-overhead", 1) >= 1
    ]
    slow = [n for n, row in done.items() if row["speed"].get("beside default", 1) < 0.97]
    return {"rows": len(found), "right": len(right), "fast": sorted(fast), "slow": sorted(slow)}


BENCHMARK = rows.Benchmark(
    module=MODULE,
    names=base.names(),
    out="benchmarks/results/frameworks.json",
    summary=summary,
    totals=totals,
    measure=measure,
    seconds=450,
)

if __name__ == "__main__":
    rows.main(BENCHMARK, __doc__)
