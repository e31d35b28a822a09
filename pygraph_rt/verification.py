"""The first served call, compared with the ordinary path.

The ordinary path runs on the caller's own tensors and its results are what the caller gets, so
nothing is at stake. The graph runs on copies of whatever the partition may write to, with every
address that the captures used poisoned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from .arena import poison, untouched
from .errors import Unprovable
from .placeholders import ALIGNMENT

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_REPEATS = 3
_INFINITE = float("inf")

_HOST = torch.device("cpu")
# Part of the CPU's memory that a copy may take, for a moment.
_HOST_SHARE = 16

Run = Callable[[list[Any]], Any]


class Verdict(NamedTuple):
    """What to hand to the caller, and how the comparison went."""

    outputs: Any
    note: str


def _clone_storage(source: torch.UntypedStorage, device: torch.device) -> torch.Tensor:
    """A copy of a storage's bytes on a device, whose address leaves the same residue: kernels were
    chosen by it.
    """
    nbytes = source.nbytes()
    room = torch.empty(nbytes + ALIGNMENT, dtype=torch.uint8, device=device)
    start = (source.data_ptr() - room.data_ptr()) % ALIGNMENT
    copy = room[start : start + nbytes]
    whole = torch.empty((0,), dtype=torch.uint8, device=source.device)
    whole.set_(source, 0, (nbytes,), (1,))
    return copy.copy_(whole)


def _rebuild(tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
    item = tensor.element_size()
    nbytes = copy.numel() // item * item
    typed = copy[:nbytes].view(tensor.dtype)
    offset = typed.storage_offset() + tensor.storage_offset()
    return torch.as_strided(typed, tensor.shape, tensor.stride(), offset)


def with_copies(
    args: Sequence[Any], written: Iterable[int], device: torch.device | None = None
) -> list[Any]:
    """The arguments with every tensor at `written` replaced by a copy, on another device if one is
    given; tensors that share memory keep sharing it.
    """
    copies: dict[int, torch.Tensor] = {}
    result = list(args)
    shared = {
        args[i].untyped_storage().data_ptr()
        for i in written
        if isinstance(args[i], torch.Tensor) and args[i].numel()
    }
    for i, value in enumerate(args):
        if not isinstance(value, torch.Tensor) or not value.numel():
            continue
        address = value.untyped_storage().data_ptr()
        if address not in shared:
            continue
        if address not in copies:
            copies[address] = _clone_storage(value.untyped_storage(), device or value.device)
        result[i] = _rebuild(value, copies[address])
    return result


def _few_bytes(args: Sequence[Any], written: Iterable[int]) -> bool:
    """Whether copies of what may be written to are small beside the CPU's memory."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system says
        return False
    found = [args[i].untyped_storage() for i in written if isinstance(args[i], torch.Tensor)]
    nbytes: int = sum({s.data_ptr(): s.nbytes() for s in found}.values())
    return nbytes * _HOST_SHARE <= memory


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are equal bit for bit, with NaN equal to itself."""
    if not isinstance(a, torch.Tensor):
        return bool(a == b)
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.stride() != b.stride():
        return False
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if a.dtype is not torch.bool:
        a, b = a.view(_INTEGERS[a.element_size()]), b.view(_INTEGERS[b.element_size()])
    return bool(torch.equal(a, b))


def _spread(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Largest difference between two runs, relative to the largest value of its tensor; infinite
    where one of them is not a number and the other is.
    """
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        if isinstance(x, torch.Tensor) and x.numel() and x.is_floating_point():
            p, q = x.double(), y.double()
            difference = (p - q).abs().nan_to_num(nan=_INFINITE, posinf=_INFINITE)
            difference[(p == q) | (p.isnan() & q.isnan())] = 0.0
            scale = float(p.nan_to_num(0.0, 0.0, 0.0).abs().max()) or 1.0
            worst = max(worst, float(difference.max()) / scale)
        elif not same_bits(x, y):
            return _INFINITE
    return worst


def first_call(
    ordinary: Run,
    served: Run,
    args: list[Any],
    written: frozenset[int],
    poisoned: Sequence[torch.Tensor],
    scratch: frozenset[int] = frozenset(),
) -> Verdict:
    """Run both paths and compare; `args` is emptied. `scratch` are those of `written` whose
    contents nobody reads afterwards. When there are some, one more copy of what may be written to
    is kept, in the CPU's memory where that is large enough, so that code which gives other results
    each time can be told from a wrong graph. Nothing is held longer than it is needed: this is when
    a program needs most memory.

    `served` returns None when it would not serve the call. Raises Unprovable when results differ
    or when the graph touched memory of the captures, or what the driver raises; when the ordinary
    path ran before that, the error's `__cause__` is a `Ran` with its outputs.
    """
    read = sorted(written - scratch)
    try:
        copies = with_copies(args, written)
        spare = None
        if scratch or not written:
            spare = with_copies(args, written, _HOST if _few_bytes(args, written) else None)
    except torch.OutOfMemoryError:
        torch.cuda.synchronize()
        outputs = served(list(args))
        if outputs is None:
            raise Unprovable("the graph did not accept the call that it was captured on") from None
        args.clear()
        return Verdict(outputs, "not compared with the ordinary path: too little memory for copies")
    poison(poisoned)
    device = next((args[i].device for i in written if isinstance(args[i], torch.Tensor)), None)
    left, right = [args[i] for i in read], [copies[i] for i in read]
    expected = ordinary(args)
    args.clear()
    try:
        repeat = None if spare is None else partial(_repeat, ordinary, spare, written, read, device)
        _compare(served, repeat, copies, [*expected, *left], right, poisoned)
    except torch.OutOfMemoryError:
        note = "not compared with the ordinary path: too little memory for two sets of outputs"
        return Verdict(expected, note)
    except Exception as error:
        raise error from Ran(expected)
    return Verdict(expected, "compared with the ordinary path, bit for bit")


class Ran(Exception):
    """Carries the ordinary path's outputs of a call whose comparison failed."""

    def __init__(self, outputs: Any) -> None:
        super().__init__("the ordinary path ran")
        self.outputs = outputs


def _compare(
    served: Run,
    repeat: Callable[[], list[Any]] | None,
    args: list[Any],
    left: list[Any],
    written: list[Any],
    poisoned: Sequence[torch.Tensor],
) -> None:
    """Run the graph on `args`, and compare its outputs and what it has `written` with `left`."""
    actual = served(args)
    if actual is None:
        raise Unprovable("the graph did not accept the call that it was captured on")
    if not untouched(poisoned):
        raise Unprovable(
            "the graph wrote to an address of its capture that is not known to be a pointer; "
            "please report this"
        )
    right = [*actual, *written]
    if all(same_bits(a, b) for a, b in zip(left, right, strict=True)):
        return
    if repeat is not None:
        spread = max(_spread(left, repeat()) for _ in range(_REPEATS))
        if 0 < spread < _INFINITE and _spread(left, right) <= 4 * spread:
            return
    raise Unprovable(
        "its results under a graph differ from the ordinary path's; the ordinary path stays in "
        "use, please report this"
    )


def _repeat(
    ordinary: Run,
    spare: list[Any],
    written: frozenset[int],
    read: list[int],
    device: torch.device | None,
) -> list[Any]:
    """The ordinary path once more: its outputs, and what it wrote to that is read."""
    copies = with_copies(spare, written, device)
    kept = [copies[i] for i in read]
    return [*ordinary(copies), *kept]
