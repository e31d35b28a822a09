"""Plain classes and functions called with tensors, as modules that the instrument can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Called(torch.nn.Module):
    """Calls what `make(device)` returns, a function or an object that is not necessarily a module.

    What is named in `positional` is given by position.
    """

    def __init__(
        self, make: Callable[[torch.device], Callable[..., Any]], positional: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self.make = make
        self.positional = positional
        self.target: Callable[..., Any] | None = None

    def prepare(self, device: torch.device) -> None:
        """Make the object, with what it keeps on `device`."""
        self.target = self.make(device)

    def forward(self, **inputs: Any) -> Any:
        """The result of the call."""
        assert self.target is not None
        first = [inputs[name] for name in self.positional]
        rest = {name: value for name, value in inputs.items() if name not in self.positional}
        return self.target(*first, **rest)


class Sampler(torch.nn.Module):
    """One method of a diffusers scheduler, called as a denoising loop calls it.

    `prepare` is what runs before the loop. With `timed`, the call gets the time of its step, which
    lies where `set_timesteps` put it.
    """

    def __init__(
        self, scheduler: Any, method: str, settings: dict[str, Any], timed: str = "timestep"
    ) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.method = method
        self.settings = settings
        self.timed = timed
        self.times: list[Any] = []

    def prepare(self, device: torch.device) -> None:
        """Choose the times of the steps, on `device`."""
        if hasattr(self.scheduler, "set_timesteps"):
            self.scheduler.set_timesteps(device=device, **self.settings)
            self.times = list(self.scheduler.timesteps)
        if hasattr(self.scheduler, "is_scale_input_called"):  # as a pipeline would have done
            self.scheduler.is_scale_input_called = True

    def forward(self, step: int, **inputs: Any) -> Any:
        """The scheduler's answer for one step."""
        if self.timed:
            inputs[self.timed] = self.times[step]
        return getattr(self.scheduler, self.method)(**inputs)
