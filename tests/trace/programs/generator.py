"""A generator cannot be compiled; the caller of the compiled generator gets an eager one."""

import torch


def forward(x):  # skipped_frame
    yield x + 1
    yield x + 2


def main():
    list(torch.compile(forward, backend="eager")(torch.ones(2)))
