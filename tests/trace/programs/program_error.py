"""The program is wrong: Dynamo sees the error while it traces."""

import torch


def forward(x):
    return x @ torch.ones(5)  # compile_error


def main():
    try:
        torch.compile(forward, backend="eager")(torch.ones(2))
    except RuntimeError:
        pass
