"""A break under no_grad: Dynamo enters it again, so the frame is not skipped."""

import torch


def forward(x):  # compiled
    with torch.no_grad():
        y = x + 1
        print("inside")  # graph_break compiled
        return y * 2


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
