"""1,000 steps of fine-tuning on a fixed trace of lengths: `python -m benchmarks.shapes`.

Rows `any_length`: 64 to 2048, most of them once; `multiples_of_64`: padded to 64; each way beside
default mode, in a row of its own. Options as in `benchmarks.rows`; without `--jobs`, because
captures are part of what is timed.
"""

from __future__ import annotations

from benchmarks import rows
from benchmarks.shapes.measure import ROWS


def summary(row: rows.Row) -> str:
    """A row in one line."""
    ways = {
        name: (way["all_beside_default"], way["late_ratio_median"], way["late_steps_above_1.5"])
        for name, way in row["ways"].items()
    }
    return (
        f"{row['name']}: {row['steps']} steps of {row['lengths']} lengths, (all steps, late "
        f"median, above 1.5) beside default {ways}"
    )


BENCHMARK = rows.Benchmark(
    module="benchmarks.shapes.measure",
    names=list(ROWS),
    out="benchmarks/results/shapes.json",
    summary=summary,
    seconds=480,
)

if __name__ == "__main__":
    rows.main(BENCHMARK, __doc__)
