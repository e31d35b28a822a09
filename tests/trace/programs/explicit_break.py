"""torch._dynamo.graph_break() is a break of its own."""

import torch


def forward(x):  # compiled
    y = x + 1
    torch._dynamo.graph_break()  # graph_break compiled
    return y * 2


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
