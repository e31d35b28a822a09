"""One rank of a job on gloo: loops of a region whose calls take longer with or without a graph.

    python -m tests.runtime.ranks_program RANK WORLD_SIZE PORT

Prints a JSON object: for each scenario what this rank's region ended with.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as distributed

from pygraph_rt.select.agreed_trial import ROUND
from pygraph_rt.select.ballot import MOST_ROUNDS, Ballots, of_this_process
from pygraph_rt.select.groups import Selector
from pygraph_rt.select.trial import Instruments
from tests.runtime.leaving import leave, meet
from tests.runtime.simulated_loop import Machine, Part, entry
from tests.runtime.test_selection_partition import Now

# Far apart: other programs may keep the machine busy meanwhile.
LONG, SHORT = 8e-3, 0.5e-3
# Enough for any choice: what a capture waits for, and all rounds.
CALLS = 160 + (MOST_ROUNDS + 2) * ROUND


class Waiting(Part):
    """A region whose calls take real time."""

    def __init__(self, name: str, with_graph: float, without: float) -> None:
        super().__init__(Machine(), kernels=1, name=name)
        self._seconds = {True: with_graph, False: without}

    def run(self, args: list[Any]) -> Any:
        served = self.graphs and (self.captured or self.may_capture)
        self.captured = self.captured or served
        time.sleep(self._seconds[served])
        return args


def loop(
    part: Part, ballots: Ballots, group: Any, each: Callable[[Part], None], steps: int
) -> dict[str, Any]:
    """Steps of this rank until all have a choice; ranks of the group are in step."""
    selector = Selector(
        Instruments(time.perf_counter_ns, lambda device: Now(), lambda: False), ballots
    )
    kept = entry(selector, part)
    undecided = torch.ones(())
    for _ in range(steps):
        each(part)
        undecided.fill_(not part.choice)
        distributed.all_reduce(undecided, group=group)
        if not undecided:
            break
    return {"choice": part.choice, "why": part.region.choice_why, "members": len(kept.members())}


def once(part: Part) -> None:
    part([])


def scenarios(rank: int) -> dict[str, Any]:
    """What three ranks do, one scenario after the other."""
    found: dict[str, Any] = {}
    world, ballots = distributed.group.WORLD, Ballots()
    pair = distributed.new_group([0, 1])

    part = Waiting("faster", SHORT, LONG)
    found["faster"] = loop(part, ballots, world, once, CALLS)

    slower = (LONG, SHORT) if rank == 2 else (SHORT, 2 * SHORT)
    found["slower on one rank"] = loop(Waiting("slower", *slower), ballots, world, once, CALLS)

    again = Waiting("faster", LONG, SHORT)
    found["the same code"] = loop(again, ballots, world, once, 400)

    part = Waiting("sub-group", 2e-3, SHORT / 4)
    if rank < 2:
        found["a sub-group"] = loop(part, ballots, pair, once, CALLS)

    def stage(part: Part) -> None:
        for _ in range(2 if rank == 1 else 1):
            part([])

    part = Waiting("stage", 2e-3, SHORT / 4)
    found["a stage"] = loop(part, ballots, world, stage, CALLS)

    def absent(part: Part) -> None:
        if rank != 2:
            part([])
        else:
            part.region.choice = "none"

    part = Waiting("absent", 2e-3, SHORT / 4)
    found["a rank never votes"] = loop(part, ballots, world, absent, CALLS)

    def without_store() -> Any:
        ranks = of_this_process()
        assert ranks is not None
        return replace(ranks, store=None)

    part = Waiting("no store", LONG, SHORT)
    found["no store"] = loop(part, Ballots(without_store), world, once, CALLS)
    return found


def restart(rank: int, size: int, store: Any) -> dict[str, Any]:
    """A job with one rank less, whose votes lie where those of the job before lie."""
    before = of_this_process()
    assert before is not None
    meet(store, "end of scenarios", size)
    distributed.destroy_process_group()
    if rank == size - 1:
        return {}

    def ranks() -> Any:
        now = of_this_process()
        assert now is not None
        return replace(now, store=before.store)

    distributed.init_process_group(
        "gloo", store=distributed.PrefixStore("restart", store), rank=rank, world_size=size - 1
    )
    part = Waiting("faster", LONG, SHORT)
    found = loop(part, Ballots(ranks), distributed.group.WORLD, once, CALLS)
    meet(store, "end of restart", size - 1)
    distributed.destroy_process_group()
    return {"restart": found}


def main(rank: int, size: int, port: int) -> None:
    """All scenarios, then a restart with one rank less."""
    torch.set_num_threads(1)
    timeout = timedelta(seconds=120)
    store = distributed.TCPStore("127.0.0.1", port, is_master=rank == 0, timeout=timeout)
    distributed.init_process_group(
        "gloo", store=distributed.PrefixStore("job", store), rank=rank, world_size=size
    )
    found = scenarios(rank)
    found.update(restart(rank, size, store))
    print(json.dumps(found))
    leave(store, rank, size)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
