"""A model that was compiled in one thread fails in another.

torch keeps its CUDA graph trees by thread: "assert torch._C._is_key_in_tls" (confirmed on 2.13). A
voice program with speech recognition and synthesis in two threads fails likewise. One transformer
layer of 256; calls in two threads in turn.

https://github.com/pytorch/pytorch/issues/123177
https://github.com/OpenBMB/VoxCPM/issues/208
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, fails
from benchmarks.complaints.parts import Layer, drawn


def start(compile: Compile, setup: Setup) -> Step:
    layer = Layer(256, 4).to(setup.device)
    run = compile(layer)
    inputs = drawn(1, 2, setup.size(64, 4), 256, device=setup.device)
    other = ThreadPoolExecutor(1)

    def call(number: int) -> torch.Tensor:
        with torch.no_grad():
            return run(inputs[number % len(inputs)]).clone()

    def step(number: int) -> torch.Tensor:
        if number % 2 == 0:
            return call(number)
        return other.submit(call, number).result()

    return step


COMPLAINT = Complaint("threads", start, (fails("AssertionError|overwritten"),), tolerance=1e-2)
