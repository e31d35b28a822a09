"""A compiled optimizer's step counts lie on the CPU and keep it out of CUDA graphs.

Adam without `capturable=True` holds its step as a CPU tensor. 12 layers of 384, gradients given,
`optimizer.step` compiled.

https://github.com/pytorch/pytorch/pull/88173
https://github.com/pytorch/pytorch/issues/118018
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, records, skips, slower
from benchmarks.complaints.parts import Layer


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(384, 16)
    layers = [Layer(size, 4) for _ in range(setup.size(12, 1))]
    model = torch.nn.Sequential(*layers).to(setup.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    source = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=source).to(setup.device)
    run = compile(optimizer.step, fullgraph=False)

    def step(number: int) -> list[torch.Tensor]:
        run()
        return [p.detach() for p in model.parameters()][:4]

    return step


SYMPTOMS = (skips("cpu device|mutated"), slower(), records(8))
COMPLAINT = Complaint("CPU values", start, SYMPTOMS, warm_up=30, calls=10, check=30, repeats=False)
