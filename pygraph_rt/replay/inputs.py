"""Where the inputs of a call are."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pygraph_rt.plan.memory_blocks import alignment_class
from pygraph_rt.plan.replay_plan import TensorLayout
from pygraph_rt.replay.platform import Platform

_CLASS_MASK = 255
# So often a guard is made of the tensors of a call; others are looked at one by one.
_MOST_GUARDS = 4


def _no_guard(*_: Any) -> bool:
    return False


class Input(NamedTuple):
    """An input whose address is followed: which argument, its place among the addresses, its
    alignment class and its layout at the capture.
    """

    argument: int
    slot: int
    alignment: int
    layout: TensorLayout


class _Followed(NamedTuple):
    """Arguments that are compared together, because they have not moved so far, and inputs that are
    compared one by one, with their arguments, and their places and alignment classes.
    """

    still: list[int]
    moving: list[Input]
    arguments: list[int]
    places: list[tuple[int, int]]


def _followed(still: list[int], moving: list[Input]) -> _Followed:
    places = [(item.slot, item.alignment) for item in moving]
    return _Followed(still, moving, [item.argument for item in moving], places)


class InputAddresses:
    """Writes the addresses of inputs that moved, call by call, and looks at the layout of all: no
    guard of Dynamo's does for weights whose `data` is assigned, and none for what was saved for a
    backward. Compiled code raises there.

    Kept true, also by an exception at any moment: an input that counts as known is among the
    addresses as it is known.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        stays: Sequence[int],
        addresses: array[int],
        platform: Platform,
    ) -> None:
        """`stays` are arguments that have not moved so far."""
        self._addresses = addresses
        self._same_addresses = platform.same_addresses
        self._guard_of = platform.guard_of
        self._guards_left = _MOST_GUARDS if platform.guard_of is not None else 0
        # Whether tensors are laid out as those of an earlier call that fitted; False: perhaps.
        self._as_before: Callable[..., bool] = _no_guard
        # `fits`, written out: a call has hundreds of inputs.
        self._layouts = [(item.layout, *item.layout) for item in inputs]
        self._by_argument = {item.argument: item for item in inputs}
        still = [item.argument for item in inputs if item.argument in stays]
        moving = [item for item in inputs if item.argument not in stays]
        self._followed = _followed(still, moving)
        # By argument: where those that stay are; 0 while that is not known.
        self._where: list[Any] = [0] * (max(self._by_argument, default=-1) + 1)
        # Where those that move were on the last call; None while that is not known.
        self._known: list[int] | None = None

    def follow(self, args: list[Any], _: array[int]) -> bool:
        """Write the addresses of inputs that moved; False where one is aligned or laid out in
        another way than at the capture.
        """
        tensors = [args[i] for i in self._by_argument]
        if not self._as_before(*tensors) and not self._fit(tensors):
            return False
        still, arguments = self._followed.still, self._followed.arguments
        if still and not self._same_addresses(args, self._where, still):
            if not self._follow_still(args, still):
                return False
            arguments = self._followed.arguments
        now: list[int] = [args[i].data_ptr() for i in arguments]
        return now == self._known or self._follow_moving(now)

    def _fit(self, tensors: list[Any]) -> bool:
        """Whether inputs are laid out as at the capture."""
        for value, (layout, size, stride, dtype, device) in zip(
            tensors, self._layouts, strict=True
        ):
            same = value.shape == size and value.stride() == stride and value.dtype is dtype
            plain = value.device == device and not (value.is_neg() or value.is_conj())
            if not ((same and plain) or layout.fits(value)):
                return False
        if self._guards_left and self._guard_of is not None:
            self._guards_left -= 1
            self._as_before = self._guard_of(tensors)
        return True

    def _follow_still(self, args: list[Any], still: list[int]) -> bool:
        """Follow inputs that had stayed put until now; those that move from here on are compared
        one by one.
        """
        where = self._where
        changed = [(i, at) for i in still if (at := args[i].data_ptr()) != where[i]]
        if any(alignment_class(at) != self._by_argument[i].alignment for i, at in changed):
            return False
        moved = {i for i, _ in changed if where[i]}
        for i, at in changed:
            where[i] = 0
            self._addresses[self._by_argument[i].slot] = at
            where[i] = at
        if moved:
            moving = [*self._followed.moving, *(self._by_argument[i] for i in sorted(moved))]
            self._known = None
            self._followed = _followed([i for i in still if i not in moved], moving)
        return True

    def _follow_moving(self, now: list[int]) -> bool:
        known: Sequence[int | None] = self._known or [None] * len(now)
        moving = zip(self._followed.places, now, known, strict=True)
        changed = [(place, address) for place, address, before in moving if address != before]
        for (_, alignment), address in changed:
            exact = address & _CLASS_MASK or alignment != 256
            if exact and alignment_class(address) != alignment:
                return False
        self._known = None  # until all are written
        for (slot, _), address in changed:
            self._addresses[slot] = address
        self._known = now
        return True
