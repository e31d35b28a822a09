"""Models of repeated blocks, compiled whole and block by block: `python -m benchmarks.regional`.

Options as in `benchmarks.rows`; `--only llama32_inference,bert_large_training` takes some rows.
"""

from __future__ import annotations

from benchmarks import rows
from benchmarks.regional.models import MODELS

NAMES = [f"{model}_{kind}" for kind in ("inference", "training") for model in MODELS]


def summary(row: rows.Row) -> str:
    """A row in one line."""
    ways = {
        name: way.get("error", "")[:60] or (way["period_ms"]["median"], way["cold_s"])
        for name, way in row["ways"].items()
    }
    return f"{row['name']}: (ms a step, cold start s) {ways} {row['speed']}"


BENCHMARK = rows.Benchmark(
    module="benchmarks.regional.measure",
    names=NAMES,
    out="benchmarks/results/regional.json",
    summary=summary,
    seconds=500,
)

if __name__ == "__main__":
    rows.main(BENCHMARK, __doc__)
