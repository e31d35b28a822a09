"""The value of a tensor."""

import torch


def forward(x):  # compiled
    scale = x.max().item()  # graph_break sync*3 compiled
    return x * scale


def main():
    function = torch.compile(forward, backend="eager")
    for _ in range(3):
        function(torch.ones(2))
