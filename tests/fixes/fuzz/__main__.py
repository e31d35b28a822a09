"""Run the fuzzer in shards, each written when it is done; a run that is started again goes on.

python -m tests.fixes.fuzz --programs 20000 --folder build/fuzz_fixes --out RESULT.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from tests.fixes.fuzz.run import Log, fuzz

SHARD = 100


def main() -> int:
    """Run what is missing, and write the sum of all shards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz_fixes"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fuzz_fixes.json"))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    started, total, done = time.monotonic(), Log(), []
    for first in range(given.first, given.first + given.programs, SHARD):
        path = given.folder / f"{first}.json"
        if not path.exists():
            if time.monotonic() - started > given.seconds:
                break
            path.write_text(json.dumps(fuzz(range(first, first + SHARD)).asdict()))
        total.join(_read(path))
        done.append(first)
        print(first, dict(total.changed), len(total.differences), file=sys.stderr, flush=True)
    last = done[-1] + SHARD - 1 if done else given.first
    result = {"torch": torch.__version__, "seeds": [given.first, last], **total.asdict()}
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(one["fixes"] == "safe" for one in total.differences) else 0


def _read(path: Path) -> Log:
    data = json.loads(path.read_text())
    return Log(
        data["programs"],
        Counter(data["changed"]),
        Counter(data["reached"]),
        Counter(data["compared"]),
        data["differences"],
    )


if __name__ == "__main__":
    sys.exit(main())
