"""After the trainer's weights have come, graphs are wrong or have to be captured again.

slime's second rollout was garbled, because a graph held old addresses. An MLP of 2048, 4 blocks;
every fourth step new weights come by `load_state_dict(..., assign=True)`.

https://github.com/sgl-project/sglang/pull/27140
https://github.com/sgl-project/sglang/pull/12060
https://github.com/vllm-project/vllm-ascend/pull/7473
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, records, slower
from benchmarks.complaints.parts import GatedMlp, drawn


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(2048, 32)
    blocks = [GatedMlp(size, 2 * size) for _ in range(4)]
    model = nn.Sequential(*blocks).to(setup.device, torch.bfloat16).requires_grad_(False)
    known = {name: value.clone() for name, value in model.state_dict().items()}
    run = compile(model)
    before: list[dict[str, torch.Tensor]] = []
    inputs = drawn(1, 8, 1, size, device=setup.device, dtype=torch.bfloat16)

    def step(number: int) -> torch.Tensor:
        if number % 4 == 3:
            fresh = {name: value * (1 + number % 8 / 64) for name, value in known.items()}
            model.load_state_dict(fresh, assign=True)
            before.append(fresh)  # the last three stay, for comparisons
            del before[:-3]
        with torch.no_grad():
            return run(inputs[number % len(inputs)])

    return step


SYMPTOMS = (records(4), slower())
COMPLAINT = Complaint("addresses change", start, SYMPTOMS, tolerance=3e-2, check=40, repeats=False)
