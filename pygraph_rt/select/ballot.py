"""Ranks of a job choose alike, and never wait for each other.

Collectives make all ranks as slow as the slowest, so they have to alternate at the same calls, and
to keep the same. Calls are numbered on each rank. Votes lie in the process group's store, under
the code's key and a round's number; a thread of its own writes and reads them. The group's first
rank counts: what it writes down, a round to measure or the choice, is what all others do once they
have read it. Who has not read it in time, or has measured something else, does not vote, and the
round does not count. Until there is a choice all ranks use graphs.
"""

from __future__ import annotations

import json
import queue
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.reports.report import log
from pygraph_rt.select import decision
from pygraph_rt.select.decision import Block, Choice, Spread

FOUR = 4
MOST_ROUNDS = 20
"""After so many rounds without a choice, graphs are kept."""
# The first rank gives up earlier, so that others may still read a choice it made last.
_MOST_COUNTED = MOST_ROUNDS - 4
# Rounds after which a vote that is not there is not waited for any more.
_PATIENCE = 4
# Ranks that are in step take as long for the same block, the slowest this many times the quickest.
_IN_STEP = 1.25

Four = Sequence[Block]


@dataclass(frozen=True)
class Ranks:
    """This process among those of a process group. store: torch's; None: there is none. origin: the
    group itself, weakly: one that is made anew is another one.
    """

    rank: int
    size: int
    group: str
    store: Any = field(compare=False)
    origin: Any = None


def of_this_process() -> Ranks | None:
    """This process among those of torch.distributed's default group; None: it is alone."""
    import torch.distributed as distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return None
    group: Any = distributed.group.WORLD
    if group is None or group.size() == 1:
        return None
    try:
        store = group.get_group_store()
    except RuntimeError:  # MPI has none
        store = None
    return Ranks(group.rank(), group.size(), group.group_name, store, weakref.ref(group))


def choice_without(reason: str) -> Choice:
    """What ranks keep that compared nothing; `reason` is a clause."""
    return Choice(GRAPH, f"ranks compared nothing: {reason}", True, {})


