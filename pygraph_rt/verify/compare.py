"""Compare the first served call with compiled code.

The compiled code runs on the caller's own tensors and its results are what the caller gets, so
nothing is at stake. The graph runs on copies of whatever the partition may write to, with every
address that the captures used poisoned. Meanwhile large results give their memory back: a program
needs hardly more of it for this call than for any other. Only their fingerprints are kept; if the
graph's results have the same, they take their place. Otherwise the call is undone and made again,
and its results wait in the CPU's memory. So it is where the compiled code runs out of memory: the
call is made again, alone.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from pygraph_rt.capture.checks import reason_of
from pygraph_rt.errors import Unprovable
from pygraph_rt.verify.bits import bits, pieces
from pygraph_rt.verify.snapshot import Aside, Kept

# Results of code that differs from call to call may differ from it by so many times its own spread.
_SPREADS = 4
# How often code is run again to see whether it differs: what rarely does (one bit of a sum that
# atomic additions make, say) shows late. More than the fewest only for so many seconds.
_FEWEST_REPEATS, _REPEATS, _SECONDS = 3, 48, 1.0
_EXACT = "compared with compiled code, bit for bit"
_CLOSE = (
    "compared with compiled code, whose own results differ from call to call: the graph's differ "
    f"from them by at most {_SPREADS} times as much"
)
_TOO_LITTLE = (
    "there was too little memory for the comparison of its first call; free memory or use smaller "
    "inputs"
)
_INFINITE = float("inf")

Run = Callable[[list[Any]], Any]


class FirstCall(NamedTuple):
    """How the call went that a graph was compared on.

    results: the call's, where it has been made; `made` says whether it has. accepted: the graph
    serves from here on. refused: why it does not, a clause. kept: what to put back before the call
    is made: compiled code ran out of memory beside the comparison, or its results are gone. short:
    there was too little memory. different: what is gone had another fingerprint than the graph's.
    grown: torch's cache is larger than before.
    """

    results: Any = None
    made: bool = False
    accepted: bool = False
    refused: str = ""
    kept: Kept | None = None
    short: bool = False
    different: bool = False
    grown: bool = False
    note: str = ""

    def put_back(self, args: list[Any]) -> None:
        """Fill `args` as they were before a call that has to be made again, if this is one. May
        raise OutOfMemoryError.
        """
        if self.kept is not None:
            self.kept.put_back(args)


class _Different(Unprovable):
    """A result whose fingerprint alone is left is another one under the graph."""


def _poison(tensors: Sequence[torch.Tensor]) -> None:
    """Fill byte tensors with 0xFF (a NaN in every floating-point format)."""
    for tensor in tensors:
        tensor.fill_(255)


def _untouched(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether byte tensors of a multiple of 8 bytes still hold 0xFF throughout. Waits for the
    GPU.
    """
    for tensor in tensors:
        low, high = torch.aminmax(tensor.view(torch.int64))
        if int(low) != -1 or int(high) != -1:
            return False
    return True


def _apart(x: Any, y: Any) -> float:
    """How far two results that differ are apart, relative to the first one's largest value;
    infinite where one is not a number and the other is, and for what has no numbers to compare.
    """
    comparable = isinstance(x, torch.Tensor) and x.numel() and x.is_floating_point()
    if not comparable or x.shape != y.shape:
        return _INFINITE
    furthest = scale = 0.0
    for a, b in pieces(x, y):
        p, q = a.double(), b.double()
        difference = (p - q).abs().nan_to_num(nan=_INFINITE, posinf=_INFINITE)
        difference[(p == q) | (p.isnan() & q.isnan())] = 0.0
        furthest = max(furthest, float(difference.max()))
        scale = max(scale, float(p.nan_to_num(0.0, 0.0, 0.0).abs().max()))
    return furthest / (scale or 1.0)


def in_two_ways(
    compare: Callable[[Aside], FirstCall],
    undo: Callable[[], None],
    args: list[Any],
    expected: Aside,
    moved: Aside,
) -> FirstCall:
    """Compare with results of which fingerprints are kept; where one is `expected` again and does
    not come, with results that are moved. The call is undone in between; `undo` puts back what is
    not in `args`.
    """
    first = compare(expected)
    if not first.different:
        return first
    try:
        first.put_back(args)
    except torch.OutOfMemoryError:  # it is put back once graph and pools are gone
        return first._replace(refused=_TOO_LITTLE, short=True)
    undo()
    return compare(moved)


def first_call(
    compiled: Run,
    served: Run,
    args: list[Any],
    written: frozenset[int],
    poisoned: Sequence[torch.Tensor],
    scratch: frozenset[int] = frozenset(),
    aside: Aside | None = None,
) -> FirstCall:
    """Run both paths and compare; `args` is emptied where the call was made or has to be undone.
    `scratch` are those of `written` whose contents nobody reads afterwards. The copies of what may
    be written to are kept to the end, so that code which gives other results each time can be told
    from a wrong graph. Copies that are on the GPU are not, unless `scratch` needs them: this is
    when a program needs most memory. The results wait `aside` meanwhile.

    `served` returns None when it would not serve the call. Raises the compiled code's own error.
    """
    read = sorted(written - scratch)
    try:
        kept = Kept(args, written, scratch)
        _poison(poisoned)
    except Exception as error:
        return _refused(error)
    left = [args[i] for i in read]
    ran = _run(compiled, args)
    if ran is None:
        return FirstCall(refused=_TOO_LITTLE, kept=kept, short=True)
    again = kept.on_host or scratch or not written
    repeat = partial(_repeat, compiled, kept, read) if again else None
    return _beside(served, repeat, kept, _Made([*ran[0]], left, read), poisoned, aside or Aside())


