"""The outputs of a call, from its memory, arguments and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pygraph_rt.inductor.runner_inlining import Assembly, Returned
from pygraph_rt.plan.outputs import Drawn, Fresh, OfInput, Output, OutputPlan


class Results(Assembly):
    """Makes the outputs of one `OutputPlan`."""

    def __init__(
        self, plan: OutputPlan, order: Sequence[int], reinterpret: Callable[..., torch.Tensor]
    ) -> None:
        """`order` are the numbers of the storages, as their memory is passed to `make`."""
        made = {number: place for place, number in enumerate(order)}
        self._drawn = [o for o in plan.outputs if isinstance(o, Drawn)]
        numbers = iter(range(len(self._drawn)))
        outputs = [_returned(o, made, numbers) for o in plan.outputs]
        super().__init__(outputs, len(plan.storages), reinterpret)

    def make(
        self, args: list[Any], made: list[torch.Tensor], drawn: tuple[int, int]
    ) -> tuple[Any, ...]:
        """The outputs: `made` is the memory, `drawn` the call's seed and offset."""
        views = self.make_views(made, args)
        numbers = self._host_numbers(drawn) if self._drawn else ()
        return self._pick([*made, *self._constants, *views, *numbers, *args])

    def _host_numbers(self, drawn: tuple[int, int]) -> Iterator[torch.Tensor]:
        """The CPU scalars among the outputs, in order; they share one piece of memory."""
        seed, offset = drawn
        seed = seed - (1 << 64) if seed >> 63 else seed
        values = [seed if output.seed else offset + output.addend for output in self._drawn]
        whole = torch.tensor(values, dtype=torch.int64, device="cpu")
        for i in range(len(values)):
            yield self._reinterpret(whole, (), (), i)


def _returned(output: Output, made: Mapping[int, int], numbers: Iterator[int]) -> Returned:
    if isinstance(output, Drawn):
        return Returned("number", next(numbers))
    if not isinstance(output, (Fresh, OfInput)):
        return Returned("value", value=output.value)
    view = (output.size, output.stride, output.offset)
    if isinstance(output, Fresh):
        return Returned("result", made[output.storage], None if output.whole else view)
    return Returned("argument", output.index, None if output.same else view)