class Courier:
    """Does what it is given with a store, one job after the other, on a thread of its own. failed:
    why it stopped; it never begins again.
    """

    def __init__(self, store: Any) -> None:
        self.failed = "" if store is not None else "their process group has no store"
        self._store = store
        self._jobs: queue.SimpleQueue[Callable[[Any], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def post(self, job: Callable[[Any], None]) -> None:
        """Have a job done some time; returns at once."""
        if self.failed:
            return
        self._jobs.put(job)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="pygraph", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        try:
            # A connection of its own: nobody who waits on the program's is in its way.
            store = self._store.clone() if hasattr(self._store, "clone") else self._store
            while True:
                self._jobs.get()(store)
        except Exception as error:
            first = next(iter(str(error).splitlines()), "")
            self.failed = f"their store fails ({type(error).__name__}: {first[:120]})"
            log.info("%s", choice_without(self.failed).why)


class Ballot:
    """The votes on one code key. choice: what all ranks keep, as soon as this one has read it."""

    def __init__(self, key: str, ranks: Ranks, courier: Courier) -> None:
        self.choice: Choice | None = None
        self._ranks = ranks
        self._courier = courier
        self._prefix = f"pygraph/{ranks.group}/{ranks.size}/{key}"
        self._rounds: list[int] = []
        self._looked = 0

    @property
    def failed(self) -> str:
        """Why nothing more will be read, a clause."""
        return self._courier.failed

    def announce(self, candidate: str) -> None:
        """Say what this rank has: a graph that could be compared, or none."""
        self._vote(0, {"candidate": candidate})

    def vote(self, number: int, blocks: Four) -> None:
        """Say what this rank's calls of a round cost."""
        self._vote(number, {"blocks": [asdict(block) for block in blocks]})

    def ask(self, number: int, count: bool) -> None:
        """Have read what is written down by now; `count`: the first rank counts votes before."""
        self._courier.post(partial(self._read, number, count))

    def measures(self, number: int) -> bool:
        """Whether ranks measure this round, as far as this one has read."""
        return number in self._rounds

    def _vote(self, number: int, said: Mapping[str, Any]) -> None:
        key, text = self._place(number, self._ranks.rank), json.dumps(said)
        self._courier.post(lambda store: store.set(key, text))

    def _place(self, number: int, rank: int) -> str:
        return f"{self._prefix}/{number}/{rank}"

    # -- on the courier's thread

    def _read(self, number: int, count: bool, store: Any) -> None:
        if self.choice is not None:
            return
        if self._ranks.rank == 0 and count:
            self._count(number, store)
        if store.check([f"{self._prefix}/choice"]):
            self.choice = _choice_from(json.loads(store.get(f"{self._prefix}/choice")))
            return
        for earlier in range(self._looked + 1, number + 1):
            if earlier not in self._rounds and store.check([f"{self._prefix}/measure/{earlier}"]):
                self._rounds.append(earlier)
        self._looked = number - 1

    def _count(self, number: int, store: Any) -> None:
        """Write down what follows from the votes that are there, if anything does."""
        if store.check([f"{self._prefix}/choice"]):
            return
        said = self._votes(0, store)
        candidates = None if said is None else [str(vote["candidate"]) for vote in said]
        rounds = {n: self._fours(n, store) for n in self._rounds}
        choice = tally(number, candidates, rounds)
        if choice is not None:
            store.set(f"{self._prefix}/choice", json.dumps(asdict(choice)))
        elif candidates is not None and wants_round(number, rounds):
            store.set(f"{self._prefix}/measure/{number}", "1")

    def _votes(self, number: int, store: Any) -> list[dict[str, Any]] | None:
        """The votes of all ranks in a round, by rank; None: one is not there."""
        keys = [self._place(number, rank) for rank in range(self._ranks.size)]
        if not store.check(keys):
            return None
        many = store.has_extended_api()
        texts = store.multi_get(keys) if many else [store.get(key) for key in keys]
        return [json.loads(text) for text in texts]

    def _fours(self, number: int, store: Any) -> list[Four] | None:
        votes = self._votes(number, store)
        return None if votes is None else [[_block(b) for b in vote["blocks"]] for vote in votes]


def tally(
    number: int, candidates: Sequence[str] | None, rounds: Mapping[int, Sequence[Four] | None]
) -> Choice | None:
    """What votes decide at call round `number`; None: nothing yet. candidates: what each rank has;
    rounds: four blocks of each rank. None in place of either: a vote is not there.
    """
    if candidates is not None and NO_GRAPH in candidates:
        without = [str(i) for i, found in enumerate(candidates) if found == NO_GRAPH]
        return choice_without(f"there is no graph on rank {', '.join(without)}")
    blocks = [block for fours in rounds.values() for block in slowest(fours)]
    choice = decision.decide(blocks) if blocks else None
    if choice is not None:
        return choice
    if number < _MOST_COUNTED:
        return None
    missing = "one has not voted" if candidates is None else "too few rounds had all their votes"
    return choice_without(missing)


def wants_round(number: int, rounds: Mapping[int, Sequence[Four] | None]) -> bool:
    """Whether another round is to be measured: no vote of an earlier one may still come."""
    return all(fours is not None or number - n > _PATIENCE for n, fours in rounds.items())


def slowest(fours: Sequence[Four] | None) -> list[Block]:
    """Each block as on the rank where it cost most. Empty where votes are missing, or where ranks
    were not in step: they make other numbers of calls.
    """
    found: list[Block] = []
    for blocks in zip(*(fours or ()), strict=True):
        known = [(cost.ms, i) for i, b in enumerate(blocks) if (cost := decision.cost(b))]
        if not known:
            found.append(blocks[0])
            continue
        most, rank = max(known)
        if most > _IN_STEP * min(known)[0]:
            return []
        found.append(blocks[rank])
    return found


def _block(said: Mapping[str, Any]) -> Block:
    return Block(**{**said, "periods_ms": tuple(said["periods_ms"])})


def _choice_from(said: Mapping[str, Any]) -> Choice:
    costs = {name: Spread(**spread) for name, spread in said["costs"].items()}
    return Choice(said["winner"], said["why"], said["tie"], costs)


class Ballots:
    """The ballots of a process: one for each code key, of the process group that is there."""

    def __init__(
        self,
        ranks: Callable[[], Ranks | None] = of_this_process,
        courier: Callable[[Any], Courier] = Courier,
    ) -> None:
        self._find = ranks
        self._new_courier = courier
        self._ranks: Ranks | None = None
        self._courier = courier(None)
        self._ballots: dict[str, Ballot] = {}

    def of(self, key: str) -> tuple[Ballot, bool] | None:
        """The ballot on a code key, and whether the caller is the first to ask for it, who votes.
        None: this process is alone.
        """
        ranks = self._find()
        if ranks is None:
            return None
        if ranks != self._ranks:
            self._ranks, self._ballots = ranks, {}
            self._courier = self._new_courier(ranks.store)
        new = key not in self._ballots
        if new:
            self._ballots[key] = Ballot(key, ranks, self._courier)
        return self._ballots[key], new
