"""Decoding of an 8B-shaped Llama, batch 1 and 8, beside the bandwidth of the same GPU:
`python -m benchmarks.decode`.

Rows `batch1_modes` (eager, default, reduce-overhead, pygraph) and `batch1_max_autotune` (with
torch's graphs, without, with pygraph's); limits are measured in the process of each row. Options as
in `benchmarks.rows`.
"""

from __future__ import annotations

from benchmarks import rows
from benchmarks.decode.ways import ROWS


def summary(row: rows.Row) -> str:
    """A row in one line."""
    kept = ("step_share_of_limit", "generate_share_of_limit", "idle_share_of_step", "same_tokens")
    ways = {
        name: way.get("error") or [way["step_ms"]["median"], *(way.get(key) for key in kept)]
        for name, way in row["ways"].items()
    }
    return f"{row['name']}: least {row['least_ms']} ms; step ms, {', '.join(kept)}: {ways}"


BENCHMARK = rows.Benchmark(
    module="benchmarks.decode.measure",
    names=ROWS,
    out="benchmarks/results/decode.json",
    summary=summary,
    seconds=500,
)

if __name__ == "__main__":
    rows.main(BENCHMARK, __doc__)