class _Made(NamedTuple):
    """A call that compiled code has made: its results, and what it has `left` in the arguments that
    it wrote to, at the positions `read`.
    """

    results: list[Any]
    left: list[Any]
    read: list[int]


def _beside(
    served: Run,
    repeat: Callable[[], list[Any]] | None,
    kept: Kept,
    made: _Made,
    poisoned: Sequence[torch.Tensor],
    aside: Aside,
) -> FirstCall:
    """Make a call with the graph, too, on copies."""
    copies: list[Any] = []
    try:
        if kept.on_host:
            aside.take(made.results, [*made.left, *kept.held()], kept.nbytes())
        copies = kept.again() if repeat else kept.tensors
        if repeat is None:
            kept.release()
        note = _compare(served, repeat, copies, made, poisoned, aside)
        first = FirstCall(made.results, made=True, accepted=True, note=note)
    except Exception as error:
        first = _refused(error)._replace(results=made.results, made=True)
        if repeat:
            copies.clear()  # the results need memory now
    if aside.put_back():
        return first
    if aside.lost:
        return first._replace(results=None, made=False, kept=kept)
    return FirstCall(refused=_TOO_LITTLE, kept=kept, short=True)


def _refused(error: Exception) -> FirstCall:
    """A comparison that failed."""
    short = isinstance(error, torch.OutOfMemoryError)
    refused = _TOO_LITTLE if short else reason_of(error)
    return FirstCall(refused=refused, short=short, different=isinstance(error, _Different))


def _run(compiled: Run, args: list[Any]) -> tuple[Any] | None:
    """The compiled code's outputs, or None where it runs out of memory: nothing that it had is
    alive then. `args` is emptied.
    """
    try:
        return (compiled(args),)
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)
        return None
    finally:
        args.clear()


def _compare(
    served: Run,
    repeat: Callable[[], list[Any]] | None,
    args: list[Any],
    made: _Made,
    poisoned: Sequence[torch.Tensor],
    aside: Aside,
) -> str:
    """Run the graph on `args`, and compare its outputs, and what it has written, with the call that
    is `made`; how close they are. Where all is equal, its outputs take the place of those aside.
    """
    written = [args[i] for i in made.read]
    actual = served(args)
    if actual is None:
        raise Unprovable("the graph did not accept the call that it was captured on")
    if not _untouched(poisoned):
        raise Unprovable(
            "the graph wrote to an address of its capture that is not known to be a pointer; "
            "please report this"
        )
    left, right = [*made.results, *made.left], [*actual, *written]
    del actual, written
    gaps = _Gaps(left, right, aside)
    if gaps.none():
        for i, same in gaps.same.items():
            made.results[i] = same
        aside.give_up()
        return _EXACT
    if repeat is not None and not aside.lost:
        spread = 0.0
        for _ in _repeats():
            spread = max(spread, _Gaps(left, repeat(), aside).furthest)
            if 0 < spread < _INFINITE and gaps.furthest <= _SPREADS * spread:
                return _CLOSE
    raise Unprovable(
        f"its results under a graph differ from the compiled code's ({gaps}); "
        "the compiled code stays in use, please report this"
    )


class _Gaps:
    """Which results of two runs differ. furthest: how far, see `_apart`. same: where all are equal,
    those of the second run whose counterparts are set aside.
    """

    def __init__(self, left: Sequence[Any], right: list[Any], aside: Aside) -> None:
        """Empties `right`: what has been compared is no longer held."""
        self.furthest = 0.0
        self.same: dict[int, Any] = {}
        self._found: list[int] = []
        self._first = ""
        self._results = len(left)
        if len(right) != len(left):
            raise Unprovable("the graph has another number of results; please report this")
        right.reverse()
        for i, expected in enumerate(left):
            equal = self._compare(i, expected, right[-1], aside)
            if equal and aside.has(expected) and self.none():
                self.same[i] = right[-1]
            right.pop()

    def _compare(self, i: int, expected: Any, y: Any, aside: Aside) -> bool:
        there = getattr(expected, "device", None) == getattr(y, "device", None)
        if there and aside.same(expected, y):
            return True
        if aside.has_only_fingerprint(expected):
            raise _Different(f"its result number {i} is another one; please report this")
        x = aside.read(expected)
        if not self._found:
            self._first = _difference(x, y) if there else ""
            self.same.clear()
        self._found.append(i)
        self.furthest = max(self.furthest, _apart(x, y) if there else _INFINITE)
        return False

    def none(self) -> bool:
        """Whether all are equal bit for bit."""
        return not self._found

    def __str__(self) -> str:
        found = self._found
        return f"{len(found)} of {self._results}, first number {found[0]}{self._first}"


def _difference(x: Any, y: Any) -> str:
    """How many of a result's numbers differ, where it has the same ones."""
    if not isinstance(x, torch.Tensor) or x.shape != y.shape or x.dtype != y.dtype:
        return ""
    left, right = bits(x), bits(y)
    apart = sum(int((a != b).sum()) for a, b in pieces(left, right))
    return f": {apart} of {left.numel()}, {str(x.dtype)[6:]}"


def _repeats() -> Iterator[int]:
    """Counts, until code has been run again often enough."""
    ends = time.monotonic() + _SECONDS
    for count in range(_REPEATS):
        if count >= _FEWEST_REPEATS and time.monotonic() > ends:
            return
        yield count


def _repeat(compiled: Run, kept: Kept, read: list[int]) -> list[Any]:
    """The compiled code once more: its outputs, and what it wrote to that is read."""
    copies = kept.again()
    seen = [copies[i] for i in read]
    return [*compiled(copies), *seen]
