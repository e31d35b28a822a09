"""Two breaks in a row."""

import torch


def forward(x):  # compiled
    y = x + 1
    print("one")  # graph_break compiled
    y = y * 2
    print("two")  # graph_break skipped_frame
    return y


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
