"""Actor and critic of a PPO runner can't be compiled with CUDA graphs: both modes are blocked.

"CUDA-graph-based compile modes are blocked as they're incompatible with the two-model actor/critic
pattern". Actor and critic MLPs of 512, 256, 128, 4096 environments with 48 observations; actions
and values of 8 steps are kept in lists, and read then.

https://github.com/leggedrobotics/rsl_rl/pull/198
https://github.com/leggedrobotics/rsl_rl/pull/199
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails
from benchmarks.complaints.parts import drawn, mlp


def start(compile: Compile, setup: Setup) -> Step:
    actor = mlp(48, 512, 256, 128, 12).to(setup.device)
    critic = mlp(48, 512, 256, 128, 1).to(setup.device)
    act, value = compile(actor), compile(critic)
    inputs = drawn(1, setup.size(4096, 16), 48, device=setup.device)

    def step(number: int) -> list[torch.Tensor]:
        actions, values = [], []
        with torch.no_grad():
            for turn in range(8):
                seen = inputs[(number + turn) % len(inputs)]
                actions.append(act(seen))
                values.append(value(seen))
        return [torch.stack(actions), torch.stack(values)]

    return step


COMPLAINT = Complaint("RL loops", start, (fails(OVERWRITTEN),), calls=8)
