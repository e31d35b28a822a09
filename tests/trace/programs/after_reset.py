"""torch._dynamo.reset() between two calls: compiled twice, no recompilation."""

import torch


def forward(x):  # compiled*2
    return x + 1


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
    torch._dynamo.reset()
    torch.compile(forward, backend="eager")(torch.ones(2))
