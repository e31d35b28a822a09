"""The outputs of a call, from its memory, arguments and random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pygraph_rt.inductor.runner_inlining import picker
from pygraph_rt.plan.outputs import (
    Dims,
    Drawn,
    Fixed,
    Fresh,
    OfInput,
    Output,
    OutputPlan,
    Undefined,
)

View = tuple[int, int, Dims, Dims, int]
"""A view of memory (0) or of an argument (1): which one, size, strides and offset."""


class Results:
    """Makes the outputs of one `OutputPlan`."""

    def __init__(
        self, plan: OutputPlan, order: Sequence[int], reinterpret: Callable[..., torch.Tensor]
    ) -> None:
        """`order` are the numbers of the storages, as their memory is passed to `build`."""
        self._reinterpret = reinterpret
        self._constants = [o.value for o in plan.outputs if isinstance(o, (Fixed, Undefined))]
        self._drawn = [o for o in plan.outputs if isinstance(o, Drawn)]
        made = {number: place for place, number in enumerate(order)}
        self.views: list[View] = [
            (int(isinstance(o, OfInput)), index, o.size, o.stride, o.offset)
            for o in plan.outputs
            if isinstance(o, (Fresh, OfInput)) and _is_view(o)
            for index in [made[o.storage] if isinstance(o, Fresh) else o.index]
        ]
        self.make_views: Callable[..., list[torch.Tensor]] = self._views_in_python
        self._pick = picker(self._places(plan, made))

    def _places(self, plan: OutputPlan, made: dict[int, int]) -> list[int]:
        """Where each output is in a list of memory, constants, views, CPU scalars and arguments."""
        constants = itertools.count(len(plan.storages))
        views = itertools.count(len(plan.storages) + len(self._constants))
        first_drawn = len(plan.storages) + len(self._constants) + len(self.views)
        drawn, first_argument = itertools.count(first_drawn), first_drawn + len(self._drawn)
        places = []
        for output in plan.outputs:
            if isinstance(output, (Fixed, Undefined)):
                places.append(next(constants))
            elif isinstance(output, Drawn):
                places.append(next(drawn))
            elif _is_view(output):
                places.append(next(views))
            elif isinstance(output, Fresh):
                places.append(made[output.storage])
            else:
                places.append(first_argument + output.index)
        return places

    def build(
        self, args: list[Any], made: list[torch.Tensor], drawn: tuple[int, int]
    ) -> tuple[Any, ...]:
        """The outputs: `made` is the memory, `drawn` the call's seed and offset."""
        pool = [*made, *self._constants, *self.make_views(made, args)]
        if self._drawn:
            pool.extend(self._host_numbers(drawn))
        pool.extend(args)
        return self._pick(pool)

    def _views_in_python(self, *sources: list[Any]) -> list[torch.Tensor]:
        reinterpret = self._reinterpret
        return [reinterpret(sources[kind][i], *view) for kind, i, *view in self.views]

    def _host_numbers(self, drawn: tuple[int, int]) -> Iterator[torch.Tensor]:
        """The CPU scalars among the outputs, in order; they share one piece of memory."""
        seed, offset = drawn
        seed = seed - (1 << 64) if seed >> 63 else seed
        values = [seed if output.seed else offset + output.addend for output in self._drawn]
        whole = torch.tensor(values, dtype=torch.int64, device="cpu")
        for i in range(len(values)):
            yield self._reinterpret(whole, (), (), i)


def _is_view(output: Output) -> bool:
    """Whether an output is a view that has to be made."""
    if isinstance(output, Fresh):
        return not output.whole
    return isinstance(output, OfInput) and not output.same
