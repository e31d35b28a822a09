"""What undecided calls cost the host while ranks agree.

`python -m benchmarks.distributed.votes` writes the result file. All ranks are in one process, each
with a ballot, a thread and a connection of its own to one store.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed

from benchmarks.runtime.__main__ import environment
from pygraph_rt.select.agreed_trial import ROUND, AgreedTrial
from pygraph_rt.select.ballot import MOST_ROUNDS, Ballots, Ranks
from pygraph_rt.select.trial import Instruments

OUT = Path(__file__).parents[1] / "results" / "distributed_votes.json"
# A step of the program, and the first call of a trial.
STEP_S, FIRST_CALL = 2e-3, 128


class Stamp:
    """A GPU without a queue."""

    def __init__(self, device: int) -> None:
        self._at = time.perf_counter_ns()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Stamp) -> float:
        return (end._at - self._at) / 1e6


def trials(size: int, store: Any) -> list[AgreedTrial]:
    """One of each rank, on the same code."""
    instruments = Instruments(time.perf_counter_ns, Stamp, lambda: False).on(0)
    made = []
    for rank in range(size):
        ballots = Ballots(lambda rank=rank: Ranks(rank, size, "0", store))  # type: ignore[misc]
        found = ballots.of("code")
        assert found is not None
        made.append(AgreedTrial(found[0], found[1], instruments, FIRST_CALL))
    return made


def measure(size: int) -> dict[str, Any]:
    """Microseconds of each call's note until all ranks have chosen, and how many calls it took."""
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True)
    ranks = trials(size, store)
    spent = []
    for _ in range(MOST_ROUNDS * ROUND):
        if all(trial.choice for trial in ranks):
            break
        time.sleep(STEP_S)
        for trial in ranks:
            if trial.choice is None:
                started = time.perf_counter_ns()
                trial.called(started)
                spent.append((time.perf_counter_ns() - started) / 1e3)
    chosen = {trial.choice.winner for trial in ranks if trial.choice is not None}
    return {
        "ranks": size,
        "undecided_calls_a_rank": len(spent) // size,
        "alike": len(chosen) == 1 and all(trial.choice for trial in ranks),
        "call_us": {
            "median": round(statistics.median(spent), 2),
            "99 of 100": round(statistics.quantiles(spent, n=100)[-1], 2),
        },
        "in_all_us_a_rank": round(sum(spent) / size, 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = {"environment": environment(), "rows": [measure(size) for size in given.ranks]}
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["rows"], indent=1))


if __name__ == "__main__":
    main()
