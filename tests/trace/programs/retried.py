"""A frame that is traced three times: a break, and a size that turns out to be dynamic later."""

import torch


def forward(x, y):  # compiled*2 recompile
    a = x + y.shape[0]
    torch._dynamo.graph_break()  # graph_break*2 compiled
    b = a * 2
    torch._dynamo.graph_break()  # graph_break compiled
    return b.sum()


def main():
    function = torch.compile(forward, backend="eager")
    function(torch.ones(2), torch.ones(3))
    function(torch.ones(2), torch.ones(4))
    function(torch.ones(2), torch.ones(5))
