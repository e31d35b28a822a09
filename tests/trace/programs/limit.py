"""Eight versions are kept (torch's limit); two calls after that run without being compiled."""

import torch


def forward(x, name):  # compiled*8 recompile*7 cache_limit
    return x + len(name)


def main():
    function = torch.compile(forward, backend="eager")
    for number in range(10):
        function(torch.ones(2), "a" * number)
