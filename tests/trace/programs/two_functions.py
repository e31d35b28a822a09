"""Two functions, one with a break; the same break of two callers is two."""

import torch


def show(x):  # compiled
    y = x * 2
    print("shown")  # graph_break*3 skipped_frame
    return y


def first(x):  # compiled
    return show(x + 1)


def second(x):  # compiled
    return show(x + 2)


def main():
    torch.compile(first, backend="eager")(torch.ones(2))
    torch.compile(second, backend="eager")(torch.ones(2))
