"""Clipping with error_if_nonfinite reads a value; without, it does not."""

import torch


def main():
    weight = torch.nn.Parameter(torch.ones(3))

    def loss(x):  # compiled
        return (x * weight).sum()

    torch.compile(loss, backend="eager")(torch.ones(3)).backward()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)  # sync
