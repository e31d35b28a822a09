"""A break in a function that is called: the caller breaks there, then the function itself does."""

import torch


def helper(x):  # compiled
    y = x + 1
    print("in helper")  # graph_break*2 compiled
    return y * 2


def forward(x):  # compiled
    y = x * 3
    z = helper(y)  # compiled
    return z - 1


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
