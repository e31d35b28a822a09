"""The backend raises."""

import torch


def refuses(graph, inputs):
    raise ValueError("not this graph")


def forward(x):  # compile_error
    return x + 1


def main():
    try:
        torch.compile(forward, backend=refuses)(torch.ones(2))
    except RuntimeError:
        pass
