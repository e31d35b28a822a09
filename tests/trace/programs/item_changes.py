"""A Python float from a tensor that changes: one recompilation, then it is dynamic."""

import torch


def forward(x):  # compiled
    scale = x.max().item()  # graph_break sync*3 compiled*2 recompile
    return x * scale


def main():
    function = torch.compile(forward, backend="eager")
    for value in (1.0, 2.0, 3.0):
        function(torch.full((2,), value))
