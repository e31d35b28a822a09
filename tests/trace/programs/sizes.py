"""Another size: one recompilation, then the size is dynamic."""

import torch


def forward(x):  # compiled*2 recompile
    return x + 1


def main():
    function = torch.compile(forward, backend="eager")
    for size in (2, 3, 4, 5):
        function(torch.ones(size))
