"""A benchmark whose rows are measured in a process each, and kept in one JSON file.

A row that fails is a row too. `--jobs 4` starts four processes together: what compiles overlaps,
what is timed takes its turn (`--lock`, see `benchmarks.runtime.measure.turn`); warm-up times then
are those of a busy machine. `--shard 1/4` and `--resume` as in `benchmarks.slices`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import slices
from benchmarks.runtime.__main__ import environment, read, run

Row = dict[str, Any]


class Benchmark(NamedTuple):
    """module: run as `python -m MODULE NAME`, prints one row. names: of all rows. out: where the
    result file is. summary: a row in one line. totals: over all rows. measure: runs one row, when
    it takes more than one process; given the name, arguments, a cache folder and a limit.
    """

    module: str
    names: Sequence[str]
    out: str
    summary: Callable[[Row], str]
    totals: Callable[[list[Row]], Row] | None = None
    measure: Callable[[str, list[str], str, int], Row] | None = None
    seconds: int = 240


def without_paths(text: str) -> str:
    """A text with names of files, but not the folders they are in."""
    return re.sub(r"(/[\w.+-]+)+/", "", text)


def known_regions(kept: Sequence[str], most: int) -> list[Row]:
    """What pygraph's report says of its regions, without paths of the machine."""
    import pygraph_rt

    regions = pygraph_rt.report().to_dict()["regions"][:most]
    return [
        {key: without_paths(v) if isinstance(v := region[key], str) else v for key in kept}
        for region in regions
    ]


def add_row_options(parser: argparse.ArgumentParser) -> None:
    """What the process of one row is told."""
    parser.add_argument("name")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--lock", default="")


def parser_of(benchmark: Benchmark, description: str | None) -> argparse.ArgumentParser:
    """The options of a benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=Path(benchmark.out))
    parser.add_argument("--only", default=",".join(benchmark.names), help="rows, by name")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script out")
    slices.add_options(parser)
    parser.add_argument("--jobs", type=int, default=1, help="how many to start together")
    parser.add_argument("--seconds", type=int, default=benchmark.seconds, help="limit of a process")
    parser.add_argument(
        "--limit-seconds", type=float, default=math.inf, help="start no row after so many seconds"
    )
    return parser


def left_to_do(given: argparse.Namespace, old: Row) -> list[str]:
    """The rows of this part; with `--resume` without those that the file has."""
    done = {row["name"] for row in old.get("rows", []) if slices.is_current(row)}
    chosen = given.shard.of(given.only.split(","))
    return [name for name in chosen if not (given.resume and name in done)]


def one(benchmark: Benchmark, name: str, extra: list[str], cache: str, seconds: int) -> Row:
    """Measure one row, and say so."""
    if benchmark.measure is not None:
        found = benchmark.measure(name, extra, cache, seconds)
    else:
        found = run([name, *extra], cache, seconds, benchmark.module)
    row = {"name": name, **found}
    failed = f"{name}: {row.get('error')} {row.get('last_lines', '')}"
    print(failed if "error" in row else benchmark.summary(row), flush=True)
    return {**row, "date": datetime.date.today().isoformat(), **slices.stamp()}


def merged(names: Sequence[str], old: list[Row], new: list[Row]) -> list[Row]:
    """Rows by name: new ones, and old ones that were not measured again or failed now."""
    found = {row["name"]: row for row in old}
    for row in new:
        if "error" not in row or "error" in found.get(row["name"], row):
            found[row["name"]] = row
    return [found[name] for name in names if name in found]


def write(benchmark: Benchmark, given: argparse.Namespace, old: Row, new: list[Row]) -> Row:
    """Write the result file, and return what is in it."""
    rows = merged(benchmark.names, old.get("rows", []), new)
    result: Row = {"environment": {**environment(), "started_together": given.jobs}}
    if benchmark.totals is not None:
        result["totals"] = benchmark.totals(rows)
    result["rows"] = rows
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    return result


def main(benchmark: Benchmark, description: str | None) -> None:
    """Measure the rows that were asked for."""
    given = parser_of(benchmark, description).parse_args()
    old = read(given.out)
    extra = ["--device", given.device, *(["--tiny"] if given.tiny else [])]
    new: list[Row] = []
    ends = time.monotonic() + given.limit_seconds

    def row(name: str, cache: str) -> Row | None:
        late = time.monotonic() > ends
        return None if late else one(benchmark, name, extra, cache, given.seconds)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", folder)
        if given.jobs > 1:
            extra += ["--lock", str(Path(folder) / "turn")]
        tasks = [pool.submit(row, name, cache) for name in left_to_do(given, old)]
        result = old
        for task in as_completed(tasks):
            found = task.result()
            if found is not None:
                new.append(found)
                result = write(benchmark, given, old, new)  # a run cut short leaves its part
    if "totals" in result:
        print(json.dumps(result["totals"], indent=1))
