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
    # unique_count
]
