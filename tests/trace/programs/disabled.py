"""A function that the user keeps out of compilation."""

import torch


@torch.compiler.disable
def helper(x):
    return x + 1


def forward(x):  # compiled
    y = x * 2
    y = helper(y)  # graph_break compiled
    return y * 3


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
