"""Whether a graph pays, from measured calls: pure functions of the samples.

Two candidates alternate on blocks of successive live calls, in the order A B B A, so that a
linear drift (a GPU that warms up, a clock that falls) cancels within each four.

What a block cost is decided by two clocks. The host's, from call to call, is right whenever the
GPU keeps up: the loop waits for results, or the GPU waits for launches. When the host runs ahead
it only counts the filling of a queue, and the time between two events on the GPU's stream is
right. Between the two, work that the other candidate left in the queue hides how slow the host
is, and a full queue makes it look slower than it is: a block in which the GPU stays behind and
even the host's quickest calls are slower than the GPU says nothing, and is left out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH

# Measured calls of a block; the one before them is dropped.
CALLS = 7
_SHORT_PERIOD_MS, _SHORT_CALLS = 0.25, 15
MOST_FOURS = 6
# A difference below this (natural logarithm, about one per cent) does not decide.
_MARGIN = 0.01
_TIE = 0.02
_LEAST_SPREAD = 0.005
# Half widths of the interval in standard errors, by number of fours; later ones use the last. About
# Student's t for 98 %, and wider, because each four is another chance to be fooled.
_WIDTHS = {2: 15.0, 3: 7.0, 4: 5.5, 5: 4.5}
_LAST_WIDTH = 4.0
_LAST_LOOK = 0.8
# One four is enough when the candidates differ by this many times what equal blocks differ by, and
# by so much that a busy machine does not look like that.
_CLEAR, _PLAIN_TO_SEE = 3.0, math.log(1.5)
# Regions that take less of a call's time than this cannot change what it costs.
_NEGLIGIBLE = 0.01
# Ending a four early: the second candidate is three times as fast, its blocks within a quarter.
_OBVIOUS, _ALIKE = math.log(3.0), math.log(1.25)
_PAUSE = 5.0
_KEEPS_UP = 0.95
_SAVES = 0.9


@dataclass(frozen=True)
class Block:
    """Successive calls with one candidate.

    periods_ms: host time from each call of the outermost region to the next. inside_ms: host time
    of all calls within the regions, a period. gpu_ms: time on the GPU's stream from the block's
    first call to its end, None where unknown. behind: whether the GPU had not yet come to the
    block's last call when the host had ended it.
    """

    candidate: str
    periods_ms: tuple[float, ...]
    inside_ms: float
    gpu_ms: float | None = None
    behind: bool = False


@dataclass(frozen=True)
class Cost:
    """Milliseconds a call, and what they are limited by: "host" or "GPU". emptied: the GPU may have
    had nothing to do for a while, because the program paused.
    """

    ms: float
    limit: str
    emptied: bool = False


@dataclass(frozen=True)
class Spread:
    """Median and quartiles over blocks, milliseconds a call; `limit` is what most were limited
    by.
    """

    median: float
    low: float
    high: float
    blocks: int
    limit: str


@dataclass(frozen=True)
class Choice:
    """The candidate to keep, why (a clause), and what each cost. `tie`: they cost the same.
    `noisy`: what was measured does not tell them apart; a later process may.
    """

    winner: str
    why: str
    tie: bool
    costs: Mapping[str, Spread]
    noisy: bool = False


def cost(block: Block) -> Cost | None:
    """What a call of a block cost, or None when the block says nothing.

    A pause (a period of more than five times the median: a checkpoint, a slow batch) counts as
    five median periods, so that it does not decide.
    """
    periods = block.periods_ms
    host = sum(periods)
    longest = _PAUSE * statistics.median(periods)
    emptied = max(periods) > longest
    if block.gpu_ms is not None and host < _KEEPS_UP * block.gpu_ms:
        return Cost(block.gpu_ms / len(periods), "GPU", emptied)
    if block.behind and block.gpu_ms is not None:
        gpu = block.gpu_ms / len(periods)
        quick = sorted(periods)[len(periods) // 4]
        return Cost(gpu, "GPU", emptied) if _KEEPS_UP * quick <= gpu else None
    return Cost(sum(min(p, longest) for p in periods) / len(periods), "host")


def block_calls(period_ms: float) -> int:
    """Calls that are measured in a block: more where a period is short and timers are coarse. 0: a
    period is not known yet.
    """
    return _SHORT_CALLS if 0 < period_ms < _SHORT_PERIOD_MS else CALLS


def order(number: int) -> int:
    """Which of two candidates block `number` (from 0) is of: 0 1 1 0, 0 1 1 0, ..."""
    return (0, 1, 1, 0)[number % 4]


def decide(blocks: Sequence[Block]) -> Choice | None:
    """The choice that the blocks allow, in the order they were measured; None: measure on.

    The first block is one without graphs. After MOST_FOURS times four blocks there is
    always a choice. Where the second one is obviously faster, the last block of the first four is
    not waited for: a drift would have to be as large, and going back costs the program most then.
    """
    if len(blocks) == 3 and (middle := _obviously(blocks)) is not None:
        return _won(blocks, middle)
    fours = [blocks[i : i + 4] for i in range(0, len(blocks) - 3, 4)]
    if not fours:
        return None
    over = len(fours) >= MOST_FOURS
    ratios = [r for r in (_log_ratio(four) for four in fours) if r is not None]
    if not ratios:
        return _tie(blocks) if over else None
    if _is_negligible(blocks):
        return _tie(blocks)
    middle, width = _interval(ratios, fours)
    if over:
        width *= _LAST_LOOK
    if abs(middle) - width > _MARGIN:
        return _won(blocks, middle)
    if over or abs(middle) + width < _TIE:
        return _tie(blocks, middle)
    return None


def _obviously(blocks: Sequence[Block]) -> float | None:
    """log(cost with a graph / without) from A B B, where that is enough."""
    before, one, other = (cost(b) for b in blocks)
    if before is None or one is None or other is None:
        return None
    middle = math.log((one.ms + other.ms) / 2 / before.ms)
    alike = abs(math.log(one.ms / other.ms)) < _ALIKE
    return middle if alike and middle < -_OBVIOUS else None


def _is_negligible(blocks: Sequence[Block]) -> bool:
    """Whether the host is the limit, and the regions take so little of its time that no call costs
    more or less for them.
    """
    return all(
        b.inside_ms < _NEGLIGIBLE * statistics.median(b.periods_ms)
        and (known := cost(b)) is not None
        and known.limit == "host"
        for b in blocks
    )


def _costs(blocks: Sequence[Block], candidate: str) -> list[Cost]:
    return [c for b in blocks if b.candidate == candidate and (c := cost(b)) is not None]


def _log_ratio(four: Sequence[Block]) -> float | None:
    """log(cost with a graph / without) within one A B B A; a half whose other half says nothing
    stands for both.
    """
    before, after = _costs(four, NO_GRAPH), _costs(four, GRAPH)
    full = [[c for c in costs if not c.emptied] for costs in (before, after)]
    if any(full):
        before, after = full
    if not before or not after:
        return None
    return math.log(statistics.fmean(c.ms for c in after) / statistics.fmean(c.ms for c in before))


def _interval(ratios: Sequence[float], fours: Sequence[Sequence[Block]]) -> tuple[float, float]:
    """Median of the ratios and the half width of its confidence interval."""
    middle = statistics.median(ratios)
    n = len(ratios)
    if n == 1:
        certain = abs(middle) > _PLAIN_TO_SEE
        return middle, _CLEAR * _difference_within(fours[-1]) if certain else math.inf
    usual = sorted(ratios, key=lambda r: abs(r - middle))
    if n > 3:
        usual.pop()  # one disturbed four does not count
    deviation = max(statistics.stdev(usual), _LEAST_SPREAD)
    return middle, _WIDTHS.get(n, _LAST_WIDTH) * deviation / math.sqrt(n)


def _difference_within(four: Sequence[Block]) -> float:
    """How much blocks of the same candidate differ within a four, as a logarithm."""
    found = [4 * _LEAST_SPREAD]
    for pair in ((four[0], four[3]), (four[1], four[2])):
        one, other = cost(pair[0]), cost(pair[1])
        if one is None or other is None:
            return math.inf
        found.append(abs(math.log(one.ms / other.ms)))
    return max(found)


def _won(blocks: Sequence[Block], middle: float) -> Choice:
    winner, loser = (GRAPH, NO_GRAPH) if middle < 0 else (NO_GRAPH, GRAPH)
    costs = spreads(blocks)
    why = (
        f"a call takes {costs[winner].median:.3f} ms with {winner} and "
        f"{costs[loser].median:.3f} ms with {loser} ({_percent(middle)} % more, block by block)"
    )
    return Choice(winner, why, False, costs)


def _percent(middle: float) -> str:
    return f"{100 * (math.exp(abs(middle)) - 1):.0f}"


def _tie(blocks: Sequence[Block], middle: float = 0.0) -> Choice:
    """No difference in time that is certain: what seemed to take longer, `middle` being log(cost
    with a graph / without), is not taken; else less host time, or else less memory, decides.
    """
    costs = spreads(blocks)
    with_graph, without = inside_ms(blocks, GRAPH), inside_ms(blocks, NO_GRAPH)
    winner, noisy = NO_GRAPH, abs(middle) > _TIE
    if noisy:
        winner, slower = (NO_GRAPH, GRAPH) if middle > 0 else (GRAPH, NO_GRAPH)
        why = f"the timings are noisy, and calls look {_percent(middle)} % slower with {slower}"
    elif costs and all(c.limit == "GPU" for c in costs.values()):
        why = "the GPU is the limit with and without graph"
        if NO_GRAPH in costs:
            median = costs[NO_GRAPH].median
            why = f"the GPU is the limit: a call takes {median:.3f} ms with and without"
    elif with_graph < _SAVES * without:
        winner = GRAPH
        why = (
            f"calls take the same time, and it saves host time "
            f"({with_graph:.3f} ms a call instead of {without:.3f} ms)"
        )
    else:
        why = "calls take the same time, and a graph saves no host time"
    return Choice(winner, why, True, costs, noisy)


def inside_ms(blocks: Sequence[Block], candidate: str) -> float:
    """Median host time a call that a candidate spends within the regions."""
    found = [b.inside_ms for b in blocks if b.candidate == candidate]
    return statistics.median(found) if found else math.inf


def spreads(blocks: Sequence[Block]) -> dict[str, Spread]:
    """Median and quartiles of each candidate's blocks; one whose blocks say nothing is left out."""
    found: dict[str, list[Cost]] = {}
    for block in blocks:
        known = cost(block)
        if known is not None:
            found.setdefault(block.candidate, []).append(known)
    full = {name: [c for c in costs if not c.emptied] for name, costs in found.items()}
    compared = full if all(full.values()) else found
    return {name: _spread(costs) for name, costs in compared.items()}


def _spread(costs: Sequence[Cost]) -> Spread:
    ordered = sorted(c.ms for c in costs)
    on_gpu = sum(c.limit == "GPU" for c in costs)
    return Spread(
        statistics.median(ordered),
        ordered[(len(ordered) - 1) // 4],
        ordered[-1 - (len(ordered) - 1) // 4],
        len(ordered),
        "GPU" if 2 * on_gpu > len(costs) else "host",
    )


# A capture runs the region's code twice and compares it with a third run; the rest of its cost is
# fixed. 25 to 131 ms were measured for regions of 200 to 500 kernels (2 to 4 ms of host time).
_FIXED_MS, _TIMES, _MOST_CALLS, _FEWEST_CALLS = 10.0, 10.0, 128, 16


def worth_capturing(calls: int, inside_total_ms: float) -> bool:
    """Whether calls so far spent as much host time within a region as a capture is expected to
    cost: a graph could have saved that much, so capturing now costs at most twice what would
    have been best.
    """
    if calls < _FEWEST_CALLS:
        return False
    expected = _FIXED_MS + _TIMES * inside_total_ms / calls
    return calls >= _MOST_CALLS or inside_total_ms >= expected
