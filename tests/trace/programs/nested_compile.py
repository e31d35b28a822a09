"""A compiled function calls a compiled function: it is inlined, one compilation."""

import torch


def inner(x):
    return x + 1


def main():
    compiled = torch.compile(inner, backend="eager")

    def forward(x):  # compiled
        return compiled(x) * 2

    torch.compile(forward, backend="eager")(torch.ones(2))
