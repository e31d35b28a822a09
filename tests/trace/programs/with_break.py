"""A break under a context manager that Dynamo cannot leave: the frame is skipped."""

import contextlib

import torch


@contextlib.contextmanager
def named():
    yield


def forward(x):
    with named():
        y = x + 1
        print("inside")  # graph_break:skipped
        return y * 2


def main():
    torch.compile(forward, backend="eager")(torch.ones(2))
