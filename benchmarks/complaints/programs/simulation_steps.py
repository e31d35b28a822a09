"""A simulator whose state is its own next input fails under reduce-overhead.

`d = step(m, d)` overwrote its own inputs until three places of torch were changed. A dictionary of
positions and velocities of 4096 pendulums of 8 joints, in double precision.

https://github.com/vmoens/mujoco-torch/issues/1
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails, wrong


def advance(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """One step of semi-implicit Euler for coupled pendulums."""
    place, speed = state["place"], state["speed"]
    pull = torch.roll(place, 1, -1) + torch.roll(place, -1, -1) - 2 * place
    speed = speed + 0.01 * (pull - 9.81 * torch.sin(place) - 0.1 * speed)
    place = place + 0.01 * speed
    return {"place": place, "speed": speed, "energy": (speed.square() / 2 - place.cos()).sum(-1)}


def start(compile: Compile, setup: Setup) -> Step:
    source = torch.Generator().manual_seed(0)
    shape = (setup.size(4096, 4), 8)
    place = torch.randn(shape, generator=source, dtype=torch.float64).to(setup.device)
    state = {"place": place, "speed": torch.zeros_like(place), "energy": place.sum(-1)}
    run = compile(advance)

    def step(number: int) -> dict[str, torch.Tensor]:
        nonlocal state
        with torch.no_grad():
            state = run(state)
        return state

    return step


COMPLAINT = Complaint(
    "RL loops", start, (fails(OVERWRITTEN), wrong()), tolerance=1e-9, check=40, repeats=False
)
