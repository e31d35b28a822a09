"""A wait inside torch's own Python code belongs to the user's call."""

import torch


def step(x):  # compiled
    return x * 2


def main():
    x = torch.compile(step, backend="eager")(torch.ones(3))
    torch.testing.assert_close(x.sum(), x.sum())  # sync
    assert 3.0 not in x  # sync
    for row in x:
        row + 1
