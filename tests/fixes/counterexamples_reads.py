"""For each precondition of the rewrites for reads in lists, draws on the host and branches that
select, code that goes wrong without it.
"""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines

_MADE = (
    "    generator = «torch.Generator()».manual_seed(1)\n"
    "    return torch.rand(3, generator=generator)\n"
)


def _drawing(head: str = "def noise():\n", body: str = _MADE, behind: str = "noise()") -> str:
    """A function that draws, and one that calls it."""
    called = f"def forward(x: torch.Tensor):\n    return x + {behind}\n"
    return f"import torch\n\n\n{head}{body}\n\n{called}"


def _layers(loop: str = "", after: str = "", turn: str = "") -> str:
    """Layers that read one list each."""
    turns = "        for layer in self.layers:\n            x = layer(x, ends)\n"
    return (
        "import torch\n\n\nclass Layer(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor, ends: torch.Tensor):\n"
        f"        sizes = «ends.tolist()»\n        {after}\n        return x * len(sizes)\n\n\n"
        "class Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layers = torch.nn.ModuleList([Layer() for _ in range(2)])\n\n"
        f"    def forward(self, x, ends):\n{loop or f'{turns}{turn}        return x'}\n"
    )


CASES = [
    # carried_read
    Case("carried_read", "once", "PG203", _layers()),
    Case("carried_read", "loop", "PG203", _layers(loop="        return self.layers[0](x, ends)")),
    Case(
        "carried_read",
        "raises",
        "PG201",
        _layers().replace("«ends.tolist()»", "[«ends.max().item()»] if len(ends) else []"),
    ),
    Case("carried_read", "pure", "PG203", _layers(after="sizes.append(1)")),
    Case("carried_read", "same", "PG203", _layers(turn="            ends.add_(1)\n")),
    # drawing_function
    Case("site", "compiled", "PG513", _drawing(), captured=True),
    Case("drawing_function", "helper", "PG513", _drawing(behind="1")),
    Case(
        "disable",
        "named",
        "PG513",
        lines("def noise():", *_MADE.splitlines(), "return x + noise()"),
    ),
    Case("drawing_function", "bare", "PG513", _drawing("@torch.jit.ignore\ndef noise():\n")),
    Case(
        "drawing_function",
        "returns",
        "PG513",
        _drawing(body=_MADE.replace("return", "yield"), behind="next(noise())"),
    ),
    Case(
        "drawing_function",
        "several",
        "PG513",
        _drawing(body="    return «torch.Generator()»\n", behind="noise().initial_seed()"),
    ),
    Case(
        "drawing_function",
        "host-only",
        "PG513",
        _drawing(
            body=_MADE.replace("torch.rand(3, generator", "torch.sin(torch.rand(3), generator")
        ),
    ),
    # selectable
    Case(
        "selectable",
        "shape",
        "PG301",
        lines("x = x * 2", "if «x.sum() > 0»:", "    x = x.sum()", "return x"),
        lambda: (torch.ones(2),),
    ),
]
