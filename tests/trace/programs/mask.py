"""A boolean index."""

import torch


def forward(x):  # compiled
    y = x + 1
    kept = y[y > 1]  # graph_break sync*2 compiled
    return kept.sum()


def main():
    function = torch.compile(forward, backend="eager")
    function(torch.ones(3))
    function(torch.ones(3))
