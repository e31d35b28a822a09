"""Run the complaints and write one JSON file: `python -m benchmarks.complaints --out FILE`.

Each runs in a process of its own. Where that dies, it is run again without reduce-overhead. Options
as in `benchmarks.rows`.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from benchmarks import rows
from benchmarks.complaints import base
from benchmarks.runtime.__main__ import run

MODULE = "benchmarks.complaints.observe"


def measure(name: str, extra: list[str], cache: str, seconds: int) -> rows.Row:
    """One complaint's row."""
    complaint, threads = base.load(name)
    known: rows.Row = {"group": complaint.group, "threads": threads}
    missing = [p for p in complaint.packages if importlib.util.find_spec(p) is None]
    if missing:
        return {**known, "error": f"needs {', '.join(missing)}"}
    row = run([name, *extra], cache, seconds, MODULE)
    if "error" in row:
        again = run([name, *extra, "--modes", "default,pygraph"], cache, seconds, MODULE)
        if "error" not in again:
            row = {**again, "ended": row["error"]}
    return {**known, **row}


def summary(row: rows.Row) -> str:
    """A row in one line."""
    periods = {
        mode: found["error"][:60] or (found["period_ms"] or {}).get("median")
        for mode, found in row["modes"].items()
    }
    shown = row["shown"] or ("NOT SHOWN" if row["looked_at"] else "not looked at: no GPU")
    judged = f"{'right' if row['right'] else 'WRONG'}, {row['speed_beside_best_stock']}"
    return f"{row['name']}: {judged} {periods} | {shown[:120]}"


def totals(found: list[rows.Row]) -> dict[str, Any]:
    """The judgement over all rows. Rows without a symptom of today's torch are not counted."""
    done = [row for row in found if "modes" in row]
    counted = [row for row in done if row["counted"]]
    speeds = {
        row["name"]: row["speed_beside_best_stock"]
        for row in counted
        if row["speed_beside_best_stock"] is not None
    }
    return {
        "programs": len(found),
        "counted": len(counted),
        "groups": len({row["group"] for row in counted}),
        "right": sum(row["right"] for row in counted),
        "lost": sorted(name for name, speed in speeds.items() if speed < 1),
        "below_0.98": sorted(name for name, speed in speeds.items() if speed < 0.98),
        "not_shown_today": sorted(row["name"] for row in done if not row["counted"]),
        "failed": sorted(row["name"] for row in found if "modes" not in row),
    }


BENCHMARK = rows.Benchmark(
    module=MODULE,
    names=base.names(),
    out="benchmarks/results/complaints.json",
    summary=summary,
    totals=totals,
    measure=measure,
    seconds=240,
)

if __name__ == "__main__":
    rows.main(BENCHMARK, __doc__)
