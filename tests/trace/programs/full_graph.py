"""fullgraph=True turns the break into an error."""

import torch


def forward(x):
    y = x + 1
    print("no")  # graph_break:raised
    return y


def main():
    function = torch.compile(forward, backend="eager", fullgraph=True)
    try:
        function(torch.ones(2))
    except torch._dynamo.exc.Unsupported:
        pass
