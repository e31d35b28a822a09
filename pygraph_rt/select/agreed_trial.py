"""A trial of all ranks: both candidates alternate at call numbers that the ranks agree on."""

from __future__ import annotations

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.select import decision
from pygraph_rt.select.ballot import FOUR, MOST_ROUNDS, Ballot, choice_without
from pygraph_rt.select.decision import Choice
from pygraph_rt.select.trial import Instruments, Measurement

ROUND = 64
"""Calls from one round to the next."""
# Calls of a round before its blocks: what was written down at its first call is read by then. It is
# asked for twice, because the rank that writes may be a little behind.
_LEAD, _AGAIN = 16, 8
_DROPPED = 1


class AgreedTrial:
    """What `Trial` is to a process that is alone. candidate: what calls have to use now; choice:
    what all ranks keep. first_call: the number of the loop's last call before the trial. votes:
    False where another region with the same code does.
    """

    def __init__(
        self, ballot: Ballot, votes: bool, instruments: Instruments, first_call: int
    ) -> None:
        self.candidate = GRAPH
        self.choice: Choice | None = None
        self._ballot = ballot
        self._votes = votes
        self._instruments = instruments
        self._call = first_call
        self._last_round = first_call // ROUND + MOST_ROUNDS
        self._now: Measurement | None = None
        self._number = 0
        self._measured: list[Measurement] = []
        if votes:
            ballot.announce(GRAPH)

    def called(self, now: int) -> bool:
        """Note a call of the loop's first region; whether `candidate` or `choice` is new."""
        self._call += 1
        number, place = divmod(self._call, ROUND)
        self.choice = self._ballot.choice or self._given_up(number)
        if self.choice is not None:
            return True
        if not self._votes:
            return False
        if number and place in (0, _AGAIN):
            self._ballot.ask(number, place == 0)
        self._hand_in()
        before = self.candidate
        if place == _LEAD and self._ballot.measures(number):
            self._number, self._measured = number, []
            self._measure(0)
        elif self._now is not None and self._now.called(now):
            self._measured.append(self._now)
            self._measure(len(self._measured))
        return self.candidate != before

    def ran(self, inside_ms: float) -> None:
        """Add the host time of a call of one of the group's regions."""
        if self._now is not None:
            self._now.ran(inside_ms)

    def _given_up(self, number: int) -> Choice | None:
        if self._ballot.failed:
            return choice_without(self._ballot.failed)
        if number > self._last_round:
            return choice_without("their votes did not come together")
        return None

    def _measure(self, block: int) -> None:
        """Begin a block of the round, or end the round."""
        if block == FOUR:
            self.candidate, self._now = GRAPH, None
            return
        self.candidate = (NO_GRAPH, GRAPH)[decision.order(block)]
        self._now = Measurement(self.candidate, _DROPPED, decision.CALLS, self._instruments)

    def _hand_in(self) -> None:
        """Vote as soon as the GPU is done with a round's blocks."""
        if len(self._measured) < FOUR:
            return
        blocks = [block for m in self._measured if (block := m.block()) is not None]
        if len(blocks) == FOUR:
            self._measured = []
            self._ballot.vote(self._number, blocks)
