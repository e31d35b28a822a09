"""What has to be as at the capture for a call to be served."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

from pygraph_rt.plan.replay_plan import ReplayPlan
from pygraph_rt.replay.platform import Platform


class Conditions:
    """The device, global switches, numbers, and layouts of tensors that are not followed, that a
    graph was captured with, and no capture of the user's own under way.
    """

    def __init__(
        self,
        plan: ReplayPlan,
        function: Callable[..., Any],
        platform: Platform,
        followed: Collection[int],
    ) -> None:
        """`function` is the generated one that was captured; `followed` are arguments of which the
        address is looked at, and the layout with it.
        """
        self._platform = platform
        self._device = plan.launch.device
        self._values = list(plan.inputs.values)
        # 0.0 == -0.0, but what was captured with one is not right for the other.
        self._signs = [
            (index, math.copysign(1.0, value))
            for index, value in plan.inputs.values
            if isinstance(value, float) and value == 0
        ]
        tensors = plan.inputs.tensors
        self._layouts = [(t.argument, t.layout) for t in tensors if t.argument not in followed]
        self._read_state = platform.state_of(function)
        self._state = self._read_state()

    def hold(self, args: list[Any]) -> bool:
        """Whether they hold for a call; where inputs are is not looked at."""
        platform = self._platform
        if (
            platform.capturing()
            or platform.device() != self._device
            or self._read_state() != self._state
        ):
            return False
        for index, value in self._values:
            if args[index] != value:
                return False
        for index, sign in self._signs:
            if math.copysign(1.0, args[index]) != sign:
                return False
        return all(layout.fits(args[index]) for index, layout in self._layouts)
