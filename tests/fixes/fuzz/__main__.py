"""Run the fuzzer in shards, each written when it is done; a run that is started again goes on.

python -m tests.fixes.fuzz --seconds 600 --folder build/fuzz_fixes --out RESULT.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from pygraph_lint.fixes.engine.file_fixes import REWRITES
from tests.fixes.fuzz.programs import IDIOMS
from tests.fixes.fuzz.run import MODES, Log, fuzz, pairs

SHARD = 100
WANTED, WANTED_OF_USED = 300, 2000
MOST_USED = 10
# Where so many shards in a row are not enough, a rewrite is given up.
LARGEST = 120
USES = Path("benchmarks/results/fix_uses.json")


def main() -> int:
    """Run what is missing, and write the sum of all shards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rewrites", nargs="*", default=[], help="only these")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz_fixes"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fuzz_fixes.json"))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--pairs", type=Path, help="only write fixed programs, for on_gpu.py")
    parser.add_argument("--count", type=int, default=300, help="programs a rewrite for --pairs")
    given = parser.parse_args()
    if given.pairs is not None:
        found = [
            each for name in given.rewrites or sorted(IDIOMS) for each in pairs(name, given.count)
        ]
        given.pairs.write_text(json.dumps(found))
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    started, commit = time.monotonic(), _commit()
    logs = {name: _known(given.folder, name) for name in given.rewrites or sorted(IDIOMS)}
    wanted = {name: WANTED_OF_USED if name in _most_used() else WANTED for name in logs}
    for name, number in _missing(logs, wanted):
        if time.monotonic() - started > given.seconds:
            break
        log = _shard(name, logs[name])
        (given.folder / f"{name}_{number}.json").write_text(
            json.dumps({"commit": commit, **log.asdict()})
        )
        logs[name].append(log)
        made = sum(_accepted(each, name) for each in logs[name])
        print(name, number, f"{made}/{wanted[name]}", len(log.differences), file=sys.stderr)
    result = _result(given.folder, logs, wanted)
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result["safe differences"] else 0


def _missing(logs: dict[str, list[Log]], wanted: dict[str, int]) -> Iterator[tuple[str, int]]:
    """The next shard to run: of the rewrite with the fewest programs, until each has its aim."""
    while True:
        counts = {
            name: sum(_accepted(each, name) for each in found)
            for name, found in logs.items()
            if len(found) < LARGEST
        }
        open_ones = [name for name, count in counts.items() if count < wanted[name]]
        if not open_ones:
            return
        name = min(open_ones, key=lambda one: (counts[one], len(logs[one])))
        yield name, len(logs[name])


def _mode(name: str, before: list[Log]) -> str:
    """How fixes are asked for: each way once, then in turns the ways in which some are made."""
    if len(before) < len(MODES):
        return MODES[len(before)]
    served = [mode for mode, log in zip(MODES, before, strict=False) if _accepted(log, name)]
    modes = served or list(MODES)
    return modes[len(before) % len(modes)]


def _shard(name: str, before: list[Log]) -> Log:
    """The next programs of a rewrite."""
    first = len(before) * SHARD
    return fuzz(name, range(first, first + SHARD), _mode(name, before))


def _accepted(log: Log, name: str) -> int:
    """Programs in which a rewrite was made, and its lines ran."""
    return sum(count for key, count in log.accepted.items() if key.split()[0] == name)


def _most_used() -> list[str]:
    """The rewrites that make most fixes in packages of other authors."""
    used = json.loads(USES.read_text())["rewrites"] if USES.exists() else {}
    made = {name: sum(found["made"].values()) for name, found in used.items()}
    return sorted(made, key=lambda name: -made[name])[:MOST_USED]


def _known(folder: Path, name: str) -> list[Log]:
    """The shards of a rewrite that are there."""
    found = []
    while (path := folder / f"{name}_{len(found)}.json").exists():
        found.append(Log.of(json.loads(path.read_text())))
    return found


def _result(folder: Path, logs: dict[str, list[Log]], wanted: dict[str, int]) -> dict[str, Any]:
    total = Log()
    for found in logs.values():
        for each in found:
            total.join(each)
    safe = [one for one in total.differences if one["fixes"] != "unsafe"]
    accepted = {name: _accepted(total, name) for name in sorted({entry.name for entry in REWRITES})}
    return {
        "torch": torch.__version__,
        "commits": _commits(folder),
        "seeds": {name: [0, len(found) * SHARD - 1] for name, found in logs.items()},
        "wanted": wanted,
        "accepted programs": accepted,
        "safe differences": safe,
        **total.asdict(),
    }


def _commits(folder: Path) -> dict[str, int]:
    """How many shards were run at which commit."""
    return dict(Counter(json.loads(path.read_text())["commit"] for path in folder.glob("*.json")))


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return os.environ.get("PYGRAPH_COMMIT", done.stdout.strip())


if __name__ == "__main__":
    sys.exit(main())
