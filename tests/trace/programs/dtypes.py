"""Another dtype each time: a recompilation each."""

import torch


def forward(x):  # compiled*3 recompile*2
    return x + 1


def main():
    function = torch.compile(forward, backend="eager")
    for dtype in (torch.float32, torch.float64, torch.int64, torch.float32):
        function(torch.ones(2, dtype=dtype))
