"""Preconditions of rewrites: groups of rows, what branches register, sizes of layers, values."""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines


def _loop(
    *body: str,
    above: str = "",
    result: str = "output",
    scale: str = "scale[token, choice, None]",
) -> str:
    """Rows of groups, multiplied group by group."""
    return lines(
        "output = torch.zeros_like(x)",
        "mask = torch.nn.functional.one_hot(index, num_classes=3).permute(2, 1, 0)",
        *([above] if above else []),
        "hit = «torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()»",
        "for group in hit:",
        "    group = group[0]",
        "    choice, token = torch.where(mask[group])",
        *(f"    {line}" for line in body or ("rows = x[token]",)),
        f"    y = torch.nn.functional.linear(rows, weight[group]) * {scale}",
        "    output.index_add_(0, token, y)",
        f"return {result}",
        head="x, index, scale, weight",
    )


def _inputs(*more: int) -> tuple[torch.Tensor, ...]:
    """Four tokens, one expert each."""
    x = torch.arange(1.0, 9.0).view(4, *(1 for _ in more), 2).expand(4, *more, 2).contiguous()
    index = torch.tensor([[2], [0], [1], [0]])
    return x, index, torch.ones(4, 1), torch.arange(12.0).view(3, 2, 2)


_MODULES = """import torch


class Layer(torch.nn.Module):
    def forward(self, x, w):
        return x @ w


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()
        self.act = torch.nn.Softmax(dim=0)

    def forward(self, x, index, scale, weight):
        output = torch.zeros_like(x)
        mask = torch.nn.functional.one_hot(index, num_classes=3).permute(2, 1, 0)
        hit = «(mask.sum(dim=(-1, -2)) > 0).nonzero()»
        for group in hit:
            group = group[0]
            choice, token = torch.where(mask[group])
            y = BODY
            output.index_add_(0, token, y * scale[token, choice, None])
        return output


forward = Experts()
"""


def _registered(*body: str, other: str = "pass", result: str = "self.freq") -> str:
    """A branch that registers a buffer."""
    arm = "\n".join(f"            {line}" for line in body)
    return f"""import torch


def moved(x):
    return x.add_(1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("freq", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x):
        y = x * 0
        if «x.sum() > 2»:
{arm}
        else:
            {other}
        return {result}


forward = Model()
""".replace("        else:\n            pass\n", "")


def _low() -> tuple[torch.Tensor]:
    return (torch.zeros(3),)


def _high() -> tuple[torch.Tensor]:
    return (torch.ones(3),)


def _layers(
    inner: str = "pass", outer: str = "pass", turn: str = "pass", read: str = "True"
) -> str:
    """Layers that read sizes."""
    return f"""import torch


class Inner(torch.nn.Module):
    def forward(self, x, sizes, **kwargs):
        {inner}
        if {read}:
            parts = «sizes.tolist()»
            x = torch.cat([part.cumsum(0) for part in x.split(parts)])
        return x


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x, sizes, **kwargs):
        {outer}
        return self.inner(x, sizes, **kwargs)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Outer() for _ in range(2)])

    def forward(self, x, sizes):
        for layer in self.layers:
            x = layer(x, sizes)
            {turn}
        return x


forward = Model()
"""


def _sizes() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(4), torch.tensor([1, 3])


CASES = [
    # grouped_experts
    Case("grouped_experts", "index-once", "PG401", _loop(above="index = index.flip(0)"), _inputs),
    Case("grouped_experts", "unchanged", "PG401", _loop(above="mask[0] = 0"), _inputs),
    Case("grouped_experts", "inside", "PG401", _loop(result="output, y"), _inputs),
    Case(
        "grouped_experts",
        "no-group",
        "PG401",
        _loop("if group == 0: continue", "rows = x[token]"),
        _inputs,
    ),
    Case(
        "grouped_experts", "only-added", "PG401", _loop("rows = x[token] + output.sum()"), _inputs
    ),
    Case(
        "grouped_experts",
        "blocks",
        "PG401",
        _loop(scale="scale[token, choice, None, None]"),
        lambda: _inputs(3),
    ),
    # row_wise
    Case(
        "row_wise",
        "rows-alone",
        "PG401",
        _MODULES.replace("BODY", "self.act(x[token] @ weight[group])"),
        _inputs,
    ),
    Case(
        "row_wise",
        "only-call",
        "PG401",
        _MODULES.replace("BODY", "self.layer(x[token], weight[group])").replace(
            "        return output", "        return self.layer(output, weight[0])"
        ),
        _inputs,
    ),
    # state_branch
    Case(
        "state_branch",
        "locals",
        "PG301",
        _registered("y = x + 2", 'self.register_buffer("freq", y)', result="y"),
        _low,
    ),
    Case(
        "state_branch",
        "apart",
        "PG301",
        _registered(
            "z = x * 2",
            'self.register_buffer("freq", z)',
            other="z = x * 3\n            self.register_buffer('freq', z)",
        ).replace("'freq'", '"freq"'),
        _high,
    ),
    Case(
        "state_branch",
        "once",
        "PG301",
        _registered(
            "z = x * 2",
            'self.register_buffer("freq", z)',
            "z = x * 3",
            'self.register_buffer("last", z)',
        ),
        _high,
    ),
    Case(
        "state_branch",
        "set-once",
        "PG301",
        _registered("self.last = x", "z = self.last * 2", 'self.register_buffer("freq", z)'),
        _high,
    ),
    Case(
        "state_branch",
        "both-arms",
        "PG301",
        _registered('self.register_buffer("freq", x.long())'),
        _high,
    ),
    Case(
        "state_branch",
        "called",
        "PG301",
        _registered("z = moved(x)", 'self.register_buffer("freq", z)'),
        _low,
    ),
    # caller_sizes
    Case("caller_sizes", "unchanged", "PG203", _layers(inner="sizes = sizes.flip(0)"), _sizes),
    Case("caller_sizes", "passed-on", "PG203", _layers(outer="sizes = sizes.flip(0)"), _sizes),
    Case("caller_sizes", "same", "PG203", _layers(turn="sizes = sizes.flip(0)"), _sizes),
    Case(
        "caller_sizes",
        "early",
        "PG203",
        _layers(read="sizes is not None"),
        lambda: (torch.ones(4), None),
    ),
    # unique_count
    Case(
        "unique_count",
        "all-values",
        "PG403",
        lines(
            "if «len(torch.unique(x, dim=0))» > 1:",
            "    x = x + 1",
            "return x",
        ),
        lambda: (torch.tensor([[1, 2], [1, 2]]),),
    ),
    Case(
        "unique_count",
        "not-elif",
        "PG403",
        lines(
            "if x is None:",
            "    x = torch.zeros(1)",
            "elif «len(torch.unique(x))» > 1:",
            "    x = x + 1",
            "return x",
        ),
    ),
]
