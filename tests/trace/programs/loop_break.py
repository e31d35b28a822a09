"""A break in a loop: the frame is skipped."""

import torch


def forward(x):
    for _ in range(3):
        x = x + 1
        print("step")  # graph_break:skipped
    return x


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
