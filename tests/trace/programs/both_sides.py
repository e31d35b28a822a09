"""Both sides of a branch are taken: two resumed frames, one break."""

import torch


def forward(x):  # compiled
    if x.sum() > 0:  # graph_break sync*2 compiled*2
        return x * 2
    return x - 1


def main():
    function = torch.compile(forward, backend="eager")
    function(torch.ones(2))
    function(-torch.ones(2))
