"""The loop is outside of the compiled function: compiled once, no break."""

import torch


def step(x):  # compiled
    return x + 1


def main():
    function = torch.compile(step, backend="eager")
    x = torch.ones(2)
    for _ in range(4):
        x = function(x)
