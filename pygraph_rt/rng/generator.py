"""torch's default generator around launches: each takes its numbers, and moves it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import OutOfMemoryError

from pygraph_rt.errors import Unprovable
from pygraph_rt.interrupts import RLock, release


class Generator(Protocol):
    """What is used of `torch.Generator`."""

    def initial_seed(self) -> int: ...

    def get_offset(self) -> int: ...

    def set_offset(self, offset: int) -> object: ...


def offsets(args: Sequence[Any]) -> list[tuple[Generator, int]]:
    """A GPU's generators among a call's arguments, and how far each has been drawn from."""
    generators = [a for a in args if isinstance(a, torch.Generator) and a.device.type == "cuda"]
    return [(generator, generator.get_offset()) for generator in generators]


def check_untouched(before: Sequence[tuple[Generator, int]]) -> None:
    """Raise Unprovable where a call has drawn from one of the generators that it was given.

    torch.compile hands generators to checkpointed code, so that the second run of an operator draws
    the same numbers. Most of these operators draw nothing, such as an attention without dropout.
    """
    if any(generator.get_offset() != offset for generator, offset in before):
        raise Unprovable(
            "it draws random numbers again for activation checkpointing, from a generator that it "
            "is given; keep what draws them (dropout) out of the checkpoint"
        )


class Draw:
    """Takes what one launch draws from a generator."""

    # Held between reading and moving on a generator; one for all regions, because they may share
    # one.
    _lock = RLock()

    def __init__(self, generator: Generator, increment: int) -> None:
        """`increment`: how far a launch moves the generator on, a multiple of 4."""
        self._generator = generator
        self.increment = increment

    def draw(self) -> tuple[int, int]:
        """(seed, offset) for the next launch; the generator is moved on."""
        generator = self._generator
        try:
            with self._lock:
                offset = generator.get_offset()
                generator.set_offset(offset + self.increment)
                return generator.initial_seed(), offset
        except BaseException:
            release(self._lock)
            raise

    def give_back(self) -> None:
        """Undo the last `draw`, whose launch failed."""
        try:
            with self._lock:
                self._generator.set_offset(self._generator.get_offset() - self.increment)
        except BaseException:
            release(self._lock)
            raise


class SameNumbers:
    """Lets several runs of one call draw the same numbers.

    As a context manager: at its end the generator is where one run leaves it, and where it was when
    the first one ran out of memory.
    """

    def __init__(self, generator: Generator, increment: int) -> None:
        """`increment`: how far a run moves the generator on; with 0 nothing is done."""
        self._generator = generator
        self._increment = increment
        self._start = 0
        self._ran = False

    def __enter__(self) -> SameNumbers:
        if self._increment:
            self._start = self._generator.get_offset()
        return self

    def __exit__(self, *error: object) -> None:
        if self._ran:
            self._generator.set_offset(self._start + self._increment)

    def undo(self) -> None:
        """The generator is where it was: what has been run is run again later."""
        self._ran = False
        if self._increment:
            self._generator.set_offset(self._start)

    def again(self, run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """`run`, from where the generator was at the beginning."""
        if not self._increment:
            return run

        def repeat(args: list[Any]) -> Any:
            self._generator.set_offset(self._start)
            try:
                results = run(args)
            except OutOfMemoryError:  # the call will be made again, without what was beside it
                self._generator.set_offset(self._start)
                raise
            self._ran = True
            return results

        return repeat
