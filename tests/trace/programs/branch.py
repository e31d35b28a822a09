"""A branch on a tensor: a break, a wait on each call, a resumed frame for the side taken."""

import torch


def forward(x):  # compiled
    if x.sum() > 0:  # graph_break sync*2 compiled
        return x * 2
    return x - 1


def main():
    function = torch.compile(forward, backend="eager")
    function(torch.ones(2))
    function(torch.ones(2))
