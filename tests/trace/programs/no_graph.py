"""Nothing for a graph in the function: Dynamo skips the frame."""

import torch


def forward(x):  # skipped_frame
    return x


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
