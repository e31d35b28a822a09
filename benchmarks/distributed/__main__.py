"""Rows of several ranks, as `python -m benchmarks.distributed --ranks 2 --out FILE`.

Each row runs in processes of its own, one a rank. `--rows` chooses by the beginning of names,
`--tiny` is for a CPU, `--shard` and `--resume` as in `benchmarks.runtime`. Ratios are formed within
one row; times are the slowest rank's. With `--jobs` rows that compare no times run side by side,
first; each other row has the machine to itself.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks import slices
from benchmarks.distributed import faults, verdicts
from benchmarks.distributed.rows import ROWS, Row
from benchmarks.runtime.__main__ import environment

ROOT = Path(__file__).parents[2]
OUT = ROOT / "benchmarks" / "results" / "distributed.json"
_COMPARE_NO_TIMES = ("right", "soak", "faults")
_AFTER_RESULTS_S = 60.0


def launch(
    row: Row,
    ranks: int,
    tiny: bool,
    mode: str,
    folder: Path,
    program: str = "benchmarks.distributed.worker",
) -> dict[str, Any]:
    """Run a row on all ranks, each a process of `program`: their results, exit codes, and seconds
    until each had ended, from the moment of the fault where there is one.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", program, "--row", row.name]
    command += ["--out", str(folder), "--mode", mode, *(["--tiny"] if tiny else [])]
    shared = {
        **os.environ,
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    started, started_at = time.monotonic(), time.time()
    running = []
    for rank in range(ranks):
        own = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        with (folder / f"rank{rank}.log").open("w") as log:
            running.append(
                subprocess.Popen(command, cwd=ROOT, env=own, stdout=log, stderr=subprocess.STDOUT)
            )
    files = [folder / f"rank{rank}.json" for rank in range(ranks)]
    ended, killed = wait(running, files, started, row.seconds)
    failed = [at for rank in range(ranks) if (at := fault_of(folder, rank)) is not None]
    begun = min(failed, default=started_at)
    return {
        # None: it had not ended by itself when the row's time was over.
        "exit_codes": [None if n in killed else p.returncode for n, p in enumerate(running)],
        "fault": bool(failed),
        "ended_after_s": [round(started_at + s - begun, 1) for s in ended],
        "ranks": [result_of(folder, rank) for rank in range(ranks)],
    }


def wait(
    running: Sequence[subprocess.Popen[bytes]], results: Sequence[Path], started: float, most: float
) -> tuple[list[float], set[int]]:
    """Seconds after which each process had ended; which were left after `most`, or a while after
    all had a result, and killed.
    """
    ended: dict[int, float] = {}
    killed: set[int] = set()
    while len(ended) < len(running):
        passed = time.monotonic() - started
        if all(file.exists() for file in results):
            most = min(most, passed + _AFTER_RESULTS_S)
        for number, process in enumerate(running):
            if passed > most and process.poll() is None:
                process.kill()
                killed.add(number)
                process.wait()
            if number not in ended and process.poll() is not None:
                ended[number] = round(passed, 1)
        time.sleep(0.1)
    return [ended[number] for number in range(len(running))], killed


def fault_of(folder: Path, rank: int) -> float | None:
    """When a rank did what its fault is named for, in seconds since 1970."""
    log = (folder / f"rank{rank}.log").read_text(errors="replace")
    _, found, rest = log.partition(faults.MARK)
    return float(rest.split()[0]) if found else None


def result_of(folder: Path, rank: int) -> dict[str, Any]:
    """What a rank has written, or the end of its log, without the machine's folders."""
    path = folder / f"rank{rank}.json"
    if path.exists():
        return json.loads(path.read_text())  # type: ignore[no-any-return]
    log = (folder / f"rank{rank}.log").read_text(errors="replace").strip().splitlines()
    said = [re.sub(r"/\S*/", "", line) for line in log if not line.startswith("frame #")]
    return {"error": "it ended without a result", "log": said[-12:]}


def measure(row: Row, ranks: int, tiny: bool) -> dict[str, Any]:
    """A row of the result file. A fault is run in default mode, too; where modes run `apart`, that
    key has reduce-overhead's run, with default mode beside it.
    """
    found: dict[str, Any] = {"name": row.name, "world": ranks, "tiny": tiny, **slices.stamp()}
    beside = {"faults": ("default",)}.get(row.kind, ("reduce-overhead",) if row.apart else ())
    modes = (*beside, "pygraph")
    runs = {}
    for mode in modes:
        with tempfile.TemporaryDirectory() as folder:
            runs[mode] = launch(row, ranks, tiny, mode, Path(folder))
    if row.kind == "faults":
        return {**found, "modes": runs, "verdict": verdicts.of_fault(runs)}
    run = runs["pygraph"]
    if row.apart:
        found["apart"] = runs["reduce-overhead"]
    failed = [rank for rank in run["ranks"] if "error" in rank]
    if failed:
        found["error"] = failed[0]["error"]
    return {**found, **run, "verdict": verdicts.of_row(row, run["ranks"])}


def measured(
    rows: Sequence[Row], ranks: int, tiny: bool, jobs: int
) -> Iterator[tuple[Row, dict[str, Any]]]:
    """All rows and what was found, each when it has ended."""
    alone = [row for row in rows if jobs == 1 or row.kind not in _COMPARE_NO_TIMES]
    with ThreadPoolExecutor(jobs) as pool:
        begun = {pool.submit(measure, row, ranks, tiny): row for row in rows if row not in alone}
        for ended in as_completed(begun):
            yield begun[ended], ended.result()
    for row in alone:
        yield row, measure(row, ranks, tiny)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is chosen; the file is written after each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rows", nargs="*", default=[""], help="beginnings of names")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the names of rows")
    parser.add_argument("--jobs", type=int, default=1, help="rows side by side (default: 1)")
    parser.add_argument("--out", type=Path, default=OUT)
    slices.add_options(parser)
    given = parser.parse_args(arguments)
    chosen = [
        row
        for row in ROWS
        if row.name.startswith(tuple(given.rows)) and given.ranks % row.case.ranks == 0
    ]
    chosen = [row for row in chosen if row.case.ranks == 1 or given.ranks >= 4]
    if given.list:
        print("\n".join(row.name for row in chosen))
        return
    old = json.loads(given.out.read_text()) if given.out.exists() else {"rows": []}
    rows = {(row["name"], row["world"], row["tiny"]): row for row in old["rows"]}
    wanted = [
        row
        for row in given.shard.of(chosen)
        if not given.resume
        or not slices.is_current(rows.get((row.name, given.ranks, given.tiny), {}))
    ]
    for row, result in measured(wanted, given.ranks, given.tiny, given.jobs):
        key = (row.name, given.ranks, given.tiny)
        rows[key] = result
        print(row.name, rows[key].get("error") or rows[key]["verdict"], flush=True)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        found = list(rows.values())
        content = {"environment": environment(), "scaling": verdicts.scaling(found), "rows": found}
        given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
