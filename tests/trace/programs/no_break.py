"""One graph, nothing else."""

import torch


def forward(x):  # compiled
    return torch.relu(x) + 1


def main():
    torch.compile(forward, backend="eager")(torch.ones(2, 2))
