"""Compare the first served call with compiled code.

The compiled code runs on the caller's own tensors and its results are what the caller gets, so
nothing is at stake. The graph runs on copies of whatever the partition may write to, with every
address that the captures used poisoned. Where the compiled code runs out of memory beside that, its
call can be undone and made again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from pygraph_rt.capture.checks import reason_of
from pygraph_rt.errors import Unprovable
from pygraph_rt.verify.snapshot import Kept

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# Results of code that differs from call to call may differ from it by so many times its own spread.
_REPEATS, _SPREADS = 3, 4
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
    is made: compiled code ran out of memory beside the comparison. short: there was too little
    memory.
    """

    results: Any = None
    made: bool = False
    accepted: bool = False
    refused: str = ""
    kept: Kept | None = None
    short: bool = False
    note: str = ""


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


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are equal bit for bit, with NaN equal to itself."""
    if not isinstance(a, torch.Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.stride() != b.stride():
        return False
    # A comparison needs the answer on the host.
    return bool(torch.equal(_bits(a), _bits(b)))  # pygraph: ignore[PG701]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Its bits as integers; two for each complex number."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype is torch.bool:
        return tensor
    return tensor.view(_INTEGERS[tensor.element_size()])


def _spread(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Largest difference between two runs, relative to the largest value of its tensor; infinite
    where one of them is not a number and the other is.
    """
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        if same_bits(x, y):
            continue
        if not (isinstance(x, torch.Tensor) and x.numel() and x.is_floating_point()):
            return _INFINITE
        p, q = x.double(), y.double()
        difference = (p - q).abs().nan_to_num(nan=_INFINITE, posinf=_INFINITE)
        difference[(p == q) | (p.isnan() & q.isnan())] = 0.0
        scale = float(p.nan_to_num(0.0, 0.0, 0.0).abs().max()) or 1.0
        worst = max(worst, float(difference.max()) / scale)
    return worst


def first_call(
    compiled: Run,
    served: Run,
    args: list[Any],
    written: frozenset[int],
    poisoned: Sequence[torch.Tensor],
    scratch: frozenset[int] = frozenset(),
    repeatable: bool = False,
) -> FirstCall:
    """Run both paths and compare; `args` is emptied where the call was made or has to be undone.
    `scratch` are those of `written` whose contents nobody reads afterwards. When there are some, or
    the call is `repeatable`, the copies of what may be written to are kept to the end, so that code
    which gives other results each time can be told from a wrong graph. The other arguments are held
    until then. Nothing is held longer than it is needed: this is when a program needs most memory.

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
    (expected,) = ran
    try:
        again = repeatable or scratch or not written
        repeat = partial(_repeat, compiled, kept, read) if again else None
        copies = kept.again() if repeat or kept.on_host else kept.tensors
        if repeat is None:
            kept.release()
        note = _compare(
            served, repeat, copies, [*expected, *left], [copies[i] for i in read], poisoned
        )
    except Exception as error:
        return _refused(error)._replace(results=expected, made=True)
    return FirstCall(expected, made=True, accepted=True, note=note)


def _refused(error: Exception) -> FirstCall:
    """A comparison that failed."""
    short = isinstance(error, torch.OutOfMemoryError)
    return FirstCall(refused=_TOO_LITTLE if short else reason_of(error), short=short)


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
    left: list[Any],
    written: list[Any],
    poisoned: Sequence[torch.Tensor],
) -> str:
    """Run the graph on `args`, and compare its outputs and what it has `written` with `left`; how
    close they are.
    """
    actual = served(args)
    if actual is None:
        raise Unprovable("the graph did not accept the call that it was captured on")
    if not _untouched(poisoned):
        raise Unprovable(
            "the graph wrote to an address of its capture that is not known to be a pointer; "
            "please report this"
        )
    right = [*actual, *written]
    if all(same_bits(a, b) for a, b in zip(left, right, strict=True)):
        return _EXACT
    if repeat is not None:
        spread = 0.0
        for _ in range(_REPEATS):
            spread = max(spread, _spread(left, repeat()))
            if 0 < spread < _INFINITE and _spread(left, right) <= _SPREADS * spread:
                return _CLOSE
    raise Unprovable(
        f"its results under a graph differ from the compiled code's ({_difference(left, right)}); "
        "the compiled code stays in use, please report this"
    )


def _difference(left: Sequence[Any], right: Sequence[Any]) -> str:
    """Which of the results differ, and how much of the first of them."""
    found = [i for i, (a, b) in enumerate(zip(left, right, strict=True)) if not same_bits(a, b)]
    a, b = left[found[0]], right[found[0]]
    said = f"{len(found)} of {len(left)}, first number {found[0]}"
    if not isinstance(a, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
        return said
    apart = _bits(a) != _bits(b)
    return f"{said}: {int(apart.sum())} of {apart.numel()}, {str(a.dtype)[6:]}"


def _repeat(compiled: Run, kept: Kept, read: list[int]) -> list[Any]:
    """The compiled code once more: its outputs, and what it wrote to that is read."""
    copies = kept.again()
    seen = [copies[i] for i in read]
    return [*compiled(copies), *seen]
