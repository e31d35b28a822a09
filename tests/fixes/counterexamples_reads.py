"""For each precondition of the rewrites for reads in lists, draws on the host and branches that
select, code that goes wrong without it.
"""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines

_READ = "«sizes.tolist()»"
_HEAD = "x: torch.Tensor, sizes: torch.Tensor"


def _list(*body: str, head: str = _HEAD) -> str:
    return lines(*body, head=head)


def _pair() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(3.0), torch.tensor([1, 2])


def _turning() -> tuple[object, ...]:
    return *_pair(), lambda sizes, x: (sizes.copy_(sizes.flip(0)), x)[1]


def _rows() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(3.0), torch.tensor([[1, 2]])


def _none() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(3.0), torch.tensor([1, 2], device="meta")


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
    # read_once
    Case(
        "read_once",
        "whole",
        "PG203",
        _list(f"return x.sum(), [torch.split(a, {_READ}) for a in (x, x)]"),
    ),
    Case(
        "read_once",
        "each",
        "PG203",
        _list(f"return [torch.split(a, {_READ}) for a in (x,) if len(x) > 3]"),
        _none,
    ),
    Case(
        "read_once",
        "runs",
        "PG203",
        _list(f"return [torch.split(a, {_READ}) for a in x[:0]]").replace("x[:0]", "none"),
    ),
    Case(
        "read_once",
        "same",
        "PG203",
        _list(
            "return [torch.split(x, «a.tolist()») for a in (sizes, others)]",
            head=f"{_HEAD}, others",
        ),
    ),
    Case(
        "read_once",
        "pure",
        "PG203",
        _list(f"return [torch.split(a, {_READ}, sizes.add_(0).dim() - 1) for a in (x, x)]"),
    ),
    Case(
        "read_once",
        "known",
        "PG203",
        _list(
            f"return [torch.split(turn(sizes, a), {_READ}) for a in (x,)]", head=f"{_HEAD}, turn"
        ),
        _turning,
    ),
    Case(
        "read_once",
        "kept",
        "PG203",
        _list(
            f"found = [max({_READ}, []) for a in (x, x)]",
            "found[0][0].append(1)",
            "return found",
        ),
        _rows,
    ),
    Case(
        "read_once",
        "unseen",
        "PG203",
        _list(f"found = [torch.split(a, {_READ}) for a in (x, x)]", "return sorted(locals())"),
        _pair,
    ),
    Case(
        "read_once",
        "tensor",
        "PG203",
        _list(f"return [torch.split(a, {_READ}) for a in (x, x)]", head="x: torch.Tensor, sizes"),
    ),
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
        "decorated",
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
    # tensor_branch
    Case(
        "tensor_branch",
        "shape",
        "PG301",
        lines("x = x * 2", "if «x.sum() > 0»:", "    x = x.sum()", "return x"),
        lambda: (torch.ones(2),),
    ),
]
