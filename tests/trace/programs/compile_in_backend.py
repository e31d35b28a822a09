"""The backend compiles and calls a function of its own while a frame is compiled."""

import torch


def own(x):  # compiled
    return x.sin() + 1


def backend(graph, inputs):
    torch.compile(own, backend="eager")(torch.ones(3))
    return graph.forward


def forward(x):  # compiled
    return x * 2


def main():
    torch.compile(forward, backend=backend)(torch.ones(2))
