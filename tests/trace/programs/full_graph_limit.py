"""fullgraph=True turns the recompilation limit into an error."""

import torch


def forward(x, name):  # compiled*8 recompile*7 cache_limit
    return x + len(name)


def main():
    function = torch.compile(forward, backend="eager", fullgraph=True)
    try:
        for number in range(10):
            function(torch.ones(2), "a" * number)
    except Exception:
        pass
